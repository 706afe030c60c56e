// Access to CPython's frames, the thread's stacks and the evaluator.
//
// The room cpython/: all code that depends on the interpreter's internals, and the only place that tests its version.
// Enters: borrowed objects, frames and thread states of the running interpreter (3.11 to 3.15).
// Leaves: functions with the same meaning in every version. Porting to a new version changes only this room.
#pragma once

#include <Python.h>

#include <cstdint>

#include "cpython/version.h"
#include "refs.h"

struct _PyInterpreterFrame;

namespace dynamo_lite {

using Frame = ::_PyInterpreterFrame;
using Evaluator = PyObject* (*)(PyThreadState*, Frame*, int);

// A slot of a frame. From 3.14 on one bit of it tells that the reference isn't counted.
#if PY_VERSION_HEX >= 0x030E0000
struct [[gnu::may_alias]] Slot {
  std::uintptr_t bits;
};
constexpr std::uintptr_t kUncounted = 1;
inline PyObject* value_of(Slot slot) noexcept { return reinterpret_cast<PyObject*>(slot.bits & ~kUncounted); }
#else
using Slot = PyObject*;
inline PyObject* value_of(Slot slot) noexcept { return slot; }
#endif

// A frame that has not begun: its code, function, namespaces and slots, all borrowed. The first slots contain the
// arguments; the others are null.
struct FrameSlots {
  PyCodeObject* code;
  PyObject* func;
  PyObject* globals;
  PyObject* builtins;
  const Slot* slots;

  PyObject* value(Py_ssize_t at) const noexcept { return value_of(slots[at]); }
};

// Views an array of values as slots of a frame.
inline const Slot* as_slots(PyObject* const* values) noexcept { return reinterpret_cast<const Slot*>(values); }

// Calls a function with the values of the first `count` slots. New reference; null with an exception set.
PyObject* call_with_slots(PyObject* function, const FrameSlots& slots, int count) noexcept;

FrameSlots slots_of(Frame* frame) noexcept;
PyCodeObject* code_of(Frame* frame) noexcept;  // borrowed

// The names of all slots of a frame of `code`, in order; borrowed.
inline PyObject* slot_names(PyCodeObject* code) noexcept { return code->co_localsplusnames; }
inline PyObject* constants_of(PyCodeObject* code) noexcept { return code->co_consts; }  // borrowed
inline PyObject* file_of(PyCodeObject* code) noexcept { return code->co_filename; }     // borrowed
inline int free_variable_count(const PyCodeObject* code) noexcept { return code->co_nfreevars; }

// The number of slots for arguments: positional, keyword-only, *args and **kwargs.
inline int argument_count(const PyCodeObject* code) noexcept {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

// Whether the frame belongs to a plain function and is on the thread's data stack.
bool is_plain(Frame* frame) noexcept;

// Identifies the current stack of a thread. Code that switches between C stacks, such as greenlets, also switches
// between data stacks, and the first chunk of a data stack stays at its address. Null before the first frame.
inline const void* data_stack(PyThreadState* state) noexcept {
  const _PyStackChunk* chunk = state->datastack_chunk;
  while (chunk != nullptr && chunk->previous != nullptr) chunk = chunk->previous;
  return chunk;
}

// Runs a frame, which allocates the data stack.
void ensure_data_stack() noexcept;

// The tools that watch a frame: none; only profilers, which see calls and returns; or a tracer (a debugger, coverage),
// which sees lines. InCallback: the frame belongs to a callback of such a tool, and isn't watched.
enum class Watcher { Nobody, Profiler, Tracer, InCallback };
Watcher watcher_of(PyThreadState* state, Frame* frame) noexcept;

// Addresses on a thread's C stack that separate the values of Depth. Below `exhausted` compiled calls raise.
struct StackThresholds {
  const char* deep = nullptr;
  const char* deepest = nullptr;
  const char* exhausted = nullptr;
  // 3.12 and 3.13: the same for CPython's counter of remaining C calls. Below this it is Deep, below half of it
  // Deepest.
  int calls_left = 0;
  bool known = false;
};
[[gnu::cold]] StackThresholds find_stack_thresholds(PyThreadState* state) noexcept;

inline const StackThresholds& stack_thresholds(PyThreadState* state) noexcept {
  static thread_local StackThresholds thresholds __attribute__((tls_model("initial-exec")));
  if (!thresholds.known) [[unlikely]]
    thresholds = find_stack_thresholds(state);
  return thresholds;
}

// How much of the C stack (or of CPython's counter of C calls) is used up. At `Deep`, frames run in eager. At `Deepest`
// they run without any hook, since plain Python calls then use no C stack.
enum class Depth { Shallow, Deep, Deepest };
inline Depth depth_of(PyThreadState* state) noexcept {
  const char here = 0;
  const StackThresholds& thresholds = stack_thresholds(state);
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
  const int left = state->c_recursion_remaining;
#else
  constexpr int left = 0;
#endif
  if (&here >= thresholds.deep && left >= thresholds.calls_left) [[likely]]
    return Depth::Shallow;
  return &here < thresholds.deepest || left < thresholds.calls_left / 2 ? Depth::Deepest : Depth::Deep;
}

// Whether the C stack is so nearly full that another nested call might crash the process.
inline bool is_exhausted(PyThreadState* state) noexcept {
  const char here = 0;
  return &here < stack_thresholds(state).exhausted;
}

// The number of nested callbacks of tracers that are running on this thread.
inline int callback_depth(PyThreadState* state) noexcept { return state->tracing; }

// Between these two calls, trace and profile functions and tools of sys.monitoring get no events from the thread.
inline void begin_unwatched(PyThreadState* state) noexcept { PyThreadState_EnterTracing(state); }
inline void end_unwatched(PyThreadState* state) noexcept { PyThreadState_LeaveTracing(state); }

// Resets the thread's recursion depth to zero for the lifetime of the object.
class FreshRecursion {
 public:
  explicit FreshRecursion(PyThreadState* state) noexcept;
  ~FreshRecursion();
  FreshRecursion(const FreshRecursion&) = delete;
  FreshRecursion& operator=(const FreshRecursion&) = delete;

 private:
  PyThreadState* state_;
  int granted_;
};

// Whether swap_code() may replace `code` by `replacement`: the code of a plain function with as many arguments and free
// variables.
bool can_replace(const PyCodeObject* code, const PyCodeObject* replacement) noexcept;

// Replaces the code of a frame that has not begun, in place. `code` has the same arguments and free variables. False,
// with the frame unchanged, if the data stack's chunk has no room for a larger frame.
bool swap_code(PyThreadState* state, Frame* frame, PyCodeObject* code) noexcept;

// Sets a slot of a frame that has not begun.
void set_slot(Frame* frame, int slot, Ref value) noexcept;

// The slot of a local variable; -1 if the code has no variable of that name.
int local_slot(PyCodeObject* code, const char* name) noexcept;

// Ends a frame that was never evaluated, after an exception was set. Returns null.
PyObject* abandon(PyThreadState* state, Frame* frame) noexcept;

// Ends a frame that was never evaluated and keeps the exception state of its caller.
void discard(PyThreadState* state, Frame* frame) noexcept;

// Drops the local variables of a finished frame. Only 3.11 needs this, since there the caller of the evaluator clears
// the frame later.
void release_locals(Frame* frame) noexcept;

// If the frame belongs to the __init__ of a class, makes all calls of the class run __init__ through the evaluator, and
// so through the hook. (CPython 3.13 bypasses it in calls that it has specialized.)
void force_evaluator_for_init(Frame* frame) noexcept;

// Creates a copy of `code` whose arguments are all positional, to be called with the slots of a frame. New reference.
Ref flattened(PyCodeObject* code);

PyObject* evaluate_default(PyThreadState* state, Frame* frame, int throwflag);
// The interpreter's variable for its evaluator; null means CPython's. Accessed directly, because a compiled call reads
// and writes it several times.
Evaluator& evaluator_slot(PyInterpreterState* interpreter) noexcept;

// Whether the interpreter is shutting down, so that modules may no longer exist.
bool is_finalizing() noexcept;

// Requests an index for our data on code objects, once per process. -1 if no index is left.
Py_ssize_t request_extra(freefunc free_extra);
// The struct that a code object's co_extra points to (Objects/codeobject.c). Read directly instead of by CPython's
// function, because the hook reads it at every call.
struct CodeExtras {
  Py_ssize_t size;
  void* items[1];
};
inline void* get_extra(const PyCodeObject* code, Py_ssize_t index) noexcept {
  const auto* extras = static_cast<const CodeExtras*>(code->co_extra);
  return extras == nullptr || index < 0 || index >= extras->size ? nullptr : extras->items[index];
}
bool set_extra(PyCodeObject* code, Py_ssize_t index, void* extra) noexcept;

}  // namespace dynamo_lite
