// The interpreters whose internals this room knows.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030D0000
#error "dynamo_lite knows the internals of CPython 3.11 and 3.12"
#endif
