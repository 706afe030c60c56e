// Who compiles: the owner of each thread, of each of its stacks, and of the process.
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

// A with-block that compiles what a thread runs, or the process.
struct Block {
  Ref owner;     // who entered it
  Ref in_force;  // who compiles: that owner, or OFF where torch.compile is at work
  Ref before;    // who did before, None for nobody
};

// What a thread is doing, on one of its stacks: greenlets give it several, and switch in the middle of calls. `owner`
// is a strong reference; null: the process's owner compiles.
struct Thread {
  Owner* owner = nullptr;
  std::vector<Block>* blocks = nullptr;  // owned; created for the first one. The last entered is last
  int busy = 0;                          // callbacks at work: while there are any, frames run as they are
  int capture_depth = 0;                 // callback_depth() where the call began that must be captured
  bool unwatched = false;                // begin_unwatched() is in force
  int collector_holds = 0;               // hold_collector() calls that are not released
  Handoff handoff = {};
  const Frame* passing = nullptr;  // the frame that was passed to another hook
  double accounted = 0;            // seconds: in callbacks, and in frames that ran while their owners wait
};

// Whether a frame is under way that the hook itself has begun, or passed on.
inline bool is_in_transit(const Thread& thread) noexcept {
  return thread.handoff.code != nullptr || thread.passing != nullptr;
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

// A thread with its stacks. A thread without greenlets has `first` alone.
struct Stacks {
  const void* stack = &kNoStack;  // the one that ran last
  Thread* current = nullptr;      // its state
  Thread first = {};
  std::unordered_map<const void*, Thread>* others = nullptr;  // owned; created for the first greenlet
  const void* first_stack = nullptr;
  int users = 0;                 // of the hook, on all stacks
  unsigned long long calls = 0;  // how often an owner began to compile that no other owner's call led to
};

inline Stacks& this_threads_stacks() noexcept {
  static thread_local Stacks found __attribute__((tls_model("initial-exec")));
  return found;
}

// The state of a stack that didn't run last. That of the first, if there is no memory for another.
[[gnu::cold, gnu::noinline]] Thread& switch_stacks(Stacks& stacks, PyThreadState* state) noexcept;

// The state of the stack that is running. Valid as long as calls on this stack last, whatever is switched to meanwhile.
[[gnu::always_inline]] inline Thread& this_thread(PyThreadState* state = PyThreadState_Get()) noexcept {
  Stacks& stacks = this_threads_stacks();
  if (data_stack(state) == stacks.stack) [[likely]]
    return *stacks.current;
  return switch_stacks(stacks, state);
}

// Borrowed; null for nobody.
Owner* process_owner() noexcept;

// Sets the thread's owner for the life of the object, with the hook installed as long as anybody needs it.
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

// Nobody compiles on this thread for the life of the object.
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
  HookOut out_;
};

void register_owners(pybind11::module_& module);

}  // namespace dynamo_lite
