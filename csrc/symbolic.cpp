#include "symbolic.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "refs.h"
#include "tensors.h"

namespace dynamo_lite {

namespace {

struct Form {
  const char* name;
  Py_ssize_t operands;  // in the tuple, after the name
  int takes;            // numbers from the stack; each leaves one
};

// In the order of SymbolicProgram::Op.
constexpr std::array<Form, 19> kForms{{
    {"size", 2, 0}, {"stride", 2, 0}, {"offset", 1, 0}, {"int", 1, 0}, {"const", 1, 0},
    {"add", 0, 2},  {"mul", 0, 2},    {"floordiv", 0, 2}, {"mod", 0, 2}, {"pow", 0, 2},
    {"min", 0, 2},  {"max", 0, 2},    {"eq", 0, 2},     {"ne", 0, 2},  {"lt", 0, 2},
    {"le", 0, 2},   {"and", 0, 2},    {"or", 0, 2},     {"not", 0, 1},
}};

bool int_value(PyObject* object, std::int64_t& number) noexcept {
  if (!object || !PyLong_Check(object)) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

bool power(std::int64_t& base, std::int64_t exponent) noexcept {
  if (exponent < 0 || exponent > 63) return false;
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return false;
  }
  base = result;
  return true;
}

}  // namespace

std::unique_ptr<SymbolicProgram> SymbolicProgram::of(PyObject* instructions, std::size_t values) {
  const Ref rows = Ref::steal(PySequence_Tuple(instructions));
  if (!rows) return nullptr;
  auto program = std::make_unique<SymbolicProgram>();
  std::size_t depth = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows.get()); ++i) {
    if (!program->add(PyTuple_GET_ITEM(rows.get(), i), values, depth)) return nullptr;
  }
  if (depth == 1) return program;
  PyErr_Format(PyExc_ValueError, "a symbolic program leaves one number, not %zu", depth);
  return nullptr;
}

bool SymbolicProgram::add(PyObject* tuple, std::size_t values, std::size_t& depth) {
  const auto wrong = [tuple] {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%R is no instruction that a symbolic program has here", tuple);
    return false;
  };
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) == 0 || !PyUnicode_Check(PyTuple_GET_ITEM(tuple, 0))) return wrong();
  const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0));
  if (!name) return false;
  const auto form =
      std::find_if(kForms.begin(), kForms.end(), [name](const Form& each) { return std::strcmp(each.name, name) == 0; });
  if (form == kForms.end() || PyTuple_GET_SIZE(tuple) != form->operands + 1) return wrong();
  if (depth < static_cast<std::size_t>(form->takes)) return wrong();
  Instruction instruction{static_cast<Op>(form - kForms.begin())};
  for (Py_ssize_t i = 1; i <= form->operands; ++i) {
    std::int64_t number = 0;
    if (!int_value(PyTuple_GET_ITEM(tuple, i), number)) return wrong();
    const bool is_value = i == 1 && instruction.op != Op::Const;
    if (is_value && (number < 0 || static_cast<std::size_t>(number) >= values)) return wrong();
    if (is_value) {
      instruction.value = static_cast<std::uint32_t>(number);
    } else {
      instruction.operand = number;
    }
  }
  depth = depth - static_cast<std::size_t>(form->takes) + 1;
  if (depth > kDeepest) return wrong();
  instructions_.push_back(instruction);
  return true;
}

bool SymbolicProgram::load(const Instruction& instruction, const std::vector<PyObject*>& values, std::int64_t& number) {
  PyObject* const value = values[instruction.value];
  switch (instruction.op) {
    case Op::Const:
      number = instruction.operand;
      return true;
    case Op::Int:
      return int_value(value, number);
    case Op::Size:
      return value && tensor_size(value, instruction.operand, number);
    case Op::Stride:
      return value && tensor_stride(value, instruction.operand, number);
    default:
      number = value ? storage_offset(value) : -1;
      return number >= 0;
  }
}

bool SymbolicProgram::compute(Op op, std::int64_t& left, std::int64_t right) {
  switch (op) {
    case Op::Add:
      return !__builtin_add_overflow(left, right, &left);
    case Op::Mul:
      return !__builtin_mul_overflow(left, right, &left);
    case Op::FloorDiv:
    case Op::Mod: {
      if (right == 0 || right == -1) return false;  // by -1 the quotient may be out of range
      const std::int64_t rest = left % right;
      const bool down = rest != 0 && (rest < 0) != (right < 0);
      left = op == Op::Mod ? rest + (down ? right : 0) : left / right - (down ? 1 : 0);
      return true;
    }
    case Op::Pow:
      return power(left, right);
    case Op::Min:
      left = std::min(left, right);
      return true;
    case Op::Max:
      left = std::max(left, right);
      return true;
    case Op::Eq:
      left = left == right;
      return true;
    case Op::Ne:
      left = left != right;
      return true;
    case Op::Lt:
      left = left < right;
      return true;
    case Op::Le:
      left = left <= right;
      return true;
    case Op::And:
      left = left != 0 && right != 0;
      return true;
    case Op::Or:
      left = left != 0 || right != 0;
      return true;
    default:
      return false;
  }
}

bool SymbolicProgram::holds(const std::vector<PyObject*>& values, std::string* found) const {
  std::array<std::int64_t, kDeepest> stack;
  std::size_t depth = 0;
  for (const Instruction& instruction : instructions_) {
    if (instruction.op <= Op::Const) {
      if (!load(instruction, values, stack[depth])) return false;
      if (found && instruction.op != Op::Const) {
        if (!found->empty()) *found += ", ";
        *found += std::to_string(stack[depth]);
      }
      ++depth;
    } else if (instruction.op == Op::Not) {
      stack[depth - 1] = stack[depth - 1] == 0;
    } else {
      --depth;
      if (!compute(instruction.op, stack[depth - 1], stack[depth])) return false;
    }
  }
  const bool held = stack[0] != 0;
  if (held && found) found->clear();
  return held;
}

}  // namespace dynamo_lite
