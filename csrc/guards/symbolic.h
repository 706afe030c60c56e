// What a graph with symbolic sizes relies on: facts about sizes, strides, offsets and integers of several values.
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

// Programs of a small stack machine on 64-bit words: integers, and floats by their bits. Each must leave a number that
// is not 0. An instruction is a tuple of its name and its operands; the table of operations in symbolic.cpp has a row
// for each name:
//   ("size", value, dim), ("stride", value, dim), ("offset", value), ("int", value), ("float", value)
//       read from a value, given by its position
//   ("const", number), ("float_const", number)
//   ("add",), ("not",) and so on: compute with the one or two numbers on top of the stack
//
// All are one that reads and computes everything once. It has registers instead of a stack, one for each number. Where
// it reads what it read when all held last, all hold.
class SymbolicFacts {
 public:
  // `nodes`: those whose values the program takes. ValueError or TypeError where the sequence is no program that leaves
  // one number.
  void add(PyObject* instructions, const std::vector<std::uint32_t>& nodes);
  bool empty() const noexcept { return facts_ == 0; }
  // Those whose values are taken, each once.
  const std::vector<std::uint32_t>& nodes() const noexcept { return nodes_; }

  // The number of a fact that does not hold of the nodes' values, -1 if all do. None holds for which a step has
  // no result: a number out of range, a division by zero, a value that is no tensor (of so many dimensions), no int or
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
  std::vector<std::uint32_t> shaped_;  // the places of those that must be tensors
  std::vector<Cell> loads_;
  std::vector<std::int64_t> held_;  // what those read when all facts held last,
  bool have_held_ = false;          // if they did
  std::vector<Cell> cells_;         // what is computed of it, in order
  std::vector<std::int64_t> registers_;
  std::map<Key, std::uint32_t> known_;             // where what was computed already is
  std::vector<std::vector<std::uint32_t>> reads_;  // of each fact: registers of numbers that it reads, in order
};

}  // namespace dynamo_lite
