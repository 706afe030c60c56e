// The call of a compiled graph for inference, without what lies around it.
#pragma once

#include <Python.h>

namespace dynamo_lite {

bool register_launch(PyObject* module);

}  // namespace dynamo_lite
