#include "guards/symbolic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <type_traits>

#include "guards/tensors.h"
#include "heap_type.h"

namespace dynamo_lite {

namespace {

constexpr std::int64_t kExact = std::int64_t{1} << 53;  // up to it each integer is a float
constexpr double kRange = 4611686018427387904.0;        // 2 ** 62

constexpr auto bits_of = std::bit_cast<std::int64_t, double>;
constexpr auto float_of = std::bit_cast<double, std::int64_t>;

bool power(std::int64_t& base, std::int64_t exponent) noexcept {
  if (exponent < 0 || exponent > 63) return false;
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return false;
  }
  base = result;
  return true;
}

// Converts a float that is an integer.
bool exact(double given, std::int64_t& number) noexcept {
  if (!(std::fabs(given) <= kExact)) return false;
  number = static_cast<std::int64_t>(given);
  return true;
}

// The quotient or the rest, rounded down as Python has them.
template <bool is_rest>
bool divide(std::int64_t& left, std::int64_t right) noexcept {
  if (right == 0 || right == -1) return false;  // by -1 the quotient may be out of range
  const std::int64_t rest = left % right;
  const bool down = rest != 0 && (rest < 0) != (right < 0);
  left = is_rest ? rest + (down ? right : 0) : left / right - (down ? 1 : 0);
  return true;
}

bool float_power(std::int64_t& left, std::int64_t right) noexcept {
  const double base = float_of(left), exponent = float_of(right), power = std::pow(base, exponent);
  left = bits_of(power);  // otherwise the result may be complex, or an error
  return base > 0 && std::isfinite(base) && std::isfinite(exponent) && std::isfinite(power);
}

// Operations that always have a result: on integers; on floats, to an integer or a float; on integers in floats.
template <auto function>
bool integers(std::int64_t& left, std::int64_t right) noexcept {
  left = function(left, right);
  return true;
}

template <auto function>
bool floats(std::int64_t& left, std::int64_t right) noexcept {
  const auto found = function(float_of(left), float_of(right));
  if constexpr (std::is_same_v<decltype(found), const double>) {
    left = bits_of(found);
  } else {
    left = found;
  }
  return true;
}

template <bool (*function)(std::int64_t&, std::int64_t) noexcept>
bool integers_in_floats(std::int64_t& left, std::int64_t right) noexcept {
  std::int64_t other = 0;
  return exact(float_of(left), left) && exact(float_of(right), other) && function(left, other);
}

// Operations on one float, to a float that must be finite or to an integer. The second parameter is not used.
template <double (*function)(double)>
bool finite(std::int64_t& number, std::int64_t) noexcept {
  const double found = function(float_of(number));
  number = bits_of(found);
  return std::isfinite(found);
}

template <double (*function)(double)>
bool rounded(std::int64_t& number, std::int64_t) noexcept {
  const double found = function(float_of(number));
  if (!(std::fabs(found) < kRange)) return false;
  number = static_cast<std::int64_t>(found);
  return true;
}

bool float_of_integer(std::int64_t& number, std::int64_t) noexcept {
  if (number < -kExact || number > kExact) return false;
  number = bits_of(static_cast<double>(number));
  return true;
}

template <const std::int64_t* TensorShape::* numbers>
bool load_of_dim(const TensorShape& shape, PyObject*, std::int64_t dim, std::int64_t& number) noexcept {
  if (dim < 0 || dim >= shape.ndim) return false;
  number = (shape.*numbers)[dim];
  return true;
}

bool load_offset(const TensorShape& shape, PyObject*, std::int64_t, std::int64_t& number) noexcept {
  number = shape.offset;
  return number >= 0;
}

bool load_int(const TensorShape&, PyObject* value, std::int64_t, std::int64_t& number) noexcept {
  if (!value || !PyLong_Check(value)) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool load_float(const TensorShape&, PyObject* value, std::int64_t, std::int64_t& number) noexcept {
  if (!value || !PyFloat_CheckExact(value)) return false;
  number = bits_of(PyFloat_AS_DOUBLE(value));
  return true;
}

}  // namespace

enum class Operands : std::uint8_t { Tensor, TensorAndDim, Number, Constant, One, Two };

// A row for each name. If `load` or `compute` returns false there is no number, and the fact doesn't hold.
struct SymbolicOperation {
  const char* name;
  Operands operands;
  bool (*compute)(std::int64_t& left, std::int64_t right) noexcept = nullptr;
  bool (*load)(const TensorShape& shape, PyObject* value, std::int64_t dim, std::int64_t& number) noexcept = nullptr;

  bool is_read() const noexcept { return operands < Operands::Constant; }
  bool is_of_tensor() const noexcept { return operands <= Operands::TensorAndDim; }
  std::size_t taken() const noexcept {  // from the stack
    return operands == Operands::Two ? 2 : operands == Operands::One ? 1 : 0;
  }
  Py_ssize_t in_tuple() const noexcept {  // after the name
    return operands == Operands::TensorAndDim ? 2 : operands < Operands::One ? 1 : 0;
  }
};

namespace {

using Int = std::int64_t;
constexpr Operands kOne = Operands::One, kTwo = Operands::Two;

constexpr SymbolicOperation kPushConstant{"const", Operands::Constant, nullptr, load_int};
constexpr SymbolicOperation kOr{"or", kTwo, integers<[](Int a, Int b) { return a != 0 || b != 0; }>};

const SymbolicOperation kOperations[] = {
    {"size", Operands::TensorAndDim, nullptr, load_of_dim<&TensorShape::sizes>},
    {"stride", Operands::TensorAndDim, nullptr, load_of_dim<&TensorShape::strides>},
    {"offset", Operands::Tensor, nullptr, load_offset},
    {"int", Operands::Number, nullptr, load_int},
    {"float", Operands::Number, nullptr, load_float},
    kPushConstant,
    {"float_const", Operands::Constant, nullptr, load_float},
    // On integers, to integers, as in Python. Conditions are 0 or 1.
    {"add", kTwo, [](Int& a, Int b) noexcept { return !__builtin_add_overflow(a, b, &a); }},
    {"mul", kTwo, [](Int& a, Int b) noexcept { return !__builtin_mul_overflow(a, b, &a); }},
    {"floordiv", kTwo, divide<false>},
    {"mod", kTwo, divide<true>},
    {"pow", kTwo, power},
    {"min", kTwo, integers<[](Int a, Int b) { return std::min(a, b); }>},
    {"max", kTwo, integers<[](Int a, Int b) { return std::max(a, b); }>},
    {"eq", kTwo, integers<std::equal_to<Int>{}>},  // of floats: whether they are the same, bit for bit
    {"ne", kTwo, integers<std::not_equal_to<Int>{}>},
    {"lt", kTwo, integers<std::less<Int>{}>},
    {"le", kTwo, integers<std::less_equal<Int>{}>},
    {"and", kTwo, integers<[](Int a, Int b) { return a != 0 && b != 0; }>},
    kOr,
    {"not", kOne, integers<[](Int a, Int) { return a == 0; }>},
    // On floats: to floats, to conditions, to integers.
    {"float_of", kOne, float_of_integer},  // of an integer
    {"float_add", kTwo, floats<std::plus<double>{}>},
    {"float_sub", kTwo, floats<std::minus<double>{}>},
    {"float_mul", kTwo, floats<std::multiplies<double>{}>},
    {"float_div", kTwo,
     [](Int& a, Int b) noexcept { return floats<std::divides<double>{}>(a, b) && float_of(b) != 0; }},
    {"float_pow", kTwo, float_power},
    {"float_neg", kOne, floats<[](double a, double) { return -a; }>},
    {"float_abs", kOne, floats<[](double a, double) { return std::fabs(a); }>},
    {"float_min", kTwo, floats<[](double a, double b) { return b < a ? b : a; }>},  // a, unless b is less: also of NaN
    {"float_max", kTwo, floats<[](double a, double b) { return a < b ? b : a; }>},
    {"sqrt", kOne, finite<std::sqrt>},
    {"exp", kOne, finite<std::exp>},
    {"log", kOne, finite<std::log>},
    {"sin", kOne, finite<std::sin>},
    {"cos", kOne, finite<std::cos>},
    {"log2", kOne, finite<std::log2>},
    {"log10", kOne, finite<std::log10>},
    {"float_eq", kTwo, floats<std::equal_to<double>{}>},
    {"float_lt", kTwo, floats<std::less<double>{}>},
    {"float_le", kTwo, floats<std::less_equal<double>{}>},
    {"finite", kOne, floats<[](double a, double) { return std::isfinite(a); }>},
    {"trunc", kOne, rounded<std::trunc>},
    {"floor", kOne, rounded<std::floor>},
    {"ceil", kOne, rounded<std::ceil>},
    {"round", kOne, rounded<std::nearbyint>},
    // On integers in floats, to integers.
    {"bit_and", kTwo, integers_in_floats<integers<std::bit_and<Int>{}>>},
    {"bit_or", kTwo, integers_in_floats<integers<std::bit_or<Int>{}>>},
    {"bit_xor", kTwo, integers_in_floats<integers<std::bit_xor<Int>{}>>},
    {"bit_length", kOne,
     [](Int& a, Int) noexcept {
       if (!exact(float_of(a), a)) return false;
       a = a ? 64 - __builtin_clzll(static_cast<unsigned long long>(std::abs(a))) : 0;
       return true;
     }},
};

}  // namespace

void SymbolicFacts::add(PyObject* instructions, const std::vector<std::uint32_t>& nodes) {
  const Ref rows = checked(Ref::steal(PySequence_Tuple(instructions)));
  std::vector<std::uint32_t> places;
  for (const std::uint32_t node : nodes) {
    const auto found = std::find(nodes_.begin(), nodes_.end(), node);
    places.push_back(static_cast<std::uint32_t>(found - nodes_.begin()));
    if (found == nodes_.end()) nodes_.push_back(node);
  }
  std::vector<std::uint32_t> stack;
  reads_.emplace_back();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows.get()); ++i) {
    add_instruction(PyTuple_GET_ITEM(rows.get(), i), places, stack);
  }
  if (stack.size() != 1) raise(PyExc_ValueError, "a symbolic program leaves one number, not %zu", stack.size());
  // A fact that another one computes with, or that is a constant, is copied, so that it has a cell of its own.
  const bool is_own = !cells_.empty() && cells_.back().to == stack.back() && cells_.back().fact == facts_;
  if (!is_own) register_of(kOr, stack.back(), stack.back(), facts_);
  cells_.back().is_held = 1;
  shapes_.resize(nodes_.size());
  ++facts_;
  held_.resize(loads_.size());
  have_held_ = false;
}

// `stack`: the registers of the numbers that the program has computed and not used yet.
void SymbolicFacts::add_instruction(PyObject* tuple, const std::vector<std::uint32_t>& places,
                                    std::vector<std::uint32_t>& stack) {
  PyObject* name = PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0 ? PyTuple_GET_ITEM(tuple, 0) : Py_None;
  const auto has_name = [name](const SymbolicOperation& each) {
    return PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, each.name) == 0;
  };
  const auto row = std::find_if(std::begin(kOperations), std::end(kOperations), has_name);
  bool is_right =
      row != std::end(kOperations) && PyTuple_GET_SIZE(tuple) == row->in_tuple() + 1 && stack.size() >= row->taken();
  std::int64_t numbers[2] = {};  // after the name
  for (Py_ssize_t i = 0; is_right && i < row->in_tuple(); ++i) {
    const auto read = row->operands == Operands::Constant ? row->load : load_int;
    is_right = read({}, PyTuple_GET_ITEM(tuple, i + 1), 0, numbers[i]);
  }
  is_right = is_right && (!row->is_read() || static_cast<std::uint64_t>(numbers[0]) < places.size());
  if (!is_right) raise(PyExc_ValueError, "%R is not an instruction that can follow here", tuple);
  std::uint32_t operands[2] = {};
  for (std::size_t left = row->taken(); left > 0; stack.pop_back()) operands[--left] = stack.back();
  if (row->is_read()) {
    operands[0] = places[static_cast<std::size_t>(numbers[0])];
    const bool is_new = std::find(shaped_.begin(), shaped_.end(), operands[0]) == shaped_.end();
    if (row->is_of_tensor() && is_new) shaped_.push_back(operands[0]);
  }
  const SymbolicOperation& operation = row->operands == Operands::Constant ? kPushConstant : *row;
  stack.push_back(register_of(operation, operands[0], operands[1], numbers[row->is_read() ? 1 : 0]));
  if (row->is_read()) reads_.back().push_back(stack.back());
}

std::uint32_t SymbolicFacts::register_of(const SymbolicOperation& operation, std::uint32_t left, std::uint32_t right,
                                         std::int64_t number) {
  const auto [place, is_new] =
      known_.try_emplace({&operation, left, right, number}, static_cast<std::uint32_t>(registers_.size()));
  if (!is_new) return place->second;
  const bool is_constant = operation.operands == Operands::Constant;
  registers_.push_back(is_constant ? number : 0);
  if (!is_constant) {
    auto& cells = operation.is_read() ? loads_ : cells_;
    cells.push_back({&operation, place->second, left, right, number, facts_, 0});
  }
  return place->second;
}

std::ptrdiff_t SymbolicFacts::wrong(const std::vector<PyObject*>& values, Found* found) {
  for (const std::uint32_t place : shaped_) {
    shapes_[place] = values[place] ? shape_of(values[place]) : TensorShape{};
  }
  bool changed = !have_held_;
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    const Cell& cell = loads_[i];
    std::int64_t& to = registers_[cell.to];
    if (!cell.operation->load(shapes_[cell.left], values[cell.left], cell.dim, to)) {
      if (found) found->value = numbers_read(cell);
      return cell.fact;
    }
    changed = changed || to != held_[i];
  }
  if (!changed) return -1;
  for (const Cell& cell : cells_) {
    std::int64_t& to = registers_[cell.to];
    to = registers_[cell.left];
    if (cell.operation->compute(to, registers_[cell.right]) && (!cell.is_held || to != 0)) continue;
    if (found) found->value = numbers_read(cell);
    return cell.fact;
  }
  for (std::size_t i = 0; i < loads_.size(); ++i) held_[i] = registers_[loads_[i].to];
  have_held_ = true;
  return -1;
}

// A tuple of the numbers that the fact read before it failed.
Ref SymbolicFacts::numbers_read(const Cell& wrong) const {
  const Ref numbers = checked(Ref::steal(PyList_New(0)));
  for (const std::uint32_t read : reads_[wrong.fact]) {
    if (read == wrong.to) break;
    const auto from = std::find_if(loads_.begin(), loads_.end(), [read](const Cell& each) { return each.to == read; });
    const bool is_float = from->operation->load == load_float;
    const std::int64_t bits = registers_[read];
    const Ref number = is_float ? checked(Ref::steal(PyFloat_FromDouble(float_of(bits)))) : int_of(bits);
    if (PyList_Append(numbers.get(), number.get()) != 0) throw py::error_already_set();
  }
  return checked(Ref::steal(PyList_AsTuple(numbers.get())));
}

}  // namespace dynamo_lite
