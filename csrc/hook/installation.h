// Installs the hook in the interpreter's evaluator slot (PEP 523) while it is needed, and removes it again.
#pragma once

#include <Python.h>

#include <utility>

#include "cpython/frames.h"
#include "hook/entries.h"

namespace dynamo_lite {

// The state of the evaluator slot. One per process, under the GIL.
struct Installation {
  Evaluator* slot = nullptr;     // the main interpreter's slot, where null means CPython's evaluator. Subinterpreters
                                 // can't import this module
  Evaluator previous = nullptr;  // the evaluator that ours replaced; null for CPython's
  int users = 0;                 // number of calls, threads and processes with an active owner
  int process_users = 0;         // the part of `users` that is the process's own
  bool chained = false;          // our hook is installed, or a hook that replaced it may still pass frames to it
};

inline Installation& installation() noexcept {
  static Installation found;
  return found;
}

// The hook itself: see eval_frame.cpp.
PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag);

// Whether an owner compiles: it is set, and isn't OFF.
inline bool is_active(const Owner* owner) noexcept { return owner != nullptr && owner != off_owner(); }

inline bool is_installed() noexcept { return *installation().slot == evaluate; }

// Whether a hook other than ours evaluates frames, before or after ours.
inline bool has_other_hook() noexcept {
  const Installation& our = installation();
  return *our.slot != nullptr && (*our.slot != evaluate || our.previous != nullptr);
}

inline void install() noexcept {
  Installation& our = installation();
  Evaluator& current = *our.slot;
  if (current == evaluate) return;
  // A hook that replaced ours passes frames on to it, so ours is still in use. But if the current hook is the one that
  // ours had replaced, ours has been removed: that hook doesn't call it.
  if (current != nullptr && our.chained && current != our.previous) return;
  our.previous = std::exchange(current, evaluate);
  our.chained = true;
}

// Removes the hook if it is installed. If another hook has replaced it, ours can't be removed, since the other one
// holds its address. It then passes frames on.
inline void remove() noexcept {
  Installation& our = installation();
  Evaluator& current = *our.slot;
  if (current != evaluate && current != nullptr) return;
  if (current == evaluate) current = our.previous;
  our.chained = false;
}

// Counts an owner that becomes active, or stops being active. `users`: the counter of its thread, or of the process.
inline void add_user(const Owner* owner, int& users) noexcept {
  if (!is_active(owner)) return;
  ++users;
  ++installation().users;
  install();
}

inline void drop_user(const Owner* owner, int& users) noexcept {
  if (!is_active(owner) || users == 0) return;  // the thread ended before its calls, or the process was forked
  --users;
  if (--installation().users == 0) remove();
}

// Removes the hook for the lifetime of the object if it replaced CPython's evaluator, so that Python functions call
// each other without using the C stack. Given this thread's `owner`, removes it only if nothing else needs the hook.
class HookRemovedScope {
 public:
  HookRemovedScope() noexcept : HookRemovedScope(true) {}
  explicit HookRemovedScope(const Owner* owner) noexcept
      : HookRemovedScope(installation().users == 1 && is_active(owner) && installation().process_users == 0) {}
  ~HookRemovedScope() {
    if (out_) put_back();
  }
  HookRemovedScope(const HookRemovedScope&) = delete;
  HookRemovedScope& operator=(const HookRemovedScope&) = delete;

 private:
  explicit HookRemovedScope(bool wanted) noexcept
      : out_(wanted && installation().previous == nullptr && is_installed()) {
    if (out_) *installation().slot = nullptr;
  }

  static void put_back() noexcept {
    Installation& our = installation();
    if (*our.slot == evaluate) return;  // another thread installed it meanwhile
    if (*our.slot == nullptr && our.users > 0) {
      *our.slot = evaluate;
    } else {
      our.chained = false;  // a hook that was installed meanwhile doesn't pass frames to ours
    }
  }

  bool out_;
};

}  // namespace dynamo_lite
