// Turns the garbage collector off while a thread traces: finalizers of the program's garbage would see fake tensors.
#pragma once

#include <pybind11/pybind11.h>

#include "hook/owners.h"

namespace dynamo_lite {

// Releases this stack's holds beyond the first `kept`. An exception may have come between a hold and its release.
void release_collector(Thread& thread, int kept) noexcept;

// Discards the holds of all other threads, in a forked child: those threads don't exist there and can't release them.
void drop_other_threads_holds() noexcept;

// Makes the objects that this thread froze visible to the collector again. While a backend compiles they are in its
// permanent generation, so that it goes only through what the backend creates.
void unfreeze_objects(Thread& thread) noexcept;

void register_collector(pybind11::module_& module);

}  // namespace dynamo_lite
