// Guard trees: what the translation of a frame assumed, checked before its code runs.
//
// The room guards/: accessors reach values from a frame, checks test them, and a tree of both is walked in every call.
// Enters: the nodes and checks that Python adds with `GuardTree.child` and `.check`; at run time a frame's slots,
// borrowed. Leaves: whether all holds, with the captured values; or a `Failure` with the check that failed, and on
// what. Checking runs none of the program's Python and leaves no exception set.
#pragma once

#include <pybind11/pybind11.h>

#include "cpython/frames.h"
#include "refs.h"

namespace dynamo_lite {

class GuardTree;

// Returns the slots that a FrameView shows, borrowed; throws if it shows none. A function of the hook's.
using FrameReader = const FrameSlots& (*)(pybind11::handle view);

void register_guards(pybind11::module_& module, FrameReader reader);

// Whether `object` is a dynamo_lite._C.GuardTree.
bool is_guard_tree(PyObject* object) noexcept;

// The tree inside a GuardTree object; borrowed, lives as long as the object does.
GuardTree& guard_tree(PyObject* object) noexcept;

// A new GuardTree of the same assumptions, with nothing remembered. Throws.
Ref copied_tree(PyObject* object);

// False for good once an object that the tree holds weakly was deallocated: check() then fails. Takes one load.
bool is_valid(const GuardTree& tree) noexcept;

// The hot path: whether all assumptions hold for a frame that has not begun. If so, `captured` owns the tuple of
// captured values, or is empty if the tree captures nothing. Runs no Python and leaves no exception set. False if
// memory runs out.
bool check(GuardTree& tree, const FrameSlots& frame, Ref& captured) noexcept;

// Does the same walk and reports the first failure as a new Failure, or is empty if everything holds. Throws if the
// Failure can't be created. Runs none of the program's Python.
pybind11::object explain(GuardTree& tree, const FrameSlots& frame);

}  // namespace dynamo_lite
