// The room launch/: `Launch` calls a compiled graph for inference without the wrappers that its compiler put around it.
// sequence.h calls the pieces that a graph was split into; switch.h is a callable that Python can replace. Enters: the
// backend's callables, and later the innermost code inside them. Leaves: the graph's results.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_launch(pybind11::module_& module);

}  // namespace dynamo_lite
