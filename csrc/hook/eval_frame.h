// The frame hook (PEP 523): who compiles on this thread, and what is done with each frame.
//
// The room hook/: the evaluator, the entries kept on code objects, and the callables that compiled programs are made
// of. Enters: every Python frame while somebody compiles, before its first instruction. Leaves: the frame's result,
// from an entry's code where guards hold, else from CPython or from what a callback (the compiler, in Python) returns
// for it.
#pragma once

#include <Python.h>

#include <vector>

#include "cpython/frames.h"
#include "hook/entries.h"
#include "refs.h"

namespace dynamo_lite {

// A call that goes around the guards: of an entry's flat code, with its captured values. Borrowed; empty when none is
// due.
struct DirectCall {
  PyObject* code = nullptr;
  const Entry* entry = nullptr;
  PyObject* captured = nullptr;
};

// A with-block in which somebody compiles what a thread runs, or the process.
struct Block {
  Ref owner;     // who entered it
  Ref in_force;  // who compiles: that owner, or OFF where torch.compile is at work
  Ref before;    // who did before, None for nobody
};

// What a thread is doing, on one of its stacks: greenlets give it several, and switch in the middle of calls. `owner`
// is a strong reference or null: whoever the process names then.
struct Thread {
  Owner* owner = nullptr;
  std::vector<Block>* blocks = nullptr;  // owned; made for the first one. The last entered last
  int busy = 0;                          // a callback is at work: frames run as they are
  int capture_depth = 0;                 // callback_depth() where the call began that must be captured
  bool unwatched = false;                // it has begin_unwatched() in force
  PyObject* tail = nullptr;              // borrowed: the code of the continuation that the hook's loop is calling
  PyObject* continuation = nullptr;      // borrowed: that continuation
  const Frame* passing = nullptr;        // the frame that is with another hook
  DirectCall direct = {};
  double accounted = 0;  // seconds: in callbacks, and in frames that ran while their owners wait
};

// Of the stack that runs now. Good for as long as calls on this stack last, whatever is switched to meanwhile.
Thread& this_thread(PyThreadState* state = PyThreadState_Get()) noexcept;

// Sets the thread's owner for the life of the object, the hook being there as long as somebody needs it.
class OwnerScope {
 public:
  explicit OwnerScope(Owner* owner) noexcept;
  ~OwnerScope();
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  Thread& thread_;
  Owner* before_;  // owned
};

// The hook is out of the interpreter for the life of the object where it is on top of CPython's own evaluator: Python
// calls Python as if we were not there. With an `owner`, who is at work on this thread, only if nobody else needs it.
class HookOut {
 public:
  HookOut() noexcept;
  explicit HookOut(const Owner* owner) noexcept;
  ~HookOut();
  HookOut(const HookOut&) = delete;
  HookOut& operator=(const HookOut&) = delete;

 private:
  explicit HookOut(bool wanted) noexcept;

  bool out_;
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

// Whether every frame runs in eager, whoever compiles.
bool is_in_eager() noexcept;

// Whether frames go to CPython's evaluator, or to our hook alone.
bool is_unwatched() noexcept;

void register_eval_frame(py::module_& module);

}  // namespace dynamo_lite
