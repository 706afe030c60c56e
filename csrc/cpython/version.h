// Rejects interpreters whose internals this room doesn't know.
#pragma once

#include <Python.h>

// DL_PORTING is defined by `make port`, which compiles this room for a new version to list the changes that it needs.
#if (PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000) && !defined(DL_PORTING)
#error "dynamo_lite knows the internals of CPython 3.11 to 3.15"
#endif
// Watchers of 3.13.0 miss writes to the inline values of instances.
#if PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030D01F0 && !defined(DL_PORTING)
#error "dynamo_lite needs CPython 3.13.1 or newer"
#endif
#ifdef Py_GIL_DISABLED
#error "dynamo_lite needs a CPython with the GIL"
#endif
