// Whether a call has tensors for a graph, found out without a guard: for code that has nothing for one without them.
#pragma once

#include "cpython/frames.h"

namespace dynamo_lite {

// Whether there is a tensor or numpy array among the arguments of a frame that has not begun, or among the first items
// of lists, tuples and dicts there, two levels deep. Runs no Python.
bool takes_tensors(const FrameSlots& slots) noexcept;

}  // namespace dynamo_lite
