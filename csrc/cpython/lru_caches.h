// What the caches of functools.lru_cache count.
#pragma once

#include <Python.h>

namespace dynamo_lite {

bool register_cpython_caches(PyObject* module);

}  // namespace dynamo_lite
