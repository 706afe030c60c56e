// What CPython's own iterators will give next, read without taking it.
#pragma once

#include <Python.h>

#include "refs.h"

namespace dynamo_lite {

struct Reached {
  PyObject* value = nullptr;  // borrowed from where it was found, or from `owned`; null for nothing there
  bool readable = true;       // false: it isn't kept that way, only Python could read it, or next() would raise

  static constexpr Reached nothing() noexcept { return {}; }
  static constexpr Reached unreadable() noexcept { return {nullptr, false}; }
};

// What next() of an iterator over a list (reversed too), tuple, set, range or dict gives after `ahead` other items; of
// a dict's items the key.
Reached next_item(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept;

// The value of that item of a dict.
Reached next_value(PyObject* iterator, Py_ssize_t ahead) noexcept;

// The iterator that an enumerate takes from; of a zip, which is not strict, the tuple of them; what a dict's view or a
// mapping proxy shows; the list, set or dict that an iterator goes over, null once it met the end.
Reached taken_from(PyObject* object) noexcept;

// The number that an enumerate, or a count of itertools, gives next.
Reached next_number(PyObject* iterator, Ref& owned) noexcept;

}  // namespace dynamo_lite
