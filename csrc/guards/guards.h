// Guard trees: what the translation of a frame assumed, checked before its code runs.
//
// The room guards/: accessors reach values from a frame, checks test them, a tree of both is walked once a call.
// Enters: what Python builds through `GuardTree.child` and `.check`; at run time a frame's slots, borrowed.
// Leaves: whether all holds, the captured values, or a `Failure` that says what did not hold and why.
// Nothing here runs Python code of the program's or leaves an exception set while it checks.
#pragma once

#include <pybind11/pybind11.h>

#include "cpython/frames.h"
#include "refs.h"

namespace dynamo_lite {

class GuardTree;

// The slots behind a FrameView, borrowed; throws where it shows none. The hook's function.
using FrameReader = const FrameSlots& (*)(pybind11::handle view);

void register_guards(pybind11::module_& module, FrameReader reader);

// Whether `object` is a dynamo_lite._C.GuardTree.
bool is_guard_tree(PyObject* object) noexcept;

// The tree inside a GuardTree object; borrowed, lives as long as the object does.
GuardTree& guard_tree(PyObject* object) noexcept;

// A new GuardTree of the same assumptions, with nothing remembered. Throws.
Ref copied_tree(PyObject* object);

// One load: false for good once an object that the tree holds weakly was deallocated. check() then fails.
bool is_valid(const GuardTree& tree) noexcept;

// The hot path. Whether all assumptions hold of a frame that has not begun. On true, `captured` owns the tuple of
// captured values, or is empty where the tree captures nothing. Runs no Python, leaves no exception set; where there is
// no memory it is a miss.
bool check(GuardTree& tree, const FrameSlots& frame, Ref& captured) noexcept;

// The same walk, which reports what failed: a new Failure; empty where everything holds. Throws where the Failure can't
// be made. Never runs the guarded program's Python.
pybind11::object explain(GuardTree& tree, const FrameSlots& frame);

}  // namespace dynamo_lite
