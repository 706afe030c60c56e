// Peeks at the next items of CPython's builtin iterators, without advancing them.
#pragma once

#include <Python.h>

#include "refs.h"

namespace dynamo_lite {

// The result of a read that runs no Python.
struct Reached {
  PyObject* value = nullptr;  // borrowed from its container, or from `owned`; null if there is no value
  bool readable = true;       // false: unknown type, only Python code could read it, or next() would raise

  static constexpr Reached nothing() noexcept { return {}; }
  static constexpr Reached unreadable() noexcept { return {nullptr, false}; }
};

// The item that next() returns after `ahead` other items. The iterator is one over a list (reversed or not), tuple,
// set, range or dict; for a dict's items this is the key.
Reached next_item(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept;

// The value of the same item, for an iterator over a dict's items.
Reached next_value(PyObject* iterator, Py_ssize_t ahead) noexcept;

// The object that an iterator or view reads from: the iterator of an enumerate; the tuple of iterators of a zip that
// isn't strict; the mapping of a dict view or mapping proxy; the list, set or dict of an iterator, null once it is
// exhausted.
Reached taken_from(PyObject* object) noexcept;

// The number that an enumerate or itertools.count returns next.
Reached next_number(PyObject* iterator, Ref& owned) noexcept;

}  // namespace dynamo_lite
