// FrameView: shows a frame that has not begun to Python, while an owner's callback runs.
#pragma once

#include <pybind11/pybind11.h>

#include "cpython/frames.h"
#include "hook/entries.h"

namespace dynamo_lite {

// Creates a FrameView, which is valid for the lifetime of this object. The destructor releases the locks that the
// callback acquired with `hold`.
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

// The slots of a FrameView's frame. Throws RuntimeError after its callback has returned, TypeError for other objects.
const FrameSlots& frame_slots(py::handle view);

// Raises dynamo_lite.exc.InternalError: the fast and the explaining walk of a guard tree disagree.
[[noreturn]] void raise_internal_error();

void register_frame_view(py::module_& module);

}  // namespace dynamo_lite
