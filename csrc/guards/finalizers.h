// Whether the program could see when a value dies.
#pragma once

#include <Python.h>

namespace dynamo_lite {

// By a finalizer or the callback of a weak reference, its own or that of something which it may alone hold; also where
// it holds too much to be looked through. Runs no Python, leaves no exception set.
bool is_seen_to_die(PyObject* value) noexcept;

// Adds is_seen_to_die(value) and set_held_elsewhere(classes). False with an exception set.
bool register_deaths(PyObject* module);

}  // namespace dynamo_lite
