// A frame that has not begun, shown to Python while a callback runs.
#pragma once

#include <Python.h>

#include "hook/entries.h"
#include "cpython/frames.h"
#include "refs.h"

namespace dynamo_lite {

// A FrameView that is valid as long as this object lives.
class FrameViewScope {
 public:
  FrameViewScope(const FrameSlots& slots, Owner* owner);
  ~FrameViewScope();
  FrameViewScope(const FrameViewScope&) = delete;
  FrameViewScope& operator=(const FrameViewScope&) = delete;
  PyObject* get() const noexcept { return view_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(view_); }

 private:
  Ref view_;
};

// Sets dynamo_lite.exc.InternalError for a guard that fails on the very frame it was made from. `failure` may be null:
// a tree whose two walks disagree.
void raise_internal_error(PyObject* failure) noexcept;

bool register_frame_view(PyObject* module);

}  // namespace dynamo_lite
