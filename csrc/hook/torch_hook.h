// torch.compile's hook, where it is at work on a thread beside ours.
#pragma once

#include <Python.h>

#include "refs.h"

namespace dynamo_lite {

// Whether torch.compile is at work on this thread. Who compiles outermost compiles all that is called: its hook would
// trace our translator and the code that it generates. No exception is set before, nor after.
bool torch_compiles_here() noexcept;

// torch.compile leaves this thread alone for the life of the object, where it is at work on it.
class TorchOut {
 public:
  explicit TorchOut(bool wanted) noexcept {
    if (wanted) [[unlikely]]
      callback_ = exchange(Py_None);
  }
  ~TorchOut() {
    if (callback_) [[unlikely]]
      exchange(callback_.get());
  }
  TorchOut(const TorchOut&) = delete;
  TorchOut& operator=(const TorchOut&) = delete;

 private:
  // Sets what torch.compile's hook calls on this thread. Empty where there is none.
  static Ref exchange(PyObject* callback) noexcept;

  Ref callback_;
};

}  // namespace dynamo_lite
