#include "guards/finalizers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpython/frames.h"
#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "hit.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

// A generator that isn't suspended has nothing to finalize.
bool is_finalized(PyObject* value) noexcept {
  const PyTypeObject* type = Py_TYPE(value);
  if (type->tp_finalize == nullptr && type->tp_del == nullptr) return false;
  return type != &PyGen_Type || is_suspended(value);
}

// Whether a module of this name belongs to the standard library, torch or dynamo_lite.
bool is_of_library(PyObject* name) noexcept {
  PyObject* library = PySys_GetObject("stdlib_module_names");
  if (!PyUnicode_Check(name) || library == nullptr || !PyAnySet_Check(library)) return false;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(name);
  const Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, length, 1);
  const Ref root = Ref::steal(PyUnicode_Substring(name, 0, dot < 0 ? length : dot));
  const auto is = [&root](const char* each) { return PyUnicode_CompareWithASCIIString(root.get(), each) == 0; };
  const bool trusted = root && (is("torch") || is("dynamo_lite") || PySet_Contains(library, root.get()) == 1);
  PyErr_Clear();
  return trusted;
}

// The same, with a cache: the last such names are recognized by identity, and kept for the life of the process.
bool is_trusted(PyObject* name) noexcept {
  static std::array<PyObject*, 8> known{};
  static std::size_t next = 0;
  if (std::find(known.begin(), known.end(), name) != known.end()) return true;
  if (!is_of_library(name)) return false;
  put(known[next++ % known.size()], Py_NewRef(name));
  return true;
}

// Whether a callback may be the program's. Those of weak containers are functions of their modules, those of guards are
// objects of ours.
bool is_user_callback(PyObject* callback) noexcept {
  if (callback == nullptr || std::strncmp(Py_TYPE(callback)->tp_name, "dynamo_lite._C.", 15) == 0) return false;
  PyObject* module = PyFunction_Check(callback) ? PyFunction_GET_MODULE(callback) : nullptr;
  return module == nullptr || !is_trusted(module);
}

// Classes, of which the interpreter has weak references, modules and functions in C are watched by libraries.
bool is_watched(PyObject* value) noexcept {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(value))) return false;
  if (PyType_Check(value) || PyModule_Check(value) || PyCFunction_Check(value)) return false;
  for (WeakCallbacks each(value); each.next();) {
    if (is_user_callback(each.callback)) return true;
  }
  return false;
}

}  // namespace

DL_HIT bool is_lifetime_observed(PyObject* value) noexcept {
  return !is_plain(Py_TYPE(value)) && (is_finalized(value) || is_watched(value));
}

}  // namespace dynamo_lite
