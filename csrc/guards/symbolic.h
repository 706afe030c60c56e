// Facts on which a graph with symbolic sizes relies: conditions on sizes, strides, offsets and numbers of several
// values.
//
// Owns: the programs and the numbers that they read. Borrows values for the time of a call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "guards/found.h"
#include "guards/tensors.h"

namespace dynamo_lite {

struct SymbolicOperation;

// Each fact is a program of a small stack machine on 64-bit words: integers, and floats by their bits. It holds if the
// program leaves a number other than 0. An instruction is a tuple of its name and its operands. The table of operations
// in symbolic.cpp has a row for each name:
//   ("size", value, dim), ("stride", value, dim), ("offset", value), ("int", value), ("float", value)
//       read from a value, given by its position
//   ("const", number), ("float_const", number)
//   ("add",), ("not",) and so on: compute with the one or two numbers on top of the stack
//
// The programs are merged into one, which reads and computes each number once. It has registers instead of a stack, one
// for each number. If it reads the same numbers as when all facts held last, all hold.
class SymbolicFacts {
 public:
  // `nodes`: those whose values the program reads. Throws ValueError or TypeError if the sequence isn't a program that
  // leaves one number.
  void add(PyObject* instructions, const std::vector<std::uint32_t>& nodes);
  bool empty() const noexcept { return facts_ == 0; }
  // The nodes whose values are read, without duplicates.
  const std::vector<std::uint32_t>& nodes() const noexcept { return nodes_; }

  // The number of a fact that doesn't hold for the nodes' values; -1 if all do. A fact doesn't hold if a step has no
  // result: a number out of range, a division by zero, a value that is no tensor (of so many dimensions), no int or
  // no float, what Python refuses. `found`, if not null, receives the numbers that the fact read, as a tuple.
  std::ptrdiff_t wrong(const std::vector<PyObject*>& values, Found* found);

 private:
  struct Cell {
    const SymbolicOperation* operation;
    std::uint32_t to;    // a register
    std::uint32_t left;  // a register, or the place of a value
    std::uint32_t right;
    std::int64_t dim;
    std::uint32_t fact : 31;    // the first one that needs it
    std::uint32_t is_held : 1;  // whether that fact is that it is not 0
  };
  using Key = std::tuple<const SymbolicOperation*, std::uint32_t, std::uint32_t, std::int64_t>;

  void add_instruction(PyObject* tuple, const std::vector<std::uint32_t>& places, std::vector<std::uint32_t>& stack);
  std::uint32_t register_of(const SymbolicOperation& operation, std::uint32_t left, std::uint32_t right,
                            std::int64_t number);
  Ref numbers_read(const Cell& wrong) const;

  std::uint32_t facts_ = 0;
  std::vector<std::uint32_t> nodes_;
  std::vector<TensorShape> shapes_;    // of the nodes' values
  std::vector<std::uint32_t> shaped_;  // the places of the values that must be tensors
  std::vector<Cell> loads_;
  std::vector<std::int64_t> held_;  // the numbers that `loads_` read when all facts held last
  bool have_held_ = false;          // whether they have held
  std::vector<Cell> cells_;         // the operations on these numbers, in order
  std::vector<std::int64_t> registers_;
  std::map<Key, std::uint32_t> known_;             // where what was computed already is
  std::vector<std::vector<std::uint32_t>> reads_;  // of each fact: registers of numbers that it reads, in order
};

}  // namespace dynamo_lite
