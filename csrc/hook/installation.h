// The hook in the interpreter's evaluator slot (PEP 523): who needs it, and when it goes in and out.
#pragma once

#include <Python.h>

#include "cpython/frames.h"
#include "hook/entries.h"

namespace dynamo_lite {

// What is known of the evaluator slot. One for the process, under the GIL.
struct Installation {
  PyInterpreterState* interpreter = nullptr;  // the only one: no other can import us
  Evaluator previous = nullptr;               // the evaluator that ours replaced; null for CPython's own
  int users = 0;                              // calls, threads and the process that have an owner other than OFF
  int process_users = 0;                      // of these the process
  bool chained = false;                       // ours is installed, or whoever replaced it may still pass frames to it
};

inline Installation& installation() noexcept {
  static Installation found;
  return found;
}

// The hook itself: see eval_frame.cpp.
PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag);

inline bool counts(const Owner* owner) noexcept { return owner != nullptr && owner != off_owner(); }

bool is_installed() noexcept;
void install() noexcept;
// Takes the hook out if it is installed. If another hook has replaced it, that one holds our address: ours stays, and
// passes frames on.
void remove() noexcept;

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
  ~HookOut();
  HookOut(const HookOut&) = delete;
  HookOut& operator=(const HookOut&) = delete;

 private:
  explicit HookOut(bool wanted) noexcept;

  bool out_;
};

// Whether frames go to CPython's evaluator, or to our hook alone.
bool is_unwatched() noexcept;

}  // namespace dynamo_lite
