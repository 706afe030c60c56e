// Creates tensors with the metadata of others, for fakes. Nothing is computed again, not even symbolic sizes.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

void register_metadata_copies(pybind11::module_& module);

}  // namespace dynamo_lite
