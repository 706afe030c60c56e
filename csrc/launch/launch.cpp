#include "launch/launch.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "heap_type.h"
#include "hook/owners.h"

namespace dynamo_lite {

namespace {

// A backend's callable. Only its first calls need all of it: they may tune and measure, and profilers and other
// compilers' hooks expect it. Later calls go to the innermost code, which takes a list that it empties, with grad mode
// off.
struct Launch {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref whole;       // called with the inputs
  Ref find_inner;  // called once, after the first call: it returns `inner`. Then empty
  Ref inner;       // called with a list of the inputs; empty where there is none (yet)
  Ref written;     // a tuple of the positions of inputs that the code mutates

  auto references() { return std::tie(whole, find_inner, inner, written); }
  void clear() {
    find_inner.reset();
    inner.reset();
    whole = Ref::borrow(Py_None);  // a later call raises that None can't be called
  }
};

// Tells autograd which inputs are about to be mutated. False with an exception set.
bool bump_versions(PyObject* written, PyObject* const* args, Py_ssize_t given) {
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(written); ++at) {
    const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(written, at));
    if (place < 0 || place >= given || !THPVariable_Check(args[place])) {
      if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_TypeError, "input %zd is to be a tensor", place);
      return false;
    }
    const at::Tensor& tensor = THPVariable_Unpack(args[place]);
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();  // others have none
  }
  return true;
}

PyObject* call_inner(const Launch* launch, PyObject* const* args, Py_ssize_t given) {
  if (!bump_versions(launch->written.get(), args, given)) return nullptr;
  const Ref inputs = Ref::steal(PyList_New(given));
  if (!inputs) return nullptr;
  for (Py_ssize_t at = 0; at < given; ++at) PyList_SET_ITEM(inputs.get(), at, Py_NewRef(args[at]));
  const Ref inner = launch->inner;
  const c10::AutoGradMode off(false);
  return hang_at_exit([&] { return PyObject_CallOneArg(inner.get(), inputs.get()); });
}

PyObject* call_whole(Launch* launch, PyObject* const* args, std::size_t count, PyObject* names) {
  const Ref whole = launch->whole;
  Ref result = Ref::steal(hang_at_exit([&] { return PyObject_Vectorcall(whole.get(), args, count, names); }));
  if (!result || !launch->find_inner) return result.release();
  const Ref find_inner = std::exchange(launch->find_inner, {});
  Ref inner = Ref::steal(hang_at_exit([&] { return PyObject_CallNoArgs(find_inner.get()); }));
  if (!inner) return nullptr;
  if (inner.get() != Py_None) launch->inner = std::move(inner);
  return result.release();
}

PyObject* launch_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  Launch* launch = &HeapType<Launch>::of(self);
  if (!launch->inner || names != nullptr || at::hasCallbacks() || !is_unwatched()) {
    return call_whole(launch, args, count, names);
  }
  return call_inner(launch, args, PyVectorcall_NARGS(count));
}

}  // namespace

void register_launch(py::module_& module) {
  HeapType<Launch>(module, "dynamo_lite._C.Launch",
                   {{"whole", T_OBJECT, offsetof(Launch, whole), READONLY, nullptr},
                    {"inner", T_OBJECT, offsetof(Launch, inner), READONLY, nullptr}})
      .def_new(
          [](py::handle, Ref whole, Ref find_inner, py::tuple written) {
            for (PyObject* each : {whole.get(), find_inner.get()}) {
              if (!PyCallable_Check(each)) raise(PyExc_TypeError, "%s can't be called", Py_TYPE(each)->tp_name);
            }
            return HeapType<Launch>::make(launch_call, std::move(whole), std::move(find_inner), Ref(),
                                          Ref::steal(written.release().ptr()));
          },
          py::arg("whole"), py::arg("find_inner"), py::arg("written") = py::tuple());
}

}  // namespace dynamo_lite
