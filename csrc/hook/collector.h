// The garbage collector is off while a thread traces: finalizers of the program's garbage would see fake tensors.
#pragma once

#include <pybind11/pybind11.h>

#include "hook/owners.h"

namespace dynamo_lite {

// Gives up what this thread's stack holds beyond `kept`: an exception may come between a hold and its release.
void release_collector(Thread& thread, int kept) noexcept;

// In a forked child, whose one thread is this one: the others never release theirs.
void forget_other_holders() noexcept;

void register_collector(pybind11::module_& module);

}  // namespace dynamo_lite
