#include "launch/sequence.h"

#include <pybind11/stl.h>

#include <exception>
#include <tuple>
#include <utility>
#include <vector>

#include "heap_type.h"

namespace dynamo_lite {

namespace {

// Numbers of values: first the inputs, then the results of the steps in order.
using Numbers = std::vector<std::size_t>;

struct Step {
  Ref call;
  Numbers takes;
  std::size_t makes;
  Numbers drops;  // values whose last use is this step
};

struct Sequence {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  std::size_t inputs;
  std::vector<Step> steps;
  Numbers results;

  auto references() { return std::tie(); }
  int traverse(visitproc visit, void* arg) const {
    for (const Step& step : steps) Py_VISIT(step.call.get());
    return 0;
  }
  void clear() { std::vector<Step>().swap(steps); }
};

// Runs a step and appends its results to the values. False with an exception set.
bool run_step(const Step& step, std::vector<Ref>& values) {
  std::vector<PyObject*> arguments;
  arguments.reserve(step.takes.size());
  for (const std::size_t at : step.takes) arguments.push_back(values[at].get());
  const Ref made = Ref::steal(
      hang_at_exit([&] { return PyObject_Vectorcall(step.call.get(), arguments.data(), arguments.size(), nullptr); }));
  if (!made) return false;
  const bool is_sequence = PyTuple_Check(made.get()) || PyList_Check(made.get());
  if (!is_sequence || static_cast<std::size_t>(PySequence_Fast_GET_SIZE(made.get())) != step.makes) {
    PyErr_Format(PyExc_TypeError, "a step returned %R instead of %zu values", made.get(), step.makes);
    return false;
  }
  for (std::size_t at = 0; at < step.makes; ++at) {
    values.push_back(Ref::borrow(PySequence_Fast_GET_ITEM(made.get(), static_cast<Py_ssize_t>(at))));
  }
  for (const std::size_t at : step.drops) values[at].reset();
  return true;
}

PyObject* run(const Sequence& sequence, PyObject* const* args, std::size_t given) {
  if (given != sequence.inputs) {
    return PyErr_Format(PyExc_TypeError, "expected %zu inputs, got %zu", sequence.inputs, given);
  }
  std::vector<Ref> values;
  values.reserve(given + 2 * sequence.steps.size());
  for (std::size_t at = 0; at < given; ++at) values.push_back(Ref::borrow(args[at]));
  for (const Step& step : sequence.steps) {
    if (!run_step(step, values)) return nullptr;
  }
  Ref results = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(sequence.results.size())));
  if (!results) return nullptr;
  for (std::size_t at = 0; at < sequence.results.size(); ++at) {
    PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(at), Py_NewRef(values[sequence.results[at]].get()));
  }
  return results.release();
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (names != nullptr) return PyErr_Format(PyExc_TypeError, "takes no keyword arguments");
  const Ref kept = Ref::borrow(self);
  try {
    return run(HeapType<Sequence>::of(self), args, static_cast<std::size_t>(PyVectorcall_NARGS(count)));
  } catch (const std::exception&) {
    set_python_error();
    return nullptr;
  }
}

// Creates a Sequence. Checks that values are produced before they are used, and finds the last use of every value by
// walking the steps backwards.
Ref make(py::handle, std::size_t inputs, const py::list& given, Numbers results) {
  std::vector<Step> steps;
  std::size_t known = inputs;
  const auto check = [&](const Numbers& numbers) {
    for (const std::size_t at : numbers) {
      if (at >= known) raise(PyExc_ValueError, "value %zu is used before it is produced", at);
    }
  };
  for (const py::handle& each : given) {
    auto [fn, takes, makes] = each.cast<std::tuple<py::object, Numbers, std::size_t>>();
    if (!PyCallable_Check(fn.ptr())) raise(PyExc_TypeError, "%s can't be called", Py_TYPE(fn.ptr())->tp_name);
    check(takes);
    known += makes;
    steps.push_back({Ref::steal(fn.release().ptr()), std::move(takes), makes, {}});
  }
  check(results);
  std::vector<bool> used(known, false);
  for (const std::size_t at : results) used[at] = true;
  for (std::size_t left = steps.size(); left > 0; --left) {
    Step& step = steps[left - 1];
    known -= step.makes;
    for (std::size_t at = known; at < known + step.makes; ++at) {
      if (!used[at]) step.drops.push_back(at);
    }
    for (const std::size_t at : step.takes) {
      if (!used[at]) step.drops.push_back(at);
      used[at] = true;
    }
  }
  return HeapType<Sequence>::make(call, inputs, std::move(steps), std::move(results));
}

}  // namespace

void register_sequence(py::module_& module) {
  HeapType<Sequence>(module, "dynamo_lite._C.Sequence")
      .def_new(make, py::arg("inputs"), py::arg("steps"), py::arg("results"));
}

}  // namespace dynamo_lite
