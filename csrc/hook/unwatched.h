// Hides translations from trace and profile functions.
#pragma once

#include <pybind11/pybind11.h>

#include "cpython/frames.h"
#include "hook/owners.h"

namespace dynamo_lite {

// Tracers of this thread see nothing of it for the life of the object. If there are none, this does nothing: a debugger
// may be started inside.
class Unwatched {
 public:
  Unwatched(PyThreadState* state, Frame* frame, Thread& thread) noexcept
      : state_(watcher_of(state, frame) == Watcher::Nobody ? nullptr : state),
        thread_(thread),
        before_(thread.unwatched) {
    if (state_ == nullptr) return;
    thread_.unwatched = true;
    begin_unwatched(state_);
  }
  ~Unwatched() {
    if (state_ == nullptr) return;
    thread_.unwatched = before_;
    end_unwatched(state_);
  }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  PyThreadState* state_;  // null where nobody watched
  Thread& thread_;
  bool before_;
};

void register_unwatched(pybind11::module_& module);

}  // namespace dynamo_lite
