#include "hook/unwatched.h"

#include <exception>
#include <utility>

#include "cpython/objects.h"
#include "guards/global_state.h"

namespace dynamo_lite {

namespace {

// Calls a user function during a compilation. The program's tracers see the call, and torch modes that the function
// leaves changed are restored. This is a plain C function because pybind11 requires calls to return in reverse order,
// which calls on two greenlets needn't do.
PyObject* call_watched(PyObject*, PyObject* const* args, Py_ssize_t count) try {
  if (count < 1) return PyErr_Format(PyExc_TypeError, "call_watched() takes a function and its arguments");
  const KeptState modes;
  Thread& thread = this_thread();
  PyThreadState* state = PyThreadState_Get();
  const bool unwatched = std::exchange(thread.unwatched, false);
  if (unwatched) end_unwatched(state);
  Ref result = Ref::steal(hang_at_exit(
      [&] { return PyObject_Vectorcall(args[0], args + 1, static_cast<std::size_t>(count - 1), nullptr); }));
  if (unwatched) begin_unwatched(state);
  thread.unwatched = unwatched;
  modes.restore_thread();
  return result.release();
} catch (const std::exception&) {  // raised before or after the call
  set_python_error();
  return nullptr;
}

PyMethodDef call_watched_method = {"call_watched", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_watched)),
                                   METH_FASTCALL, nullptr};

}  // namespace

void register_unwatched(py::module_& module) {
  const Ref watched = checked(Ref::steal(PyCFunction_New(&call_watched_method, nullptr)));
  module.attr("call_watched") = py::handle(watched.get());
}

}  // namespace dynamo_lite
