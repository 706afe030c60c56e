// torch's state that is on no tensor: read, remembered, compared.
#pragma once

#include "guards/found.h"
#include "heap_type.h"

#include <memory>
#include <string>

namespace dynamo_lite {

// Whether torch's own functions return what guards read at the places that torch's headers named when this was built.
bool state_layout_fits() noexcept;

// Whether `object` is a dynamo_lite._C.GlobalState.
bool is_global_state(PyObject* object) noexcept;

// Whether this thread's state is what the GlobalState has. `found`, if not null, receives the differences.
bool matches_current_state(PyObject* state, Found* found);

// What a graph that fails half-way may have changed: grad and inference mode, autocast, dispatch keys.
class KeptState {
 public:
  [[gnu::noinline]] KeptState();
  // Puts this thread's state back to what it was, and what attention may use in the whole process.
  [[gnu::cold, gnu::noinline]] void restore() const;
  // This thread's state alone.
  [[gnu::cold, gnu::noinline]] void restore_thread() const;

 private:
  std::shared_ptr<const void> kept_;
};

void register_global_state(py::module_& module);

}  // namespace dynamo_lite
