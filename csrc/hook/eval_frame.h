// The frame hook (PEP 523): decides how a frame runs.
//
// The room hook/: the evaluator, the owners (a dl.compile or dl.enable), the entries cached on code objects, and the
// callables that compiled programs consist of. Enters: every Python frame while an owner is active, before its first
// instruction. Leaves: the frame's result. It comes from an entry's code if its guards hold; otherwise from CPython, or
// from the code that the owner's callback (the compiler, in Python) returns.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

// Whether dl.set_stance forces all frames to run in eager.
bool is_eager_forced() noexcept;

void register_eval_frame(pybind11::module_& module);

}  // namespace dynamo_lite
