// What CPython's own objects keep, and the words of memory they keep it in: functions, methods, cells, members of
// slots, tuples, sets, ranges, slices, weak references and threading.local.
//
// A word is the address of a pointer inside an object: it stays good while the object is alive and, for an object of
// variable size, keeps its size. All objects are borrowed unless a function says otherwise; nothing here runs Python.
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

// An index into the table of attributes that are read from the object's struct, without calling their getters.
using Field = std::size_t;
Field field_named(PyObject* name) noexcept;

// The address of the pointer that the attribute `name` reads: a field of a function, a method or a heap type, or a
// member of an instance of an immutable type. Null for any other attribute. Of a type, the address is valid while the
// version of its metaclass is unchanged. A null pointer there stands for None.
PyObject* const* field_word(PyObject* object, Field field, PyObject* name) noexcept;

// Where an object keeps what a member descriptor of its class reads; null if it is no single word.
PyObject* const* slot_word(PyObject* object, PyObject* descriptor) noexcept;
// What the descriptor reads, as a new reference. Null where nothing is there (an exception may be set) or, with
// `applies` false, where the object isn't of the descriptor's class.
PyObject* read_slot(PyObject* object, PyObject* descriptor, bool& applies) noexcept;

inline PyObject* function_closure(PyObject* function) noexcept {
  return reinterpret_cast<PyFunctionObject*>(function)->func_closure;
}
inline PyObject* function_qualname(PyObject* function) noexcept {
  return reinterpret_cast<PyFunctionObject*>(function)->func_qualname;
}
// A new function with these namespaces, whose closure is a tuple of cells, or null or None for none. Null with an
// exception set.
PyObject* new_function(PyObject* code, PyObject* globals, PyObject* builtins, PyObject* closure) noexcept;

// How to call an object: PyObject_Vectorcall, whose check of the result a Python function doesn't need.
inline vectorcallfunc vectorcall_of(PyObject* callable) noexcept {
  return PyFunction_Check(callable) ? reinterpret_cast<PyFunctionObject*>(callable)->vectorcall : PyObject_Vectorcall;
}

// Start, stop and step of a range or a slice.
PyObject* const* bounds_of(PyObject* range_or_slice) noexcept;

// The items of a set or frozenset, in its own order.
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

// What a weak reference refers to; None once that is deallocated. Borrowed.
inline PyObject* weak_referent(PyObject* reference) noexcept {
  PyObject* referent = reinterpret_cast<PyWeakReference*>(reference)->wr_object;
  return Py_REFCNT(referent) > 0 ? referent : Py_None;  // its deallocation may have begun
}

// The dict of a `threading.local` on this thread; null for anything else, and where this thread hasn't touched it: its
// class would have to initialize one.
PyObject* thread_dict(PyObject* object) noexcept;

// Types of the standard library, found at import, for that may run Python. Owned for the life of the process.
struct StandardTypes {
  PyTypeObject* deque = nullptr;
  PyTypeObject* count = nullptr;  // of itertools
  PyTypeObject* local = nullptr;  // threading.local
};
StandardTypes& standard_types() noexcept;
// False with an exception set.
bool prepare_standard_types();

}  // namespace dynamo_lite
