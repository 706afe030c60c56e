#define Py_BUILD_CORE 1
#include "cpython/frames.h"
#include "hit.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef HAVE_STD_ATOMIC  // C's <stdatomic.h> is not for C++; the compiler's own atomics have the same layout
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_instruments.h>
#endif
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_ceval.h>
#endif
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_genobject.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#include <internal/pycore_tstate.h>
#endif
#pragma GCC diagnostic pop

namespace dynamo_lite {

namespace {

constexpr int kSpecialFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
constexpr int kFunctionFlags = CO_OPTIMIZED | CO_NEWLOCALS;

constexpr bool kPython312 = PY_VERSION_HEX >= 0x030C0000;

#if PY_VERSION_HEX >= 0x030E0000
static_assert(sizeof(Slot) == sizeof(_PyStackRef) && kUncounted == Py_TAG_REFCNT);
using Word = _PyStackRef;
const Word kNullWord = PyStackRef_NULL;
// Steals the reference to `object`.
Word word_of(PyObject* object) noexcept { return object == nullptr ? kNullWord : PyStackRef_FromPyObjectSteal(object); }
void put_word(Word& place, Word word) noexcept {
  const Word old = std::exchange(place, word);
  if (PyStackRef_RefcountOnObject(old)) drop(PyStackRef_AsPyObjectBorrow(old));
}

PyCodeObject* code_in(Frame* frame) noexcept {
  return reinterpret_cast<PyCodeObject*>(PyStackRef_AsPyObjectBorrow(frame->f_executable));
}
// Sets the code of a frame that has not begun. Steals the reference to the code.
void set_code(Frame* frame, PyCodeObject* code) noexcept {
  put_word(frame->f_executable,
           word_of(reinterpret_cast<PyObject*>(code)));  // the frame's function still holds the old code
  frame->instr_ptr = _PyCode_CODE(code);
}
#else
using Word = PyObject*;
constexpr Word kNullWord = nullptr;
Word word_of(PyObject* object) noexcept { return object; }
void put_word(Word& place, Word word) noexcept { put(place, word); }

#if PY_VERSION_HEX >= 0x030D0000
PyCodeObject* code_in(Frame* frame) noexcept { return reinterpret_cast<PyCodeObject*>(frame->f_executable); }
// Sets the code of a frame that has not begun. Steals the reference to the code.
void set_code(Frame* frame, PyCodeObject* code) noexcept {
  PyCodeObject* old = code_in(frame);
  frame->f_executable = reinterpret_cast<PyObject*>(code);
  frame->instr_ptr = _PyCode_CODE(code);
  drop(old);  // the frame's function still holds the old code
}
#else
PyCodeObject* code_in(Frame* frame) noexcept { return frame->f_code; }
void set_code(Frame* frame, PyCodeObject* code) noexcept {
  PyCodeObject* old = code_in(frame);
  frame->f_code = code;
  frame->prev_instr = _PyCode_CODE(code) - 1;
  drop(old);  // the frame's function still holds the old code
}
#endif
#endif

// set_end: sets the number of slots in use, of a frame that has not begun.
#if PY_VERSION_HEX >= 0x030E0000
PyObject* function_of(Frame* frame) noexcept { return PyStackRef_AsPyObjectBorrow(frame->f_funcobj); }
void set_end(Frame* frame, int end) noexcept { frame->stackpointer = frame->localsplus + end; }
#else
#if PY_VERSION_HEX >= 0x030C0000
PyObject* function_of(Frame* frame) noexcept { return frame->f_funcobj; }
#else
PyObject* function_of(Frame* frame) noexcept { return reinterpret_cast<PyObject*>(frame->f_func); }
#endif
void set_end(Frame* frame, int end) noexcept { frame->stacktop = end; }
#endif

#if PY_VERSION_HEX >= 0x030C0000
int& recursion_remaining(PyThreadState* state) noexcept { return state->py_recursion_remaining; }
int recursion_limit(PyThreadState* state) noexcept { return state->py_recursion_limit; }

// The size of a whole frame, in pointers.
Py_ssize_t frame_size(const PyCodeObject* code) noexcept { return code->co_framesize; }

// The active tools of sys.monitoring, as bit masks. The tools that implement sys.setprofile and sys.settrace are
// ignored: they are set for the whole interpreter, although only threads with such a function use them.
struct Tools {
  uint8_t any = 0;
  uint8_t tracers = 0;  // tools that get events other than calls and returns, or will ask for them

  template <std::size_t count>
  void add(const uint8_t (&tools)[count]) noexcept {
    static constexpr uint8_t none[count] = {};
    if (std::memcmp(tools, none, count) == 0) return;
    uint8_t other_events = 0;
    for (std::size_t event = 0; event < count; ++event) {
      any |= tools[event];
      if (!is_call_event(event)) other_events |= tools[event];
    }
    any &= (1 << PY_MONITORING_SYS_PROFILE_ID) - 1;
    // Debuggers and coverage enable line events of a function when its first call begins.
    constexpr uint8_t always = (1 << PY_MONITORING_DEBUGGER_ID) | (1 << PY_MONITORING_COVERAGE_ID);
    tracers |= any & (other_events | always);
  }

  static constexpr bool is_call_event(std::size_t event) noexcept {
    return event <= PY_MONITORING_EVENT_CALL || event == PY_MONITORING_EVENT_PY_UNWIND ||
           event == PY_MONITORING_EVENT_PY_THROW;
  }
};
#else
int& recursion_remaining(PyThreadState* state) noexcept { return state->recursion_remaining; }
int recursion_limit(PyThreadState* state) noexcept { return state->recursion_limit; }
Py_ssize_t frame_size(const PyCodeObject* code) noexcept {
  return code->co_nlocalsplus + code->co_stacksize + static_cast<Py_ssize_t>(FRAME_SPECIALS_SIZE);
}
#endif

}  // namespace

FrameSlots slots_of(Frame* frame) noexcept {
  return {code_in(frame), function_of(frame), frame->f_globals, frame->f_builtins,
          reinterpret_cast<const Slot*>(frame->localsplus)};
}

PyObject* call_with_slots(PyObject* function, const FrameSlots& slots, int count) noexcept {
#if PY_VERSION_HEX >= 0x030E0000
  const Ref values = Ref::steal(PyTuple_New(count));
  if (!values) return nullptr;
  for (int at = 0; at < count; ++at) PyTuple_SET_ITEM(values.get(), at, Py_XNewRef(slots.value(at)));
  PyObject* const* given = &PyTuple_GET_ITEM(values.get(), 0);
#else
  PyObject* const* given = slots.slots;
#endif
  return hang_at_exit([&] { return PyObject_Vectorcall(function, given, static_cast<std::size_t>(count), nullptr); });
}

PyCodeObject* code_of(Frame* frame) noexcept { return code_in(frame); }

bool is_plain(Frame* frame) noexcept {
  return frame->owner == FRAME_OWNED_BY_THREAD && (code_in(frame)->co_flags & kSpecialFlags) == 0 &&
         (code_in(frame)->co_flags & kFunctionFlags) == kFunctionFlags && frame->frame_obj == nullptr;
}

void ensure_data_stack() noexcept {
  const SavedError error;
  const Ref names = Ref::steal(PyDict_New());
  const Ref ran = names ? Ref::steal(PyRun_String("None", Py_eval_input, names.get(), names.get())) : Ref();
  if (!ran) PyErr_Clear();
}

Watcher watcher_of(PyThreadState* state, Frame* frame) noexcept {
  if (state->tracing != 0) return Watcher::InCallback;
#if PY_VERSION_HEX >= 0x030C0000
  if (state->c_tracefunc != nullptr) return Watcher::Tracer;
  Tools tools;
  tools.add(state->interp->monitors.tools);
  const _PyCoMonitoringData* local = code_in(frame)->_co_monitoring;
  if (local != nullptr) tools.add(local->local_monitors.tools);
  if (tools.tracers != 0) return Watcher::Tracer;
  return tools.any != 0 || state->c_profilefunc != nullptr ? Watcher::Profiler : Watcher::Nobody;
#else
  (void)frame;
  if (state->cframe->use_tracing == 0) return Watcher::Nobody;
  return state->c_tracefunc != nullptr ? Watcher::Tracer : Watcher::Profiler;
#endif
}

StackThresholds find_stack_thresholds([[maybe_unused]] PyThreadState* state) noexcept {
  StackThresholds thresholds{.known = true};
#if PY_VERSION_HEX >= 0x030E0000
  // The limit that CPython itself uses: it refuses calls below it.
  const auto* limits = reinterpret_cast<const _PyThreadStateImpl*>(state);
  const std::uintptr_t limit = limits->c_stack_soft_limit;
  const std::uintptr_t size = limits->c_stack_top - limit;
  thresholds.deep = reinterpret_cast<const char*>(limit + size / 2);
  thresholds.deepest = reinterpret_cast<const char*>(limit + size / 4);
  thresholds.exhausted = reinterpret_cast<const char*>(limit + size / 16);
  return thresholds;
#else
#if PY_VERSION_HEX >= 0x030C0000
  // The limit is a constant of the running interpreter, which may differ from the one in the headers.
  static const int limit = state->c_recursion_remaining;
  thresholds.calls_left = limit / 2;
#endif
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return thresholds;
  void* base = nullptr;
  std::size_t size = 0;
  if (pthread_attr_getstack(&attributes, &base, &size) == 0) {
    thresholds.deep = static_cast<const char*>(base) + size / 2;
    thresholds.deepest = static_cast<const char*>(base) + size / 4;
    thresholds.exhausted = static_cast<const char*>(base) + size / 16;
  }
  pthread_attr_destroy(&attributes);
  return thresholds;
#endif
}

FreshRecursion::FreshRecursion(PyThreadState* state) noexcept
    : state_(state), granted_(recursion_limit(state) - recursion_remaining(state)) {
  recursion_remaining(state) += granted_;
}

FreshRecursion::~FreshRecursion() { recursion_remaining(state_) -= granted_; }

bool can_replace(const PyCodeObject* code, const PyCodeObject* replacement) noexcept {
  return argument_count(code) == argument_count(replacement) && code->co_nfreevars == replacement->co_nfreevars &&
         (replacement->co_flags & kSpecialFlags) == 0 && (replacement->co_flags & kFunctionFlags) == kFunctionFlags;
}

DL_HIT bool swap_code(PyThreadState* state, Frame* frame, PyCodeObject* code) noexcept {
  PyCodeObject* old = code_in(frame);
  auto** base = reinterpret_cast<PyObject**>(frame);
  const Py_ssize_t before = frame_size(old);
  const Py_ssize_t after = frame_size(code);
  if (state->datastack_top != base + before || base + after >= state->datastack_limit) return false;
  state->datastack_top = base + after;  // the code that pops the frame expects it to end there
  const int arguments = argument_count(code);
  std::fill(frame->localsplus + arguments, frame->localsplus + code->co_nlocalsplus, kNullWord);
  Py_INCREF(code);
  set_code(frame, code);
  set_end(frame, code->co_nlocalsplus);
  return true;
}

void set_slot(Frame* frame, int slot, Ref value) noexcept {
  put_word(frame->localsplus[slot], word_of(value.release()));
}

int local_slot(PyCodeObject* code, const char* name) noexcept {
  for (int slot = 0; slot < code->co_nlocals; ++slot) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, slot), name) == 0) return slot;
  }
  return -1;
}

PyObject* abandon(PyThreadState* state, Frame* frame) noexcept {
  // From 3.12 on the evaluator clears its frames; in 3.11 its caller does.
#if PY_VERSION_HEX >= 0x030D0000
  frame->instr_ptr = _PyCode_CODE(code_in(frame)) - 1;  // tracebacks skip a frame that has not begun
#endif
  if constexpr (kPython312) return _PyEval_EvalFrameDefault(state, frame, 1);
  (void)state;
  (void)frame;
  return nullptr;
}

#if PY_VERSION_HEX >= 0x030D0000
void discard(PyThreadState* state, Frame* frame) noexcept {
  hang_at_exit([&] { _PyEval_FrameClearAndPop(state, frame); });
}
#elif PY_VERSION_HEX >= 0x030C0000
// CPython 3.12 doesn't export its functions for this.
void discard(PyThreadState* state, Frame* frame) noexcept {
  for (int slot = 0; slot < frame->stacktop; ++slot) put_word(frame->localsplus[slot], kNullWord);
  drop(frame->f_locals);
  PyCodeObject* code = code_in(frame);
  drop(function_of(frame));
  drop(code);
  auto** base = reinterpret_cast<PyObject**>(frame);
  _PyStackChunk* chunk = state->datastack_chunk;
  if (base != &chunk->data[0]) {
    state->datastack_top = base;
    return;
  }
  // The frame was the first of its chunk, so the chunk is freed, as in _PyThreadState_PopFrame.
  _PyStackChunk* previous = chunk->previous;
  state->datastack_top = &previous->data[previous->top];
  state->datastack_chunk = previous;
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
  state->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
}
#else
void discard(PyThreadState*, Frame*) noexcept {}  // the evaluator's caller does it
#endif

void release_locals(Frame* frame) noexcept {
  if constexpr (kPython312) return;
  if (frame->frame_obj != nullptr && Py_REFCNT(frame->frame_obj) > 1)
    return;  // user code has a reference to the frame object
  for (int slot = 0; slot < code_in(frame)->co_nlocalsplus; ++slot) {
    put_word(frame->localsplus[slot], kNullWord);
  }
}

#if PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000
namespace {
PyObject* allocate(PyTypeObject* type, Py_ssize_t count) { return PyType_GenericAlloc(type, count); }
}  // namespace

void force_evaluator_for_init(Frame* frame) noexcept {
  PyObject* self = argument_count(code_in(frame)) == 0 ? nullptr : frame->localsplus[0];
  if (self == nullptr || !PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_INLINE_VALUES)) return;
  PyTypeObject* type = Py_TYPE(self);
  if (type->tp_alloc != PyType_GenericAlloc) return;
  static PyObject* name = PyUnicode_InternFromString("__init__");
  if (name == nullptr || _PyType_Lookup(type, name) != function_of(frame)) return;
  type->tp_alloc = allocate;  // CPython doesn't specialize calls of classes that have their own allocator
  PyType_Modified(type);      // discards existing specializations
}
#else
void force_evaluator_for_init(Frame*) noexcept {}
#endif

Ref flattened(PyCodeObject* code) {
  Ref replace = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "replace"));
  Ref empty = Ref::steal(PyTuple_New(0));
  Ref names =
      Ref::steal(Py_BuildValue("{s:i,s:i,s:i,s:i}", "co_argcount", argument_count(code), "co_posonlyargcount", 0,
                               "co_kwonlyargcount", 0, "co_flags", code->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS)));
  if (!replace || !empty || !names) return {};
  return Ref::steal(PyObject_Call(replace.get(), empty.get(), names.get()));
}

PyObject* evaluate_default(PyThreadState* state, Frame* frame, int throwflag) {
  return _PyEval_EvalFrameDefault(state, frame, throwflag);
}

Evaluator& evaluator_slot(PyInterpreterState* interpreter) noexcept { return interpreter->eval_frame; }

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _PyRuntimeState_GetFinalizing(&_PyRuntime) != nullptr;
#endif
}

Py_ssize_t request_extra(freefunc free_extra) { return _PyEval_RequestCodeExtraIndex(free_extra); }
bool set_extra(PyCodeObject* code, Py_ssize_t index, void* extra) noexcept {
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index, extra) == 0;
}

}  // namespace dynamo_lite
