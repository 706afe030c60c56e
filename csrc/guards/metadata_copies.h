// Tensors with the metadata of others, for fakes: nothing of it is computed again, symbolic sizes neither.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_metadata_copies(pybind11::module_& module);

}  // namespace dynamo_lite
