// Reads the fields of builtin objects, and returns the addresses of these fields: functions, methods, cells, slot
// members, tuples, sets, ranges, slices, weak references and threading.local.
//
// A "word" is the address of a pointer inside an object. It is valid while the object is alive and, if the object has a
// variable size, its size is unchanged. Objects are borrowed unless the comment says otherwise. Nothing here runs
// Python.
#pragma once

#include <Python.h>

#include <cstddef>

#include "cpython/version.h"

#if PY_VERSION_HEX >= 0x030D0000  // exported, but declared in an internal header
extern "C" int _PySet_NextEntry(PyObject*, Py_ssize_t*, PyObject**, Py_hash_t*);
#endif

namespace dynamo_lite {

inline const void* type_word(PyObject* object) noexcept { return &object->ob_type; }
inline const void* size_word(PyObject* object) noexcept { return &reinterpret_cast<PyVarObject*>(object)->ob_size; }
inline PyObject** tuple_items(PyObject* tuple) noexcept { return reinterpret_cast<PyTupleObject*>(tuple)->ob_item; }
inline PyObject* const* cell_word(PyObject* cell) noexcept { return &reinterpret_cast<PyCellObject*>(cell)->ob_ref; }

// An index into the table of attributes that are read from the object's struct instead of by calling a getter.
using Field = std::size_t;
Field field_named(PyObject* name) noexcept;

// The word that the attribute `name` reads: a field of a function, method or heap type, or a member of an instance of
// an immutable type. Null for any other attribute. For a type it is valid while the version of its metaclass is
// unchanged. If the word contains a null pointer, the attribute is None.
PyObject* const* field_word(PyObject* object, Field field, PyObject* name) noexcept;

// The word that a member descriptor of the object's class reads; null if the member isn't a single pointer.
PyObject* const* slot_word(PyObject* object, PyObject* descriptor) noexcept;
// The value that a member descriptor reads; a new reference. Null if the slot is empty (an exception may be set), or if
// the object isn't an instance of the descriptor's class (`applies` is false then).
PyObject* read_slot(PyObject* object, PyObject* descriptor, bool& applies) noexcept;

inline PyObject* function_closure(PyObject* function) noexcept {
  return reinterpret_cast<PyFunctionObject*>(function)->func_closure;
}
inline PyObject* function_qualname(PyObject* function) noexcept {
  return reinterpret_cast<PyFunctionObject*>(function)->func_qualname;
}
// Creates a function with these namespaces. `closure`: a tuple of cells; null or None for no closure. Returns a new
// reference; null with an exception set.
PyObject* new_function(PyObject* code, PyObject* globals, PyObject* builtins, PyObject* closure) noexcept;

// The function with which to call an object. PyObject_Vectorcall checks the result, which Python functions don't need.
inline vectorcallfunc vectorcall_of(PyObject* callable) noexcept {
  return PyFunction_Check(callable) ? reinterpret_cast<PyFunctionObject*>(callable)->vectorcall : PyObject_Vectorcall;
}

// Start, stop and step of a range or a slice.
PyObject* const* bounds_of(PyObject* range_or_slice) noexcept;

// Iterates over a set or frozenset, in its own order.
class SetItems {
 public:
  explicit SetItems(PyObject* set) noexcept : set_(set) {}
  bool next() noexcept;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;

 private:
  PyObject* set_;
  Py_ssize_t position_ = 0;
};

// The object that a weak reference refers to; None once it is deallocated. Borrowed.
inline PyObject* weak_referent(PyObject* reference) noexcept {
  PyObject* referent = reinterpret_cast<PyWeakReference*>(reference)->wr_object;
  return Py_REFCNT(referent) > 0 ? referent : Py_None;  // its deallocation may have begun
}

// The dict of a `threading.local` on this thread. Null for other objects, and if this thread hasn't used the object
// yet: to create the dict, its class would have to run.
PyObject* thread_dict(PyObject* object) noexcept;

// Types of the standard library. Looked up when this module is imported, because imports may run Python. Never freed.
struct StandardTypes {
  PyTypeObject* deque = nullptr;
  PyTypeObject* count = nullptr;  // of itertools
  PyTypeObject* local = nullptr;  // threading.local
};
StandardTypes& standard_types() noexcept;
// False with an exception set.
bool prepare_standard_types();

}  // namespace dynamo_lite
