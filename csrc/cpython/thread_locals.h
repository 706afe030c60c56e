// The attributes that objects of threading.local have on this thread.
#pragma once

#include <Python.h>

namespace dynamo_lite {

// The dict of a `threading.local`, borrowed; null for anything else, and where this thread hasn't touched it: its class
// would be asked to begin one.
PyObject* thread_dict(PyObject* object) noexcept;

bool register_cpython_locals(PyObject* module);

}  // namespace dynamo_lite
