// What programs and generated code call: compiled functions, graphs, resume functions.
#pragma once

#include <Python.h>

#include "refs.h"

namespace dynamo_lite {

bool is_continuation(PyObject* object) noexcept;
// The function that a continuation is to run, with these globals and builtins. Empty with an exception set.
Ref continuation_function(PyObject* continuation, PyObject* globals, PyObject* builtins);

struct ContinuationArguments {
  PyObject* const* values;  // borrowed, as long as the continuation lives
  std::size_t count;
};
ContinuationArguments continuation_arguments(PyObject* continuation) noexcept;

// Lets go of the arguments, which the frame that was called with them holds by now.
void drop_arguments(PyObject* continuation) noexcept;

bool register_callables(PyObject* module);

}  // namespace dynamo_lite
