// Callables that run one after the other, each on values that others before it made: the pieces of a graph.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_sequence(pybind11::module_& module);

}  // namespace dynamo_lite
