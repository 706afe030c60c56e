// The room launch/: calls a compiled graph for inference without the wrappers that its compiler put around it.
// Enters: the backend's callable, and later the innermost code inside it. Leaves: the graph's results.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_launch(pybind11::module_& module);

}  // namespace dynamo_lite
