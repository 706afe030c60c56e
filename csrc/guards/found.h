// What a failed check found, as data that Python turns into sentences. Only the walk that explains a miss fills it; the
// hot path passes null.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "heap_type.h"
#include "refs.h"

namespace dynamo_lite {

// One fact of several that a check compares: what it is now, and what it was when the guard was made.
struct Difference {
  std::string what;
  Ref now;
  Ref was;
};

struct Found {
  Ref value = {};                            // the value that failed; empty if the check is of no single value
  std::vector<Difference> differences = {};  // for kinds that compare several facts
  std::string words = {};                    // only where neither tells why: a value that can't be read, and the like
};

inline Ref str_of(const std::string& text) {
  return checked(Ref::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
}
inline Ref int_of(Py_ssize_t number) { return checked(Ref::steal(PyLong_FromSsize_t(number))); }

// As Python sees them: a tuple of tuples (what, now, was).
inline Ref as_tuple(const std::vector<Difference>& differences) {
  Ref tuple = checked(Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(differences.size()))));
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const auto& [what, now, was] = differences[i];
    Ref row = checked(Ref::steal(PyTuple_Pack(3, str_of(what).get(), now.get(), was.get())));
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), row.release());
  }
  return tuple;
}

// A reference to a value for a report. Empty while the value is being deallocated: another dict watcher's callback may
// run before ours.
inline Ref kept(PyObject* value) noexcept {
  return value != nullptr && Py_REFCNT(value) != 0 ? Ref::borrow(value) : Ref();
}

}  // namespace dynamo_lite
