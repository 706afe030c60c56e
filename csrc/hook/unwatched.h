// Hides our compilation from the program's trace and profile functions.
#pragma once

#include <pybind11/pybind11.h>

#include "cpython/frames.h"
#include "hook/owners.h"

namespace dynamo_lite {

// Hides this thread from its trace and profile functions for the lifetime of the object. Does nothing if there are
// none, so that a debugger may be started inside.
class UntracedScope {
 public:
  UntracedScope(PyThreadState* state, Frame* frame, Thread& thread) noexcept
      : state_(watcher_of(state, frame) == Watcher::Nobody ? nullptr : state),
        thread_(thread),
        before_(thread.unwatched) {
    if (state_ == nullptr) return;
    thread_.unwatched = true;
    begin_unwatched(state_);
  }
  ~UntracedScope() {
    if (state_ == nullptr) return;
    thread_.unwatched = before_;
    end_unwatched(state_);
  }
  UntracedScope(const UntracedScope&) = delete;
  UntracedScope& operator=(const UntracedScope&) = delete;

 private:
  PyThreadState* state_;  // null if nothing watched the thread
  Thread& thread_;
  bool before_;
};

void register_unwatched(pybind11::module_& module);

}  // namespace dynamo_lite
