// What a graph with symbolic sizes relies on: facts about sizes, strides, offsets and integers of several values.
#pragma once

#include <Python.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "guards/tensors.h"

namespace dynamo_lite {

// A program of a small stack machine on 64-bit words: integers, and floats by their bits. An instruction is a tuple of
// its name and its operands:
//   ("size", value, dim), ("stride", value, dim), ("offset", value), ("int", value)   of a value by its position
//   ("const", number)
//   ("add",), ("mul",), ("floordiv",), ("mod",), ("pow",), ("min",), ("max",)         as Python has them
//   ("eq",), ("ne",), ("lt",), ("le",), ("and",), ("or",), ("not",)                   of and to 0 and 1
//   ("float", value), ("float_const", number)                                         floats
//   ("float_add",), ("float_sub",), ("float_mul",), ("float_div",), ("float_pow",), ("float_neg",), ("float_abs",),
//   ("sqrt",), ("exp",), ("log",), ("sin",), ("cos",), ("tanh",), ("log2",), ("log10",)   of and to floats, likewise
//   ("float_eq",), ("float_lt",), ("float_le",), ("finite",)                          of floats, to 0 and 1
//   ("float_of",)                                                                     of an integer
//   ("gcd",), ("lcm",), ("bit_and",), ("bit_or",), ("bit_xor",), ("int_round",),      of integers in floats, to an
//   integer
//   ("bit_length",), ("bit_count",), ("factorial",)
//   ("trunc",), ("floor",), ("ceil",), ("round",)                                     of a float, to an integer
// "eq" of two floats: whether they are the same, bit for bit.
class SymbolicProgram {
 public:
  // Null with a ValueError or TypeError set where the sequence is no program that leaves one number. `values`: how many
  // there will be.
  static std::unique_ptr<SymbolicProgram> of(PyObject* instructions, std::size_t values);

 private:
  friend class SymbolicFacts;
  enum class Op : std::uint8_t {
    Size,
    Stride,
    Offset,
    Int,
    Float,
    Const,
    FloatConst,
    Add,
    Mul,
    FloorDiv,
    Mod,
    Pow,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    And,
    Or,
    FloatAdd,
    FloatSub,
    FloatMul,
    FloatDiv,
    FloatPow,
    FloatEq,
    FloatLt,
    FloatLe,
    Gcd,
    Lcm,
    BitAnd,
    BitOr,
    BitXor,
    IntRound,
    Not,
    FloatNeg,
    FloatAbs,
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tanh,
    Log2,
    Log10,
    Finite,
    FloatOf,
    Trunc,
    Floor,
    Ceil,
    Round,
    BitLength,
    BitCount,
    Factorial,
  };
  struct Instruction {
    Op op;
    std::uint32_t value = 0;
    std::int64_t operand = 0;  // a dimension, or the constant (of a float: its bits)
  };
  static constexpr std::size_t kDeepest = 64;

  bool add(PyObject* tuple, std::size_t values, std::size_t& depth);

  std::vector<Instruction> instructions_;
};

// Programs of which each must leave a number that is not 0, as one that reads and computes everything once.
//
// It has registers instead of a stack, one for each number. Where it reads what it read when all held last, all hold.
class SymbolicFacts {
 public:
  // `nodes`: those whose values the program takes.
  void add(const SymbolicProgram& program, const std::vector<std::uint32_t>& nodes);
  bool empty() const noexcept { return facts_ == 0; }
  // Those whose values are taken, each once.
  const std::vector<std::uint32_t>& nodes() const noexcept { return nodes_; }

  // The number of a fact that does not hold of the nodes' values, -1 if all do. None holds for which a step has
  // no result: a number out of range, a division by zero, a value that is no tensor (of so many dimensions), no int or
  // no float, what Python refuses. `found`: where not null, receives the numbers that the fact read.
  std::ptrdiff_t wrong(const std::vector<PyObject*>& values, std::string* found) noexcept;

 private:
  using Op = SymbolicProgram::Op;
  struct Cell {
    Op op;
    std::uint32_t to;    // a register
    std::uint32_t left;  // a register, or the place of a value
    std::uint32_t right;
    std::int64_t dim;
    std::uint32_t fact : 31;    // the first one that needs it
    std::uint32_t is_held : 1;  // whether that fact is that it is not 0
  };
  using Key = std::tuple<Op, std::uint32_t, std::uint32_t, std::int64_t>;

  std::uint32_t register_of(Op op, std::uint32_t left, std::uint32_t right, std::int64_t number);
  std::string in_words(const Cell& wrong) const;
  bool load(const Cell& cell, PyObject* value, std::int64_t& number) const noexcept;
  static bool compute(Op op, std::int64_t& left, std::int64_t right);
  static bool compute_floats(Op op, std::int64_t& left, double one, double other);
  static bool compute_integers(Op op, std::int64_t& left, std::int64_t right);
  static bool compute_of_one(Op op, std::int64_t& number);

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
