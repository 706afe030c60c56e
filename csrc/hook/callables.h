// The callables of compiled programs: compiled functions, graph calls and resume functions.
#pragma once

#include <pybind11/pybind11.h>

#include "refs.h"

namespace dynamo_lite {

bool is_continuation(PyObject* object) noexcept;
// Creates the function that a continuation runs. Empty with an exception set.
Ref continuation_function(PyObject* continuation);

struct ContinuationArguments {
  PyObject* const* values;  // borrowed from the continuation
  std::size_t count;
};
ContinuationArguments continuation_arguments(PyObject* continuation) noexcept;

// Drops the continuation's references to its arguments. The frame that was called with them owns them by now.
void drop_arguments(PyObject* continuation) noexcept;

void register_callables(pybind11::module_& module);

}  // namespace dynamo_lite
