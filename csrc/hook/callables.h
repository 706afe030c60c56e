// What programs and generated code call: compiled functions, graphs, resume functions.
#pragma once

#include <pybind11/pybind11.h>

#include "refs.h"

namespace dynamo_lite {

bool is_continuation(PyObject* object) noexcept;
// The function that a continuation is to run. Empty with an exception set.
Ref continuation_function(PyObject* continuation);

struct ContinuationArguments {
  PyObject* const* values;  // borrowed, as long as the continuation lives
  std::size_t count;
};
ContinuationArguments continuation_arguments(PyObject* continuation) noexcept;

// Drops the continuation's references to its arguments, which the frame that was called with them owns by now.
void drop_arguments(PyObject* continuation) noexcept;

void register_callables(pybind11::module_& module);

}  // namespace dynamo_lite
