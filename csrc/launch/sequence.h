// Calls the pieces of a split graph in order. A piece takes graph inputs and results of earlier pieces.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_sequence(pybind11::module_& module);

}  // namespace dynamo_lite
