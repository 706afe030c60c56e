#include "launch/launch.h"

#include <structmember.h>

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "hook/eval_frame.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

// A backend's callable. What it was made of does more than the kernels need: the first call may still tune and measure,
// and profilers and other compilers' hooks are to see what they always saw. The others call the innermost code, which
// takes a list that it empties, with grad mode off.
struct Launch {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* whole;    // owned; called with the inputs
  PyObject* settle;   // owned; called once after the first call, for `inner`; null since then
  PyObject* inner;    // owned; called with a list of the inputs; null where there is none (yet)
  PyObject* written;  // owned; a tuple of the positions of inputs that the code writes into
};

Launch* self_launch(PyObject* self) { return reinterpret_cast<Launch*>(self); }

// Tells autograd that the inputs which are written to are not what they were. False with an exception set.
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
  if (!bump_versions(launch->written, args, given)) return nullptr;
  const Ref inputs = Ref::steal(PyList_New(given));
  if (!inputs) return nullptr;
  for (Py_ssize_t at = 0; at < given; ++at) PyList_SET_ITEM(inputs.get(), at, Py_NewRef(args[at]));
  const Ref inner = Ref::borrow(launch->inner);
  const c10::AutoGradMode off(false);
  return staying([&] { return PyObject_CallOneArg(inner.get(), inputs.get()); });
}

PyObject* call_whole(Launch* launch, PyObject* const* args, std::size_t count, PyObject* names) {
  const Ref whole = Ref::borrow(launch->whole);
  Ref result = Ref::steal(staying([&] { return PyObject_Vectorcall(whole.get(), args, count, names); }));
  if (!result || launch->settle == nullptr) return result.release();
  const Ref settle = Ref::steal(std::exchange(launch->settle, nullptr));
  Ref inner = Ref::steal(staying([&] { return PyObject_CallNoArgs(settle.get()); }));
  if (!inner) return nullptr;
  if (inner.get() != Py_None) put(launch->inner, inner.release());
  return result.release();
}

PyObject* launch_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  Launch* launch = self_launch(self);
  if (launch->inner == nullptr || names != nullptr || at::hasCallbacks() || !is_unwatched()) {
    return call_whole(launch, args, count, names);
  }
  return call_inner(launch, args, PyVectorcall_NARGS(count));
}

PyObject* launch_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"whole", "settle", "written", nullptr};
  PyObject* whole = nullptr;
  PyObject* settle = nullptr;
  PyObject* written = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O!", const_cast<char**>(names), &whole, &settle, &PyTuple_Type,
                                   &written)) {
    return nullptr;
  }
  for (PyObject* each : {whole, settle}) {
    if (!PyCallable_Check(each)) return PyErr_Format(PyExc_TypeError, "%s can't be called", Py_TYPE(each)->tp_name);
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  self_launch(self)->vectorcall = launch_call;
  self_launch(self)->whole = Py_NewRef(whole);
  self_launch(self)->settle = Py_NewRef(settle);
  self_launch(self)->written = written == nullptr ? PyTuple_New(0) : Py_NewRef(written);
  return self;
}

int launch_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_launch(self)->whole);
  Py_VISIT(self_launch(self)->settle);
  Py_VISIT(self_launch(self)->inner);
  Py_VISIT(self_launch(self)->written);
  return 0;
}

int launch_clear(PyObject* self) {
  clear(self_launch(self)->settle);
  clear(self_launch(self)->inner);
  put(self_launch(self)->whole, Py_NewRef(Py_None));  // whoever still calls it is told that this can't be called
  return 0;
}

void launch_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  launch_clear(self);
  clear(self_launch(self)->whole);
  clear(self_launch(self)->written);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef launch_members[] = {
    {"whole", T_OBJECT, offsetof(Launch, whole), READONLY, nullptr},
    {"inner", T_OBJECT, offsetof(Launch, inner), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launch, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot launch_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(launch_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(launch_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(launch_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(launch_dealloc)},
    {Py_tp_members, launch_members},
    {0, nullptr},
};
PyType_Spec launch_spec = {"dynamo_lite._C.Launch", sizeof(Launch), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, launch_slots};

}  // namespace

bool register_launch(PyObject* module) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&launch_spec));
  return type != nullptr && PyModule_AddType(module, type) == 0;
}

}  // namespace dynamo_lite
