#include "cpython/thread_locals.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030D0000
#error "the objects below are those of CPython 3.11 and 3.12"
#endif

namespace dynamo_lite {

namespace {

// A threading.local, as far as the key under which a thread's own dict has what belongs to it.
struct Local {
  PyObject_HEAD
  PyObject* key;
};

// What is there.
struct OfThread {
  PyObject_HEAD
  PyObject* dict;
};

// The type _thread._local, kept for the life of the process.
PyTypeObject*& local_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

PyObject* thread_dict_or_none(PyObject*, PyObject* object) {
  PyObject* found = thread_dict(object);
  return Py_NewRef(found == nullptr ? Py_None : found);
}

PyMethodDef functions[] = {
    {"thread_dict", thread_dict_or_none, METH_O, "What a threading.local has on this thread; None: nothing yet."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* thread_dict(PyObject* object) noexcept {
  PyObject* of_thread = PyObject_TypeCheck(object, local_type()) ? PyThreadState_GetDict() : nullptr;
  if (of_thread == nullptr) return nullptr;
  PyObject* found = PyDict_GetItemWithError(of_thread, reinterpret_cast<Local*>(object)->key);
  if (found == nullptr) PyErr_Clear();
  return found == nullptr ? nullptr : reinterpret_cast<OfThread*>(found)->dict;
}

bool register_cpython_locals(PyObject* module) {
  PyObject* threads = PyImport_ImportModule("_thread");
  if (threads == nullptr) return false;
  local_type() = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(threads, "_local"));
  Py_DECREF(threads);
  return local_type() != nullptr && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace dynamo_lite
