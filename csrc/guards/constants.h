// Constants, compared by type and bits: Python's == accepts more.
#pragma once

#include <Python.h>

namespace dynamo_lite {

// Whether `object` is immutable all the way down and of a kind that same_constant compares: None, Ellipsis,
// NotImplemented, bool, int, float, complex, str, bytes, range, slices, torch's dtype, device, layout, memory_format,
// finfo, iinfo, and tuples, torch.Size and frozensets of these. Types must match exactly.
bool is_constant(PyObject* object) noexcept;

// Whether `found` has the exact type and value of the constant `expected`: 1, 1.0 and True differ, 0.0 and -0.0 differ,
// nans are the same if their bits are. Runs no Python and raises nothing. An `expected` that is not a constant, or an
// item of it that isn't one, is compared by identity.
bool same_constant(PyObject* expected, PyObject* found) noexcept;

// Whether `found`, of a class that derives from the type of `expected` (int, float, complex, str or bytes), has its
// value.
bool same_payload(PyObject* expected, PyObject* found) noexcept;

// Whether `found` is of the exact type of `expected`, a number of numpy's, and has its bits.
bool same_memory(PyObject* expected, PyObject* found) noexcept;

}  // namespace dynamo_lite
