#include "hook/eval_frame.h"

#include <ATen/ThreadLocalState.h>

#include <chrono>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "assertions.h"
#include "cpython/objects.h"
#include "guards/guard_tree.h"
#include "guards/guards.h"
#include "hit.h"
#include "hook/callables.h"
#include "hook/collector.h"
#include "hook/frame_view.h"
#include "hook/installation.h"
#include "hook/owners.h"
#include "hook/torch_hook.h"
#include "hook/unwatched.h"

namespace dynamo_lite {

namespace {

// Process-wide settings and counters. Under the GIL.
struct Settings {
  bool when_observed = false;             // all owners compile frames that a tracer watches
  bool eager_forced = false;              // dl.set_stance("force_eager"): no frame runs compiled code
  PyObject* on_traced = nullptr;          // owned: called once, when a tracer first prevents a compilation
  bool never_delays_new = false;          // callbacks are always called for new code
  PyObject* undelayed_folders = nullptr;  // owned: a tuple of folders; callbacks are always called for their code
  unsigned long long delay_count = 0;     // how often a compilation was delayed
} settings;

// Runs a frame without compiled code: in the hook that ours replaced, otherwise in CPython.
PyObject* pass_on(PyThreadState* state, Frame* frame, int throwflag) {
  const Evaluator previous = installation().previous;
  if (previous == nullptr) return evaluate_default(state, frame, throwflag);
  Thread& thread = this_thread(state);
  if (thread.passed_frame == frame)
    return evaluate_default(state, frame, throwflag);  // the other hook passed it back to ours
  const Frame* before = std::exchange(thread.passed_frame, frame);
  PyObject* result = previous(state, frame, throwflag);
  thread.passed_frame = before;
  return result;
}

// Runs a frame that is deep in the recursion, or that dl.set_stance forces to run in eager. Python calls use the C
// stack only while a hook is installed, so the hook is removed while the frame runs, unless something else needs it.
// Near the end of the stack it is removed in any case, so that the recursion limit is the same as without the hook. (A
// compiled call on another thread installs it again.)
[[gnu::noinline]] PyObject* run_deep(PyThreadState* state, Frame* frame, const Thread& thread, Depth depth) {
  const HookRemovedScope out = depth == Depth::Deepest ? HookRemovedScope() : HookRemovedScope(thread.owner);
  return hang_at_exit([&] { return pass_on(state, frame, 0); });
}

// Runs a frame and all that it calls in eager.
PyObject* run_eager_recursive(PyThreadState* state, Frame* frame, Thread& thread) {
  const OffScope off(thread);
  return hang_at_exit([&] { return pass_on(state, frame, 0); });
}

// Runs a frame whose code has been replaced by an entry's.
DL_HIT PyObject* run_new_code(PyThreadState* state, Frame* frame, const Entry* entry, Thread& thread) {
  const auto run = [&] { return evaluate_default(state, frame, 0); };
  if (!entry->self_contained) return hang_at_exit(run);
  const OffScope off(thread);
  return hang_at_exit(run);
}

// Runs a frame that run_in_new_frame() has called. It has the entry's code already.
[[gnu::noinline]] PyObject* run_direct(PyThreadState* state, Frame* frame, Thread& thread, const Handoff& handoff) {
  const int slot = handoff.entry->captured_slot;
  if (slot >= 0) set_slot(frame, slot, Ref::borrow(handoff.captured));
  return run_new_code(state, frame, handoff.entry, thread);
}

// Creates a function of this code with the frame's namespaces and the closure of its function.
Ref function_with_code(PyObject* code, const FrameSlots& slots) {
  return Ref::steal(new_function(code, slots.globals, slots.builtins, function_closure(slots.func)));
}

// Calls an entry's code in a new frame, with the frame's slots as arguments: the data stack has no room to replace the
// code in place.
PyObject* run_in_new_frame(PyThreadState* state, Frame* frame, Entry* entry, Ref captured, Thread& thread) {
  const FrameSlots slots = slots_of(frame);
  Ref& place = HeapType<NewCode>::of(entry->shared.get()).flat;
  Ref flat = place;
  if (!flat) place = flat = flattened(reinterpret_cast<PyCodeObject*>(entry->code));
  const Ref function =
      flat ? function_with_code(flat.get(), slots) : Ref();  // another thread may have replaced `place`
  if (!function) return abandon(state, frame);
  install();  // the call must reach the hook, which another thread may have removed
  PyObject* result;
  {
    const HandoffScope handoff(thread, {flat.get(), nullptr, entry, captured.get()});
    result = call_with_slots(function.get(), slots, argument_count(slots.code));
    DL_ASSERT(handoff.is_taken() || result == nullptr);
  }
  if (result == nullptr) return abandon(state, frame);
  discard(state, frame);
  return result;
}

// Runs a continuation that a frame's new code returned, then the continuation that this one returns, and so on. They
// all run in place of the frame.
PyObject* continue_with(Ref result, Thread& thread) {
  while (result && is_continuation(result.get())) {
    const Ref function = continuation_function(result.get());
    if (!function) return nullptr;
    const ContinuationArguments arguments = continuation_arguments(result.get());
    Ref next;
    {
      const HandoffScope handoff(thread, {PyFunction_GET_CODE(function.get()), result.get(), nullptr, nullptr});
      const auto call = [&] { return PyObject_Vectorcall(function.get(), arguments.values, arguments.count, nullptr); };
      next = Ref::steal(hang_at_exit(call));
      DL_ASSERT(handoff.is_taken() || !next);
    }
    result = std::move(next);
  }
  return result.release();
}

// Runs an entry whose guards hold. Inlined into the hit path: a graph's calls nest deeper than the return-address
// predictor's stack, so each of our own returns after it is mispredicted.
[[gnu::always_inline]] inline PyObject* run_entry(PyThreadState* state, Frame* frame, const Ref& held, Ref captured,
                                                  Thread& thread, bool tail) {
  Entry* entry = as_entry(held);
  ++entry->hits;
  PyObject* result;
  if (swap_code(state, frame, reinterpret_cast<PyCodeObject*>(entry->code))) [[likely]] {
    if (entry->captured_slot >= 0) set_slot(frame, entry->captured_slot, std::move(captured));
    result = run_new_code(state, frame, entry, thread);
    if (result != nullptr && is_continuation(result)) release_locals(frame);
  } else {
    result = run_in_new_frame(state, frame, entry, std::move(captured), thread);
  }
  if (tail || result == nullptr || !is_continuation(result)) return result;
  return continue_with(Ref::steal(result), thread);
}

// Finds the first entry whose guards hold and moves it to the front of the slot; empty if there is none. A check may
// allocate, which may trigger the garbage collector and so run Python. Therefore the slot is looked up again after
// every check.
DL_HIT Ref find_entry(Extra& extra, Owner* owner, OwnerSlot* slot, const FrameSlots& slots, Ref& captured) {
  bool stale = false;
  for (std::size_t at = 0; slot != nullptr && at < slot->entries.size(); slot = extra.find(owner), ++at) {
    Ref entry = slot->entries[at];
    GuardTree& tree = guard_tree(as_entry(entry)->tree.get());
    if (check(tree, slots, captured)) {
      slot = at == 0 ? nullptr : extra.find(owner);
      if (slot != nullptr) move_to_front(*slot, as_entry(entry));
      return entry;
    }
    stale = stale || !is_valid(tree);
  }
  if (stale) drop_invalid(slots.code, owner);
  return {};
}

// Whether the owner has an entry whose guards hold for the frame.
bool has_entry(const FrameSlots& slots, Owner* owner) {
  Extra* extra = extra_of(slots.code);
  Ref captured;
  return extra != nullptr && find_entry(*extra, owner, extra->find(owner), slots, captured);
}

// How to run a frame, decided by its owner's callback. `entry`: the new entry, for RunEntry. `code` and `error`: code
// that raises the error in place of the frame, for RunRaising.
struct Decision {
  enum Kind { RunEntry, RunEager, RunEagerRecursive, Delay, Retry, RunRaising, Error } kind;
  Ref entry = {};
  Ref code = {};
  Ref error = {};
};

// Whether a callback's result is a tuple (code, exception).
bool is_code_and_exception(PyObject* result) noexcept {
  return PyTuple_Check(result) && PyTuple_GET_SIZE(result) == 2 &&
         PyExceptionInstance_Check(PyTuple_GET_ITEM(result, 1));
}

double seconds_since(std::chrono::steady_clock::time_point began) noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Measures the time of a miss, from construction to destruction, and adds it to the owner's spent time.
class MissClock {
 public:
  MissClock(Owner& owner, Thread& thread) noexcept : owner_(owner), thread_(thread) {}
  ~MissClock() {
    const double took = seconds_since(began_);
    owner_.spent += took;
    thread_.accounted_seconds += took;
  }
  MissClock(const MissClock&) = delete;
  MissClock& operator=(const MissClock&) = delete;

 private:
  Owner& owner_;
  Thread& thread_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Calls the owner's callback. No frame is compiled while it runs, and the recursion depth counts from zero. Torch's
// state and what the callback set in the garbage collector are restored here and not in Python, because a signal
// handler or another thread may raise an exception at any point of the Python code.
Ref call_back(PyThreadState* state, Frame* frame, const FrameViewScope& view, Owner* owner, Thread& thread) {
  const Ref callback = owner->callback;
  const HookRemovedScope out(thread.owner);
  const UntracedScope unwatched(state, frame, thread);
  const FreshRecursion recursion(state);
  const at::ThreadLocalState torch;
  const int held = thread.collector_holds;
  ++thread.running_callbacks;
  Ref result = Ref::steal(hang_at_exit([&] { return PyObject_CallOneArg(callback.get(), view.get()); }));
  --thread.running_callbacks;
  unfreeze_objects(thread);
  release_collector(thread, held);
  const bool is_entry = result && PyTuple_Check(result.get()) && !is_code_and_exception(result.get());
  if (!is_entry) at::ThreadLocalState::setThreadLocalState(torch);
  return result;
}

// Adds an entry for a callback's result (GuardTree, code, self_contained, second_owner). A second owner that isn't None
// gets an equal entry. Empty if the guards don't hold for the frame they were created from: another thread, a signal
// handler or the backend changed something meanwhile.
Ref make_entry_of_result(PyObject* result, const FrameViewScope& view, const FrameSlots& slots, Owner* owner) {
  PyObject* tree = nullptr;
  PyObject* code = nullptr;
  int self_contained = 0;
  PyObject* second_owner = Py_None;
  if (!PyTuple_Check(result) ||
      !PyArg_ParseTuple(result, "OO!|pO", &tree, &PyCode_Type, &code, &self_contained, &second_owner) ||
      !is_guard_tree(tree) || !(second_owner == Py_None || HeapType<Owner>::is(second_owner))) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
    raise(PyExc_TypeError, "a callback must return a verdict or (GuardTree, code), not %R", result);
  }
  if (!can_replace(slots.code, reinterpret_cast<PyCodeObject*>(code))) {
    raise(PyExc_ValueError,
          "%R can't replace %R: it must be the code of a function, not of a generator, with as many arguments and free "
          "variables",
          code, slots.code);
  }
  if (const py::object failure = explain(guard_tree(tree), slots)) {
    const OffScope off(this_thread());
    const py::object frame =
        py::module_::import("dynamo_lite.compiler.frame_identity").attr("FrameIdentity")(py::handle(view.get()));
    py::module_::import("dynamo_lite.compiler.recompilation").attr("note_outdated")(frame, failure);
    return {};
  }
  auto* other = reinterpret_cast<Owner*>(second_owner);
  Ref shared = make_new_code(code);
  if (second_owner != Py_None && !has_entry(slots, other)) {
    add_entry(slots.code, other, copied_tree(tree), shared, self_contained != 0);
  }
  return add_entry(slots.code, owner, Ref::borrow(tree), std::move(shared), self_contained != 0);
}

// Converts a callback's result (code, exception).
Decision decide_to_raise(PyObject* result, const FrameSlots& slots) {
  PyObject* code = PyTuple_GET_ITEM(result, 0);
  const bool fits = PyCode_Check(code) &&
                    free_variable_count(reinterpret_cast<PyCodeObject*>(code)) == free_variable_count(slots.code);
  const int count = fits ? argument_count(reinterpret_cast<PyCodeObject*>(code)) : -1;
  if (count < 1 || count < argument_count(slots.code) || count > argument_count(slots.code) + 1) {
    raise(PyExc_ValueError, "%R can't raise in place of %R: it must take its arguments and the exception", code,
          slots.code);
  }
  return {Decision::RunRaising, {}, Ref::borrow(code), Ref::borrow(PyTuple_GET_ITEM(result, 1))};
}

// Whether compilation of this code is delayed without calling the owner's callback: the allowance is spent, and no
// owner has seen the code before. Runs no Python, because most code of a process runs once.
bool is_delayed_as_new(PyCodeObject* code, const Owner& owner) noexcept {
  if (owner.wait_of_new <= 0 || !has_spent_allowance(owner) || settings.never_delays_new) return false;
  if (extra_of(code) != nullptr || settings.undelayed_folders == nullptr) return false;
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(settings.undelayed_folders); ++at) {
    PyObject* folder = PyTuple_GET_ITEM(settings.undelayed_folders, at);
    if (PyUnicode_Tailmatch(file_of(code), folder, 0, PY_SSIZE_T_MAX, -1) != 0) return false;
  }
  return true;
}

// Delays compilation until frames of this code have run in eager for so many seconds.
Decision delay(PyCodeObject* code, Owner* owner, double seconds) {
  OwnerSlot& slot = make_slot(code, owner);
  slot.remaining_delay = seconds;
  slot.was_delayed = true;
  ++settings.delay_count;
  return {Decision::Delay};
}

// Decides how to run a frame for which no entry holds. Calls the owner's callback.
Decision decide(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread) {
  if (!owner->callback || owner->callback.get() == Py_None) return {Decision::RunEager};
  force_evaluator_for_init(frame);
  const FrameSlots slots = slots_of(frame);
  if (is_delayed_as_new(slots.code, *owner)) return delay(slots.code, owner, owner->wait_of_new);
  const MissClock clock(*owner, thread);
  const FrameViewScope view(slots, *owner);  // holds locks until the entry is added: waiting threads then look for it
  const Ref result = call_back(state, frame, view, owner, thread);
  if (!result) return {Decision::Error};
  if (PyExceptionInstance_Check(result.get())) {  // raised by the frame when the compiler ran it; keeps its traceback
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(result.get()))), Py_NewRef(result.get()),
                  PyException_GetTraceback(result.get()));
    return {Decision::Error};
  }
  if (is_code_and_exception(result.get())) return decide_to_raise(result.get(), slots);
  if (PyFloat_CheckExact(result.get())) return delay(slots.code, owner, PyFloat_AS_DOUBLE(result.get()));
  const Verdict verdict = verdict_of(result.get());
  if (verdict == Verdict::Pass) return {Decision::RunEager};
  if (verdict == Verdict::Retry) return {Decision::Retry};
  if (verdict == Verdict::PassRecursive) return {Decision::RunEagerRecursive};
  if (verdict != Verdict::None) {
    const bool has_tensors = verdict == Verdict::SkipWithoutTensors && takes_tensors(slots);
    make_slot(slots.code, owner).verdict = has_tensors ? Verdict::Skip : verdict;
    return {verdict == Verdict::Freeze ? Decision::RunEagerRecursive : Decision::RunEager};
  }
  if (has_entry(slots, owner)) return {Decision::Retry};  // another thread added it meanwhile
  Ref entry = make_entry_of_result(result.get(), view, slots, owner);
  return {entry ? Decision::RunEntry : Decision::RunEager, std::move(entry)};
}

PyObject* evaluate_for(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail);

// Calls the decision's code with the frame's arguments and the error to raise. The code isn't compiled.
PyObject* run_raising(PyThreadState* state, Frame* frame, const Decision& decision, Thread& thread) {
  const FrameSlots slots = slots_of(frame);
  const Ref function = function_with_code(decision.code.get(), slots);
  if (!function) return abandon(state, frame);
  const int count = argument_count(reinterpret_cast<PyCodeObject*>(decision.code.get()));
  std::vector<PyObject*> arguments;
  for (int at = 0; at < count - 1; ++at) arguments.push_back(slots.value(at));
  arguments.push_back(decision.error.get());
  const OffScope off(thread);
  PyObject* result =
      hang_at_exit([&] { return PyObject_Vectorcall(function.get(), arguments.data(), arguments.size(), nullptr); });
  if (result == nullptr) return abandon(state, frame);
  discard(state, frame);
  return result;
}

// Runs a frame in eager and deducts the run time from the owner's remaining delay. Excludes the time in callbacks and
// in delayed frames that it calls, so that no second is deducted twice.
[[gnu::noinline]] PyObject* run_delayed(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread) {
  const Ref code = Ref::borrow(reinterpret_cast<PyObject*>(code_of(frame)));
  const double accounted_before = thread.accounted_seconds;
  const auto began = std::chrono::steady_clock::now();
  PyObject* result = hang_at_exit([&] { return pass_on(state, frame, 0); });
  const double own = seconds_since(began) - (thread.accounted_seconds - accounted_before);
  thread.accounted_seconds += own;
  Extra* extra = extra_of(reinterpret_cast<PyCodeObject*>(code.get()));
  OwnerSlot* slot = extra == nullptr ? nullptr : extra->find(owner);
  if (slot != nullptr) slot->remaining_delay -= own;
  return result;
}

PyObject* ask_callback_and_run(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail) {
  const Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(owner));
  const Decision decision = decide(state, frame, owner, thread);
  switch (decision.kind) {
    case Decision::Error:
      return abandon(state, frame);
    case Decision::RunEagerRecursive:
      return run_eager_recursive(state, frame, thread);
    case Decision::RunEager:
      return hang_at_exit([&] { return pass_on(state, frame, 0); });
    case Decision::Delay:
      return run_delayed(state, frame, owner, thread);
    case Decision::RunRaising:
      return run_raising(state, frame, decision, thread);
    case Decision::Retry:
      return evaluate_for(state, frame, owner, thread, tail);
    case Decision::RunEntry:
      break;
  }
  Ref captured;
  GuardTree& tree = guard_tree(as_entry(decision.entry)->tree.get());
  if (check(tree, slots_of(frame), captured)) {
    return run_entry(state, frame, decision.entry, std::move(captured), thread, tail);
  }
  if (!explain(tree, slots_of(frame))) raise_internal_error();
  // The guarded state has changed since: a finalizer or another thread ran.
  return hang_at_exit([&] { return pass_on(state, frame, 0); });
}

[[gnu::noinline]] PyObject* run_miss(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail) {
  try {
    return ask_callback_and_run(state, frame, owner, thread, tail);
  } catch (const std::exception&) {  // thrown before the frame began
    set_python_error();
    return abandon(state, frame);
  }
}

// Runs a plain function's frame with the owner's first entry whose guards hold, otherwise by its verdict on the code.
// `slot`: the owner's slot on this code, if the caller has found it and doesn't skip it. Null: it is looked up here.
// Inlined for the same reason as run_entry().
[[gnu::always_inline]] inline PyObject* evaluate_with_slot(PyThreadState* state, Frame* frame, Owner* owner,
                                                           Thread& thread, bool tail, OwnerSlot* slot) {
  Extra* extra = slot == nullptr ? extra_of(code_of(frame)) : slot->extra;
  if (slot == nullptr) {
    if (extra == nullptr) return run_miss(state, frame, owner, thread, tail);
    if (extra->mark == Mark::Skip) return pass_on(state, frame, 0);
    slot = extra->find(owner);
    if (slot != nullptr && is_skipped(*slot, frame)) return pass_on(state, frame, 0);
    if (extra->mark == Mark::SkipRecursive) return run_eager_recursive(state, frame, thread);
  }
  const FrameSlots slots = slots_of(frame);
  const Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(owner));
  const Verdict verdict = slot == nullptr ? Verdict::None : slot->verdict;
  const bool is_delayed = slot != nullptr && slot->remaining_delay > 0;
  Ref captured;
  if (const Ref entry = find_entry(*extra, owner, slot, slots, captured)) {
    return run_entry(state, frame, entry, std::move(captured), thread, tail);
  }
  if (verdict == Verdict::Freeze) return run_eager_recursive(state, frame, thread);
  if (verdict == Verdict::Skip) return pass_on(state, frame, 0);
  if (is_delayed) return run_delayed(state, frame, owner, thread);
  return run_miss(state, frame, owner, thread, tail);
}

// The same, for callers that haven't looked up the slot.
[[gnu::noinline]] PyObject* evaluate_for(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail) {
  return evaluate_with_slot(state, frame, owner, thread, tail, nullptr);
}

// Runs a plain function's frame that a tracer watches, or that belongs to a tracer's own callback. By default it runs
// in eager, because compiled code has no lines to stop at or to count.
[[gnu::noinline]] PyObject* run_watched(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail,
                                        Watcher watcher) {
  const bool is_callback = watcher == Watcher::InCallback && callback_depth(state) != thread.capture_depth;
  if (owner->when_observed && !is_callback) return evaluate_for(state, frame, owner, thread, tail);
  if (watcher == Watcher::Tracer) {
    if (settings.when_observed) return evaluate_for(state, frame, owner, thread, tail);
    if (const Ref tell = Ref::steal(std::exchange(settings.on_traced, nullptr))) {
      const UntracedScope unwatched(state, frame, thread);
      const OffScope off(thread);
      if (!Ref::steal(hang_at_exit([&] { return PyObject_CallNoArgs(tell.get()); }))) return abandon(state, frame);
    }
  }
  return pass_on(state, frame, 0);
}

// A quick test whether the frame's code is skipped, as it is for most calls of a program; CPython then runs the frame.
// Besides the conditions tested here only the depth of the stack matters to evaluate_frame() for such code. If the
// owner's slot is found and doesn't skip the frame, `slot` receives it.
inline bool is_known_skipped(PyThreadState* state, Frame* frame, const Thread& thread, OwnerSlot*& slot) {
  if (has_pending_call(thread) || installation().previous != nullptr) return false;
  Owner* owner = thread.owner != nullptr ? thread.owner : process_owner();
  Extra* extra = owner == nullptr ? nullptr : extra_of(code_of(frame));
  if (extra == nullptr) return false;
  if (extra->mark == Mark::None) {
    OwnerSlot* found = extra->find(owner);
    if (found == nullptr) return false;
    if (!is_skipped(*found, frame)) {
      slot = found;
      return false;
    }
  }
  return extra->mark != Mark::SkipRecursive && depth_of(state) == Depth::Shallow;
}

// `slot`: the slot that is_known_skipped() found, or null.
DL_HIT [[gnu::noinline]] PyObject* evaluate_frame(PyThreadState* state, Frame* frame, int throwflag, Thread& thread,
                                                  OwnerSlot* slot) {
  if (throwflag != 0 || thread.passed_frame == frame) return pass_on(state, frame, throwflag);
  const Handoff handoff = take_handoff(thread, reinterpret_cast<PyObject*>(code_of(frame)));
  if (handoff.entry != nullptr) return run_direct(state, frame, thread, handoff);
  if (installation().users == 0) remove();  // a hook that had replaced ours restored it
  if (const Depth depth = depth_of(state); depth != Depth::Shallow) return run_deep(state, frame, thread, depth);
  const bool tail = handoff.continuation != nullptr;
  if (tail) drop_arguments(handoff.continuation);
  Owner* owner = thread.owner != nullptr ? thread.owner : process_owner();
  if (!is_active(owner) || thread.running_callbacks != 0 || !is_plain(frame) || is_finalizing())
    return pass_on(state, frame, 0);
  if (settings.eager_forced && !tail) [[unlikely]]
    return run_deep(state, frame, thread, Depth::Shallow);
  if (thread.owner == nullptr && has_other_hook()) [[unlikely]] {
    if (torch_compiles_here()) return pass_on(state, frame, 0);
    slot = nullptr;  // the lookup in torch may have run Python, which may have reset the owner
  }
  const Watcher watcher = watcher_of(state, frame);
  if (watcher >= Watcher::Tracer) return run_watched(state, frame, owner, thread, tail, watcher);
  return evaluate_with_slot(state, frame, owner, thread, tail, slot);
}

}  // namespace

DL_HIT PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag) {
  Thread& thread = this_thread(state);
  OwnerSlot* slot = nullptr;
  if (throwflag == 0 && is_known_skipped(state, frame, thread, slot)) return evaluate_default(state, frame, 0);
  return evaluate_frame(state, frame, throwflag, thread, slot);
}

bool is_eager_forced() noexcept { return settings.eager_forced; }

void register_eval_frame(py::module_& module) {
  installation().slot = &evaluator_slot(PyInterpreterState_Get());
  register_owners(module);
  register_unwatched(module);
  register_collector(module);
  module.def("hook_installed", is_installed);
  module.def("compile_when_observed", [](bool on) { settings.when_observed = on; });
  module.def("force_eager", [](bool on) { settings.eager_forced = on; });
  module.def("ask_about_new_code", [](bool on) { settings.never_delays_new = on; });
  module.def("ask_about_code_in",
             [](const py::tuple& folders) { put(settings.undelayed_folders, folders.inc_ref().ptr()); });
  module.def("waits", [] { return settings.delay_count; });
  module.def("tell_when_traced", [](Ref tell) { put(settings.on_traced, tell.release()); });
}

}  // namespace dynamo_lite
