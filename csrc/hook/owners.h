// Keeps the owner that compiles, for every thread, for every greenlet's stack, and for the process.
#pragma once

#include <Python.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "cpython/frames.h"
#include "hit.h"
#include "hook/entries.h"
#include "hook/installation.h"
#include "refs.h"

namespace dynamo_lite {

// What the hook passes to its own next call on a thread, for the frame that it is about to begin. All is borrowed.
// Either a continuation that the hook's loop calls, or an entry whose guards hold and whose flat code the frame runs.
struct Handoff {
  PyObject* code = nullptr;          // the frame's; null: nothing is passed
  PyObject* continuation = nullptr;  // the continuation
  const Entry* entry = nullptr;      // the entry
  PyObject* captured = nullptr;      // the values that the check of its guards captured
};

// A with-block that sets the owner of a thread or of the process.
struct Block {
  Ref owner;      // the owner that entered the block
  Ref effective;  // the owner that is set: the same, or OFF if torch.compile is active on the thread
  Ref before;     // the owner that was set before the block, or None
};

// The hook's state for one stack of a thread. With greenlets a thread has several stacks and switches between them in
// the middle of calls. `owner` is a strong reference; if it is null, the process's owner compiles.
struct Thread {
  Owner* owner = nullptr;
  std::vector<Block>* blocks = nullptr;  // owned, in the order of entry; created for the first block
  int running_callbacks = 0;             // owners' callbacks that are running: frames run in eager meanwhile
  int capture_depth = 0;                 // callback_depth() at the start of the call that must be captured
  bool unwatched = false;                // whether begin_unwatched() is in effect
  int collector_holds = 0;               // hold_collector() calls that have not been released
  bool froze_objects = false;            // freeze_objects() was called, and not unfreeze_objects()
  Handoff handoff = {};
  const Frame* passed_frame = nullptr;  // the frame that was passed to the previous hook
  double accounted_seconds = 0;         // spent in callbacks, and in delayed frames
};

// Whether the hook has made a call, or passed on a frame, that has not reached it again.
inline bool has_pending_call(const Thread& thread) noexcept {
  return thread.handoff.code != nullptr || thread.passed_frame != nullptr;
}

// Passes a handoff to the call of the hook for the frame that begins during the life of the object.
class HandoffScope {
 public:
  HandoffScope(Thread& thread, const Handoff& handoff) noexcept
      : thread_(thread), before_(std::exchange(thread.handoff, handoff)) {}
  ~HandoffScope() { thread_.handoff = before_; }
  HandoffScope(const HandoffScope&) = delete;
  HandoffScope& operator=(const HandoffScope&) = delete;

  // The frame has taken it, unless the call failed before the frame began.
  [[nodiscard]] bool is_taken() const noexcept { return thread_.handoff.code == nullptr; }

 private:
  Thread& thread_;
  const Handoff before_;
};

// The handoff for a frame of this code; empty if there is none. Where another hook runs frames of its own before a
// continuation's, that is called like any function.
[[gnu::always_inline]] inline Handoff take_handoff(Thread& thread, const PyObject* code) noexcept {
  if (thread.handoff.code == code) return std::exchange(thread.handoff, {});
  if (thread.handoff.continuation != nullptr) thread.handoff = {};
  return {};
}

inline constexpr char kNoStack = 0;

// The stacks of a thread. Without greenlets there is only `first`.
struct Stacks {
  const void* stack = &kNoStack;  // the stack that ran last
  Thread* current = nullptr;      // the state of that stack
  Thread first = {};
  std::unordered_map<const void*, Thread>* others = nullptr;  // owned; created for the first greenlet
  const void* first_stack = nullptr;
  int users = 0;                 // users of the hook on all stacks: see Installation
  unsigned long long calls = 0;  // outermost calls: an owner was set while the thread had none
};

inline Stacks& this_threads_stacks() noexcept {
  static thread_local Stacks found __attribute__((tls_model("initial-exec")));
  return found;
}

// Makes the stack that runs the current one and returns its state. Returns the first stack's state if out of memory.
[[gnu::cold, gnu::noinline]] Thread& switch_stacks(Stacks& stacks, PyThreadState* state) noexcept;

// The state of the stack that is running. The reference stays valid while calls on this stack last, across switches.
[[gnu::always_inline]] inline Thread& this_thread(PyThreadState* state = PyThreadState_Get()) noexcept {
  Stacks& stacks = this_threads_stacks();
  if (data_stack(state) == stacks.stack) [[likely]]
    return *stacks.current;
  return switch_stacks(stacks, state);
}

// Borrowed; null if the process has no owner.
Owner* process_owner() noexcept;

// Sets the thread's owner for the lifetime of the object. Installs the hook if it is needed.
class OwnerScope {
 public:
  OwnerScope(Owner* owner, PyThreadState* state) noexcept;
  ~OwnerScope();
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  Thread& thread_;
  Owner* before_;  // owned
};

// Sets the thread's owner to OFF for the lifetime of the object: nothing is compiled on this thread.
class OffScope {
 public:
  explicit OffScope(Thread& thread) noexcept : thread_(thread), before_(thread.owner), out_(before_) {
    thread.owner = off_owner();
    Py_INCREF(thread.owner);
  }
  ~OffScope();
  OffScope(const OffScope&) = delete;
  OffScope& operator=(const OffScope&) = delete;

 private:
  Thread& thread_;
  Owner* before_;  // owned
  HookRemovedScope out_;
};

void register_owners(pybind11::module_& module);

}  // namespace dynamo_lite
