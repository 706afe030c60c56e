// What a graph with symbolic sizes relies on: facts about sizes, strides, offsets and integers of several values.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamo_lite {

// A program of a small stack machine on 64-bit integers. An instruction is a tuple of its name and its operands:
//   ("size", value, dim), ("stride", value, dim), ("offset", value), ("int", value)   of a value by its position
//   ("const", number)
//   ("add",), ("mul",), ("floordiv",), ("mod",), ("pow",), ("min",), ("max",)         as Python has them
//   ("eq",), ("ne",), ("lt",), ("le",), ("and",), ("or",), ("not",)                   of and to 0 and 1
class SymbolicProgram {
 public:
  // Null with a ValueError or TypeError set where the sequence is no program that leaves one number. `values`: how many
  // there will be.
  static std::unique_ptr<SymbolicProgram> of(PyObject* instructions, std::size_t values);

  // Whether the number that the program leaves is not 0. False too where a step has no answer: a number out of range, a
  // division by zero, a value that is no tensor (of so many dimensions), or no int. `found`: where not null, receives the
  // numbers that were read.
  bool holds(const std::vector<PyObject*>& values, std::string* found) const;

 private:
  enum class Op : std::uint8_t {
    Size, Stride, Offset, Int, Const,
    Add, Mul, FloorDiv, Mod, Pow, Min, Max, Eq, Ne, Lt, Le, And, Or, Not,
  };
  struct Instruction {
    Op op;
    std::uint32_t value = 0;
    std::int64_t operand = 0;  // a dimension, or the constant
  };
  static constexpr std::size_t kDeepest = 64;

  bool add(PyObject* tuple, std::size_t values, std::size_t& depth);
  static bool load(const Instruction& instruction, const std::vector<PyObject*>& values, std::int64_t& number);
  static bool compute(Op op, std::int64_t& left, std::int64_t right);

  std::vector<Instruction> instructions_;
};

}  // namespace dynamo_lite
