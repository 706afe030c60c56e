// What CPython's own iterators will give next, read without taking it.
#pragma once

#include <Python.h>

#include "refs.h"

namespace dynamo_lite {

// A borrowed object, or one that `owned` holds; null for nothing there. `readable`: false for iterators of other kinds,
// and where next() would raise.
struct Peeked {
  PyObject* value = nullptr;
  bool readable = true;
};

// What next() of an iterator over a list (reversed too), tuple, string, bytes, set, range or dict gives after `ahead`
// other items; of a dict's items the key.
Peeked next_item(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept;

// The value of that item of a dict.
Peeked next_value(PyObject* iterator, Py_ssize_t ahead) noexcept;

// The iterator that an enumerate takes from; of a zip, which is not strict, the tuple of them; what a dict's view or a
// mapping proxy shows; the list, set or dict that an iterator goes over, null once it met the end.
Peeked taken_from(PyObject* object) noexcept;

// The number that an enumerate, or a count of itertools, gives next.
Peeked next_number(PyObject* iterator, Ref& owned) noexcept;

// To be called once, before the others. False with an exception set.
bool prepare_iterators();

}  // namespace dynamo_lite
