// Tells, without guards, whether a call passes tensors. Some code has no tensor operations unless it is given tensors;
// its other calls are skipped.
#pragma once

#include "cpython/frames.h"

namespace dynamo_lite {

// Whether a value is a tensor or numpy array, or a container with one among its first items, up to two levels deep.
bool holds_tensor(PyObject* value) noexcept;

// Whether an argument of a frame that has not begun is or holds a tensor or numpy array. Runs no Python.
[[gnu::always_inline]] inline bool takes_tensors(const FrameSlots& slots) noexcept {
  const Slot* slot = slots.slots;
  for (int left = argument_count(slots.code); left > 0;
       --left, ++slot) {  // a plain loop, since this runs at every call
    PyObject* value = value_of(*slot);
    const bool is_plain = PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_UNICODE_SUBCLASS);
    if (!is_plain && holds_tensor(value)) return true;
  }
  return false;
}

}  // namespace dynamo_lite
