// Whether user code observes the deallocation of an object.
#pragma once

#include <Python.h>

namespace dynamo_lite {

// By its own finalizer or the callback of a weak reference to it. What it alone may hold is not looked at. Runs no
// Python, leaves no exception set.
bool is_lifetime_observed(PyObject* value) noexcept;

}  // namespace dynamo_lite
