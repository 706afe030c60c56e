#include "launch/launch.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "heap_type.h"
#include "hook/owners.h"

namespace dynamo_lite {

namespace {

// A backend's callable. The first call runs the whole callable, because it may tune kernels. So do calls under
// profilers or another frame hook, which expect its wrappers. Later calls run only the innermost code, with grad mode
// off; it takes a list of the inputs and empties it.
struct Launch {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref whole;       // called with the inputs
  Ref find_inner;  // returns `inner`; called once, after the first call, and empty from then on
  Ref inner;       // called with a list of the inputs; empty until it is found, or if there is none
  Ref written;     // a tuple: the positions of inputs that the code mutates

  auto references() { return std::tie(whole, find_inner, inner, written); }
  void clear() {
    find_inner.reset();
    inner.reset();
    whole = Ref::borrow(Py_None);  // a later call raises TypeError: None can't be called
  }
};

// Bumps autograd's version counters of the inputs that the code will mutate. False with an exception set.
bool bump_versions(PyObject* written, PyObject* const* args, Py_ssize_t given) {
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(written); ++at) {
    const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(written, at));
    if (place < 0 || place >= given || !THPVariable_Check(args[place])) {
      if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_TypeError, "input %zd must be a tensor", place);
      return false;
    }
    const at::Tensor& tensor = THPVariable_Unpack(args[place]);
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();  // inference tensors have no version
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
  if (!launch->inner || names != nullptr || at::hasCallbacks() || has_other_hook()) {
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
