#include "guards/symbolic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "guards/tensors.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

struct Form {
  const char* name;
  Py_ssize_t operands;  // in the tuple, after the name
  int takes;            // numbers from the stack; each leaves one
};

// In the order of SymbolicProgram::Op.
// clang-format off
constexpr std::array<Form, 54> kForms{{
    {"size", 2, 0},      {"stride", 2, 0},    {"offset", 1, 0},    {"int", 1, 0},       {"float", 1, 0},
    {"const", 1, 0},     {"float_const", 1, 0},
    {"add", 0, 2},       {"mul", 0, 2},       {"floordiv", 0, 2},  {"mod", 0, 2},       {"pow", 0, 2},
    {"min", 0, 2},       {"max", 0, 2},       {"eq", 0, 2},        {"ne", 0, 2},        {"lt", 0, 2},
    {"le", 0, 2},        {"and", 0, 2},       {"or", 0, 2},
    {"float_add", 0, 2}, {"float_sub", 0, 2}, {"float_mul", 0, 2}, {"float_div", 0, 2}, {"float_pow", 0, 2},
    {"float_eq", 0, 2},  {"float_lt", 0, 2},  {"float_le", 0, 2},
    {"gcd", 0, 2},       {"lcm", 0, 2},       {"bit_and", 0, 2},   {"bit_or", 0, 2},    {"bit_xor", 0, 2},
    {"int_round", 0, 2},
    {"not", 0, 1},       {"float_neg", 0, 1}, {"float_abs", 0, 1}, {"sqrt", 0, 1},      {"exp", 0, 1},
    {"log", 0, 1},       {"sin", 0, 1},       {"cos", 0, 1},       {"tanh", 0, 1},      {"log2", 0, 1},
    {"log10", 0, 1},     {"finite", 0, 1},
    {"float_of", 0, 1},  {"trunc", 0, 1},     {"floor", 0, 1},     {"ceil", 0, 1},      {"round", 0, 1},
    {"bit_length", 0, 1}, {"bit_count", 0, 1}, {"factorial", 0, 1},
}};
// clang-format on

constexpr std::int64_t kExact = std::int64_t{1} << 53;  // up to it each integer is a float
constexpr double kRange = 4611686018427387904.0;        // 2 ** 62

std::int64_t bits_of(double number) noexcept {
  std::int64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

double float_of(std::int64_t bits) noexcept {
  double number;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

bool float_bits(PyObject* object, std::int64_t& bits) noexcept {
  if (!object || !PyFloat_CheckExact(object)) return false;
  bits = bits_of(PyFloat_AS_DOUBLE(object));
  return true;
}

std::string float_text(std::int64_t bits) {
  char* const text = PyOS_double_to_string(float_of(bits), 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  if (!text) {
    PyErr_Clear();
    return "a float";
  }
  std::string found(text);
  PyMem_Free(text);
  return found;
}

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

// An integer that a float is.
bool exact(double given, std::int64_t& number) noexcept {
  if (!(std::fabs(given) <= kExact)) return false;
  number = static_cast<std::int64_t>(given);
  return true;
}

// The greatest common divisor, or the least common multiple.
bool divide_in_common(bool multiple, std::int64_t& found, std::int64_t left, std::int64_t right) noexcept {
  found = std::gcd(left, right);
  if (!multiple || found == 0) return true;
  return !__builtin_mul_overflow(std::abs(left) / found, std::abs(right), &found);
}

// To the nearest multiple of a power of ten, ties to the even one, as `int.__round__` has it.
bool round_to(std::int64_t& number, std::int64_t digits) noexcept {
  if (digits >= 0) return true;
  std::int64_t unit = 10;
  if (!power(unit, -digits) || unit > kExact) return false;
  const std::int64_t rest = std::abs(number % unit), down = std::abs(number) - rest;
  const bool up = 2 * rest > unit || (2 * rest == unit && (down / unit) % 2 != 0);
  number = (number < 0 ? -1 : 1) * (down + (up ? unit : 0));
  return true;
}

bool factorial(std::int64_t& number) noexcept {
  if (number < 0 || number > 18) return false;  // of greater ones it is no float
  std::int64_t product = 1;
  for (; number > 1; --number) product *= number;
  number = product;
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
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_ValueError, "%R is no instruction that a symbolic program has here", tuple);
    return false;
  };
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) == 0 || !PyUnicode_Check(PyTuple_GET_ITEM(tuple, 0)))
    return wrong();
  const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0));
  if (!name) return false;
  const auto form = std::find_if(kForms.begin(), kForms.end(),
                                 [name](const Form& each) { return std::strcmp(each.name, name) == 0; });
  if (form == kForms.end() || PyTuple_GET_SIZE(tuple) != form->operands + 1) return wrong();
  if (depth < static_cast<std::size_t>(form->takes)) return wrong();
  Instruction instruction{static_cast<Op>(form - kForms.begin())};
  for (Py_ssize_t i = 1; i <= form->operands; ++i) {
    std::int64_t number = 0;
    const auto read = instruction.op == Op::FloatConst ? float_bits : int_value;
    if (!read(PyTuple_GET_ITEM(tuple, i), number)) return wrong();
    const bool is_value = i == 1 && instruction.op < Op::Const;
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

inline bool SymbolicFacts::load(const Cell& cell, PyObject* value, std::int64_t& number) const noexcept {
  const TensorShape& shape = shapes_[cell.left];
  switch (cell.op) {
    case Op::Int:
      return int_value(value, number);
    case Op::Float:
      return float_bits(value, number);
    case Op::Offset:
      number = shape.offset;
      return number >= 0;
    default:
      if (cell.dim < 0 || cell.dim >= shape.ndim) return false;
      number = (cell.op == Op::Size ? shape.sizes : shape.strides)[cell.dim];
      return true;
  }
}

bool SymbolicFacts::compute(Op op, std::int64_t& left, std::int64_t right) {
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
      return compute_floats(op, left, float_of(left), float_of(right));
  }
}

bool SymbolicFacts::compute_floats(Op op, std::int64_t& left, double one, double other) {
  switch (op) {
    case Op::FloatAdd:
      left = bits_of(one + other);
      return true;
    case Op::FloatSub:
      left = bits_of(one - other);
      return true;
    case Op::FloatMul:
      left = bits_of(one * other);
      return true;
    case Op::FloatDiv:
      left = bits_of(one / other);
      return other != 0;
    case Op::FloatPow: {  // of others the result may be complex, or an error
      const double power = std::pow(one, other);
      left = bits_of(power);
      return one > 0 && std::isfinite(one) && std::isfinite(other) && std::isfinite(power);
    }
    case Op::FloatEq:
      left = one == other;
      return true;
    case Op::FloatLt:
      left = one < other;
      return true;
    case Op::FloatLe:
      left = one <= other;
      return true;
    default: {
      std::int64_t right = 0;
      return exact(one, left) && exact(other, right) && compute_integers(op, left, right);
    }
  }
}

bool SymbolicFacts::compute_integers(Op op, std::int64_t& left, std::int64_t right) {
  switch (op) {
    case Op::Gcd:
    case Op::Lcm:
      return divide_in_common(op == Op::Lcm, left, left, right);
    case Op::BitAnd:
      left &= right;
      return true;
    case Op::BitOr:
      left |= right;
      return true;
    case Op::BitXor:
      left ^= right;
      return true;
    case Op::IntRound:
      return round_to(left, right);
    default:
      return false;
  }
}

bool SymbolicFacts::compute_of_one(Op op, std::int64_t& number) {
  const double given = float_of(number);
  const auto real = [&number](double found) {
    number = bits_of(found);
    return std::isfinite(found);
  };
  const auto integer = [&number](double found) {
    if (!(std::fabs(found) < kRange)) return false;
    number = static_cast<std::int64_t>(found);
    return true;
  };
  switch (op) {
    case Op::Not:
      number = number == 0;
      return true;
    case Op::FloatNeg:
      number = bits_of(-given);
      return true;
    case Op::FloatAbs:
      number = bits_of(std::fabs(given));
      return true;
    case Op::Sqrt:
      return real(std::sqrt(given));
    case Op::Exp:
      return real(std::exp(given));
    case Op::Log:
      return real(std::log(given));
    case Op::Sin:
      return real(std::sin(given));
    case Op::Cos:
      return real(std::cos(given));
    case Op::Tanh:
      return real(std::tanh(given));
    case Op::Log2:
      return real(std::log2(given));
    case Op::Log10:
      return real(std::log10(given));
    case Op::Finite:
      number = std::isfinite(given);
      return true;
    case Op::FloatOf:
      if (number < -kExact || number > kExact) return false;
      return real(static_cast<double>(number));
    case Op::Trunc:
      return integer(std::trunc(given));
    case Op::Floor:
      return integer(std::floor(given));
    case Op::Ceil:
      return integer(std::ceil(given));
    case Op::Round:
      return integer(std::nearbyint(given));
    case Op::BitLength:
      if (!exact(given, number)) return false;
      number = number ? 64 - __builtin_clzll(static_cast<unsigned long long>(std::abs(number))) : 0;
      return true;
    case Op::BitCount:
      if (!exact(given, number)) return false;
      number = __builtin_popcountll(static_cast<unsigned long long>(std::abs(number)));
      return true;
    case Op::Factorial:
      return exact(given, number) && factorial(number);
    default:
      return false;
  }
}

void SymbolicFacts::add(const SymbolicProgram& program, const std::vector<std::uint32_t>& nodes) {
  std::vector<std::uint32_t> places;
  for (const std::uint32_t node : nodes) {
    const auto found = std::find(nodes_.begin(), nodes_.end(), node);
    places.push_back(static_cast<std::uint32_t>(found - nodes_.begin()));
    if (found == nodes_.end()) nodes_.push_back(node);
  }
  std::vector<std::uint32_t> stack;
  auto& reads = reads_.emplace_back();
  for (const auto& [op, value, number] : program.instructions_) {
    if (op < Op::Const) {
      const std::uint32_t place = places[value];
      const bool is_tensor = op <= Op::Offset;
      if (is_tensor && std::find(shaped_.begin(), shaped_.end(), place) == shaped_.end()) shaped_.push_back(place);
      stack.push_back(register_of(op, place, 0, number));
      reads.push_back(stack.back());
    } else if (op <= Op::FloatConst) {
      stack.push_back(register_of(Op::Const, 0, 0, number));
    } else if (op >= Op::Not) {
      stack.back() = register_of(op, stack.back(), 0, 0);
    } else {
      const std::uint32_t right = stack.back();
      stack.pop_back();
      stack.back() = register_of(op, stack.back(), right, 0);
    }
  }
  // A fact of which something else is made, or a constant, is copied to be looked at.
  const bool is_own = !cells_.empty() && cells_.back().to == stack.back() && cells_.back().fact == facts_;
  if (!is_own) register_of(Op::Or, stack.back(), stack.back(), facts_);
  cells_.back().is_held = 1;
  shapes_.resize(nodes_.size());
  ++facts_;
  held_.resize(loads_.size());
  have_held_ = false;
}

std::uint32_t SymbolicFacts::register_of(Op op, std::uint32_t left, std::uint32_t right, std::int64_t number) {
  const auto [place, is_new] =
      known_.try_emplace({op, left, right, number}, static_cast<std::uint32_t>(registers_.size()));
  if (is_new) {
    registers_.push_back(op == Op::Const ? number : 0);
    if (op != Op::Const)
      (op < Op::Const ? loads_ : cells_).push_back({op, place->second, left, right, number, facts_, 0});
  }
  return place->second;
}

std::ptrdiff_t SymbolicFacts::wrong(const std::vector<PyObject*>& values, std::string* found) noexcept {
  for (const std::uint32_t place : shaped_) {
    shapes_[place] = values[place] ? shape_of(values[place]) : TensorShape{};
  }
  bool changed = !have_held_;
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    const Cell& cell = loads_[i];
    std::int64_t& to = registers_[cell.to];
    if (!load(cell, values[cell.left], to)) {
      if (found) *found = in_words(cell);
      return cell.fact;
    }
    changed = changed || to != held_[i];
  }
  if (!changed) return -1;
  for (const Cell& cell : cells_) {
    std::int64_t& to = registers_[cell.to];
    to = registers_[cell.left];
    const bool answered =
        cell.op >= Op::Not ? compute_of_one(cell.op, to) : compute(cell.op, to, registers_[cell.right]);
    if (answered && (!cell.is_held || to != 0)) continue;
    if (found) *found = in_words(cell);
    return cell.fact;
  }
  for (std::size_t i = 0; i < loads_.size(); ++i) held_[i] = registers_[loads_[i].to];
  have_held_ = true;
  return -1;
}

// The numbers that the fact read, as far as it came.
std::string SymbolicFacts::in_words(const Cell& wrong) const {
  std::string text;
  for (const std::uint32_t read : reads_[wrong.fact]) {
    if (read == wrong.to) break;
    const auto from = std::find_if(loads_.begin(), loads_.end(), [read](const Cell& each) { return each.to == read; });
    if (!text.empty()) text += ", ";
    text += from->op == Op::Float ? float_text(registers_[read]) : std::to_string(registers_[read]);
  }
  return text;
}

}  // namespace dynamo_lite
