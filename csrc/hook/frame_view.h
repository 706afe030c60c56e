// A frame before its first instruction, shown to Python while a callback runs.
#pragma once

#include <pybind11/pybind11.h>

#include "cpython/frames.h"
#include "hook/entries.h"

namespace dynamo_lite {

// A FrameView that is valid, and keeps the lock that it was made to hold, as long as this object is alive.
class FrameViewScope {
 public:
  FrameViewScope(const FrameSlots& slots, Owner& owner);
  ~FrameViewScope();
  FrameViewScope(const FrameViewScope&) = delete;
  FrameViewScope& operator=(const FrameViewScope&) = delete;
  PyObject* get() const noexcept { return view_.get(); }

 private:
  Ref view_;
};

// The slots behind a FrameView; throws a RuntimeError once its callback has returned, or a TypeError.
const FrameSlots& frame_slots(py::handle view);

// Raises dynamo_lite.exc.InternalError for a tree whose two walks disagree.
[[noreturn]] void raise_internal_error();

void register_frame_view(py::module_& module);

}  // namespace dynamo_lite
