// The room launch/: calls a compiled graph for inference without the wrappers that its compiler put around it.
// Enters: the backend's callable, and later the innermost code inside it. Leaves: the graph's results.
#pragma once

#include <Python.h>

namespace dynamo_lite {

bool register_launch(PyObject* module);

}  // namespace dynamo_lite
