// Detects and disables torch.compile's frame hook on a thread where both hooks are active.
#pragma once

#include <Python.h>

#include "refs.h"

namespace dynamo_lite {

// Whether torch.compile compiles on this thread. Only the outermost compiler may compile: torch.compile's hook would
// otherwise trace our translator and the code that it generates. No exception may be set before; none is set after.
bool torch_compiles_here() noexcept;

// Disables torch.compile's hook on this thread for the lifetime of the object, if `wanted`.
class TorchCompileOffScope {
 public:
  explicit TorchCompileOffScope(bool wanted) noexcept {
    if (wanted) [[unlikely]]
      callback_ = exchange(Py_None);
  }
  ~TorchCompileOffScope() {
    if (callback_) [[unlikely]]
      exchange(callback_.get());
  }
  TorchCompileOffScope(const TorchCompileOffScope&) = delete;
  TorchCompileOffScope& operator=(const TorchCompileOffScope&) = delete;

 private:
  // Sets the callback of torch.compile's hook on this thread and returns the old one. Empty if torch has no such hook.
  static Ref exchange(PyObject* callback) noexcept;

  Ref callback_;
};

}  // namespace dynamo_lite
