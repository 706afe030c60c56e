// torch's state that belongs to no tensor: grad mode, autocast, settings of backends and the like.
//
// Owns: what a GlobalState remembers; torch function modes weakly. Borrows nothing.
#pragma once

#include "guards/found.h"
#include "heap_type.h"

#include <memory>
#include <string>

namespace dynamo_lite {

// Whether guards, which read at the offsets that torch's headers had when this was built, read the same as torch's own
// functions return.
bool state_layout_fits() noexcept;

// Whether `object` is a dynamo_lite._C.GlobalState.
bool is_global_state(PyObject* object) noexcept;

// Whether this thread's state is what the GlobalState has. `found`, if not null, receives the differences.
bool matches_current_state(PyObject* state, Found* found);

// The state that a graph which fails may leave changed: grad and inference mode, autocast, dispatch keys.
class KeptState {
 public:
  [[gnu::noinline]] KeptState();
  // Restores this thread's state, and the process's settings of attention.
  [[gnu::cold, gnu::noinline]] void restore() const;
  // Restores this thread's state.
  [[gnu::cold, gnu::noinline]] void restore_thread() const;

 private:
  std::shared_ptr<const void> kept_;
};

void register_global_state(py::module_& module);

}  // namespace dynamo_lite
