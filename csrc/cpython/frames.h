// Frames, the thread's stacks and the evaluator of CPython.
//
// The room cpython/: all that depends on the interpreter's internals, and the only place that names its version.
// Enters: borrowed objects, frames and thread states of the running interpreter (3.11 to 3.15).
// Leaves: functions that say what they read or change, the same for each version. A new version is ported here alone.
#pragma once

#include <Python.h>

#include <cstdint>

#include "cpython/version.h"
#include "refs.h"

struct _PyInterpreterFrame;

namespace dynamo_lite {

using Frame = ::_PyInterpreterFrame;
using Evaluator = PyObject* (*)(PyThreadState*, Frame*, int);

// What a slot of a frame holds. From 3.14 on one bit says that the reference isn't counted.
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

// A frame that has not begun: its code, function, namespaces and slots, all borrowed. The first slots hold the
// arguments, the others are null.
struct FrameSlots {
  PyCodeObject* code;
  PyObject* func;
  PyObject* globals;
  PyObject* builtins;
  const Slot* slots;

  PyObject* value(Py_ssize_t at) const noexcept { return value_of(slots[at]); }
};

// These values as slots of a frame.
inline const Slot* as_slots(PyObject* const* values) noexcept { return reinterpret_cast<const Slot*>(values); }

// Calls a function with the values of the first slots. New reference; null with an exception set.
PyObject* call_with_slots(PyObject* function, const FrameSlots& slots, int count) noexcept;

FrameSlots slots_of(Frame* frame) noexcept;
PyCodeObject* code_of(Frame* frame) noexcept;  // borrowed

// The names of all slots of a frame of `code`, in order; borrowed.
inline PyObject* slot_names(PyCodeObject* code) noexcept { return code->co_localsplusnames; }
inline PyObject* constants_of(PyCodeObject* code) noexcept { return code->co_consts; }  // borrowed
inline PyObject* file_of(PyCodeObject* code) noexcept { return code->co_filename; }     // borrowed
inline int free_variable_count(const PyCodeObject* code) noexcept { return code->co_nfreevars; }

// How many slots hold arguments: positional, keyword-only, *args and **kwargs.
inline int argument_count(const PyCodeObject* code) noexcept {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

// Whether the frame is a plain function's that lives on the thread's data stack.
bool is_plain(Frame* frame) noexcept;

// Tells the stacks of a thread from each other: code that switches between C stacks, as greenlets do, gives each a data
// stack, whose first chunk stays as long as it is used. Null before the first frame.
inline const void* data_stack(PyThreadState* state) noexcept {
  const _PyStackChunk* chunk = state->datastack_chunk;
  while (chunk != nullptr && chunk->previous != nullptr) chunk = chunk->previous;
  return chunk;
}

// Runs a frame, so that there is a data stack.
void begin_data_stack() noexcept;

// Who watches a frame run: nobody; profilers, which see calls and returns; a tracer (a debugger, coverage), which sees
// lines; or it is one of a callback of theirs, which nobody watches.
enum class Watcher { Nobody, Profiler, Tracer, InCallback };
Watcher watcher_of(PyThreadState* state, Frame* frame) noexcept;

// Where on a thread's C stack it becomes deep, and deepest; below the last calls are refused.
struct StackMarks {
  const char* deep = nullptr;
  const char* deepest = nullptr;
  const char* exhausted = nullptr;
  int calls_left =
      0;  // 3.12, 3.13: below which CPython's counter of nested C calls says that it is deep; half: deepest
  bool known = false;
};
[[gnu::cold]] StackMarks find_stack_marks(PyThreadState* state) noexcept;

inline const StackMarks& stack_marks(PyThreadState* state) noexcept {
  static thread_local StackMarks marks __attribute__((tls_model("initial-exec")));
  if (!marks.known) [[unlikely]]
    marks = find_stack_marks(state);
  return marks;
}

// How much of the C stack (or of its counter) calls have used up. Beyond `Deep` frames are left alone; beyond `Deepest`
// they should go on without a hook, as plain Python calls use none of it.
enum class Depth { Shallow, Deep, Deepest };
inline Depth depth_of(PyThreadState* state) noexcept {
  const char here = 0;
  const StackMarks& marks = stack_marks(state);
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
  const int left = state->c_recursion_remaining;
#else
  constexpr int left = 0;
#endif
  if (&here >= marks.deep && left >= marks.calls_left) [[likely]]
    return Depth::Shallow;
  return &here < marks.deepest || left < marks.calls_left / 2 ? Depth::Deepest : Depth::Deep;
}

// Whether there is so little left of the C stack that another level could end the process.
inline bool is_exhausted(PyThreadState* state) noexcept {
  const char here = 0;
  return &here < stack_marks(state).exhausted;
}

// How many callbacks of tracers run on this thread, nested in each other.
inline int callback_depth(PyThreadState* state) noexcept { return state->tracing; }

// Trace and profile functions and tools of sys.monitoring see nothing of the thread between these two.
inline void begin_unwatched(PyThreadState* state) noexcept { PyThreadState_EnterTracing(state); }
inline void end_unwatched(PyThreadState* state) noexcept { PyThreadState_LeaveTracing(state); }

// As many nested Python calls as an empty stack allows, for the life of the object.
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

// Whether a frame of `code` may become one of `replacement`: a plain function with as many arguments and free
// variables.
bool can_become(const PyCodeObject* code, const PyCodeObject* replacement) noexcept;

// Makes the frame one of `code`, in place: `code` has the same arguments and free variables. False, with the frame as
// it was, where the data stack's chunk has no room for a larger frame.
bool swap_code(PyThreadState* state, Frame* frame, PyCodeObject* code) noexcept;

// Puts a value into a slot of a frame that has not begun.
void set_slot(Frame* frame, int slot, Ref value) noexcept;

// The slot of a local variable, -1 if the code has none of that name.
int local_slot(PyCodeObject* code, const char* name) noexcept;

// Ends a frame that was never evaluated, with an exception set. Returns null.
PyObject* abandon(PyThreadState* state, Frame* frame) noexcept;

// Ends a frame that was never evaluated, keeping its caller's exception state.
void discard(PyThreadState* state, Frame* frame) noexcept;

// Drops what a finished frame still holds where its caller clears it later (3.11). Does nothing where the evaluator has
// cleared it.
void release_locals(Frame* frame) noexcept;

// If the frame is of the __init__ of a class: all calls of the class run its __init__ by the interpreter's evaluator.
// (CPython 3.13 enters it without one at calls that it has specialized.)
void keep_evaluated(Frame* frame) noexcept;

// A code object like `code` whose arguments are all positional: it is called with the slots of a frame. New reference.
Ref flattened(PyCodeObject* code);

PyObject* evaluate_default(PyThreadState* state, Frame* frame, int throwflag);
// Where the interpreter keeps its evaluator; null stands for CPython's own. Read and written directly, as a compiled
// call does both several times.
Evaluator& evaluator_slot(PyInterpreterState* interpreter) noexcept;

// Whether the interpreter is being taken down: modules may be gone.
bool is_finalizing() noexcept;

// The index of this project's data on code objects, requested once a process. -1 if there is none left.
Py_ssize_t request_extra(freefunc free_extra);
// What a code object's co_extra points to: Objects/codeobject.c. Read here and not by CPython's function, for the hook
// does so at every call.
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
