// The frame hook (PEP 523): what is done with each frame.
//
// The room hook/: the evaluator, the owners (who compiles), the entries kept on code objects, and the callables that
// compiled programs are made of. Enters: every Python frame while somebody compiles, before its first instruction.
// Leaves: the frame's result, from an entry's code where guards hold, else from CPython or from what a callback (the
// compiler, in Python) returns for it.
#pragma once

#include <pybind11/pybind11.h>

namespace dynamo_lite {

// Whether every frame runs in eager, whoever compiles.
bool is_in_eager() noexcept;

void register_eval_frame(pybind11::module_& module);

}  // namespace dynamo_lite
