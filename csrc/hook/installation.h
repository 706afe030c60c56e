// The hook in the interpreter's evaluator slot (PEP 523): who needs it, and when it goes in and out.
#pragma once

#include <Python.h>

#include <utility>

#include "cpython/frames.h"
#include "hook/entries.h"

namespace dynamo_lite {

// What is known of the evaluator slot. One for the process, under the GIL.
struct Installation {
  Evaluator* slot = nullptr;     // of the only interpreter: no other can import us. Null in it: CPython's own evaluator
  Evaluator previous = nullptr;  // the evaluator that ours replaced; null for CPython's own
  int users = 0;                 // calls, threads and the process that have an owner other than OFF
  int process_users = 0;         // of these the process
  bool chained = false;          // ours is installed, or whoever replaced it may still pass frames to it
};

inline Installation& installation() noexcept {
  static Installation found;
  return found;
}

// The hook itself: see eval_frame.cpp.
PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag);

inline bool counts(const Owner* owner) noexcept { return owner != nullptr && owner != off_owner(); }

inline bool is_installed() noexcept { return *installation().slot == evaluate; }

// Whether frames go to CPython's evaluator, or to our hook alone.
inline bool is_unwatched() noexcept {
  const Installation& our = installation();
  return *our.slot == nullptr || (*our.slot == evaluate && our.previous == nullptr);
}

inline void install() noexcept {
  Installation& our = installation();
  Evaluator& current = *our.slot;
  if (current == evaluate) return;
  // A hook that was installed over ours passes frames on to us, so ours stays below it. The hook that ours had replaced
  // doesn't know of ours: if it is current, it has taken ours out.
  if (current != nullptr && our.chained && current != our.previous) return;
  our.previous = std::exchange(current, evaluate);
  our.chained = true;
}

// Takes the hook out if it is installed. If another hook has replaced it, that one holds our address: ours stays, and
// passes frames on.
inline void remove() noexcept {
  Installation& our = installation();
  Evaluator& current = *our.slot;
  if (current != evaluate && current != nullptr) return;
  if (current == evaluate) current = our.previous;
  our.chained = false;
}

// Count an owner that begins or ends to compile. `users`: the counter of its thread, or of the process.
inline void add_user(const Owner* owner, int& users) noexcept {
  if (!counts(owner)) return;
  ++users;
  ++installation().users;
  install();
}

inline void drop_user(const Owner* owner, int& users) noexcept {
  if (!counts(owner) || users == 0) return;  // the thread ended before its calls, or the process was forked
  --users;
  if (--installation().users == 0) remove();
}

// Takes the hook out for the life of the object if it replaced CPython's own evaluator, so that Python calls Python as
// without us. With an `owner`, which compiles on this thread: only if nobody else needs the hook.
class HookOut {
 public:
  HookOut() noexcept : HookOut(true) {}
  explicit HookOut(const Owner* owner) noexcept
      : HookOut(installation().users == 1 && counts(owner) && installation().process_users == 0) {}
  ~HookOut() {
    if (out_) put_back();
  }
  HookOut(const HookOut&) = delete;
  HookOut& operator=(const HookOut&) = delete;

 private:
  explicit HookOut(bool wanted) noexcept : out_(wanted && installation().previous == nullptr && is_installed()) {
    if (out_) *installation().slot = nullptr;
  }

  static void put_back() noexcept {
    Installation& our = installation();
    if (*our.slot == evaluate) return;  // somebody needed it meanwhile
    if (*our.slot == nullptr && our.users > 0) {
      *our.slot = evaluate;
    } else {
      our.chained = false;  // a hook that was installed meanwhile doesn't know of ours
    }
  }

  bool out_;
};

}  // namespace dynamo_lite
