// A callable whose target can be replaced between two calls.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_switch(pybind11::module_& module);

}  // namespace dynamo_lite
