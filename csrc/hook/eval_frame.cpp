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

// Settings of the process. Under the GIL.
struct Settings {
  bool when_observed = false;       // all compile where a tracer watches, too
  bool in_eager = false;            // dl.set_stance("force_eager"): nobody's frames run compiled code
  PyObject* tell_traced = nullptr;  // owned: called the first time that a tracer keeps a frame from being compiled
  bool asks_about_new = false;      // new code never waits unasked
  PyObject* never_new = nullptr;    // owned: a tuple of folders, whose code never waits unasked
  unsigned long long waits = 0;     // how often frames were made to wait
} settings;

// Runs a frame as it is: by the hook that was there before ours, else by CPython.
PyObject* pass_on(PyThreadState* state, Frame* frame, int throwflag) {
  const Evaluator previous = installation().previous;
  if (previous == nullptr) return evaluate_default(state, frame, throwflag);
  Thread& thread = this_thread(state);
  if (thread.passing == frame) return evaluate_default(state, frame, throwflag);  // they pass frames to us in turn
  const Frame* before = std::exchange(thread.passing, frame);
  PyObject* result = previous(state, frame, throwflag);
  thread.passing = before;
  return result;
}

// Runs a frame deep in recursion, or in eager by dl.set_stance. A Python call uses C stack only if it is hooked. So the
// hook is taken out for all that the frame calls: if nobody else needs it; near the end of the stack, even if others
// do, so that recursion ends where it ends without us. (A compiled call of another thread puts it in again.)
[[gnu::noinline]] PyObject* run_deep(PyThreadState* state, Frame* frame, const Thread& thread, Depth depth) {
  const HookOut out = depth == Depth::Deepest ? HookOut() : HookOut(thread.owner);
  return hang_at_exit([&] { return pass_on(state, frame, 0); });
}

PyObject* run_off(PyThreadState* state, Frame* frame, Thread& thread) {
  const OffScope off(thread);
  return hang_at_exit([&] { return pass_on(state, frame, 0); });
}

DL_HIT PyObject* run_new_code(PyThreadState* state, Frame* frame, const Entry* entry, Thread& thread) {
  const auto run = [&] { return evaluate_default(state, frame, 0); };
  if (!entry->self_contained) return hang_at_exit(run);
  const OffScope off(thread);
  return hang_at_exit(run);
}

// A frame that run_beside() has called, which has new code already.
[[gnu::noinline]] PyObject* run_direct(PyThreadState* state, Frame* frame, Thread& thread, const Handoff& handoff) {
  const int slot = handoff.entry->captured_slot;
  if (slot >= 0) set_slot(frame, slot, Ref::borrow(handoff.captured));
  return run_new_code(state, frame, handoff.entry, thread);
}

// A function of this code with the namespaces and the closure of the frame's.
Ref function_like(PyObject* code, const FrameSlots& slots) {
  return Ref::steal(new_function(code, slots.globals, slots.builtins, function_closure(slots.func)));
}

// The frame's data stack has no room for the new code: it runs in a frame of its own, called with the slots.
PyObject* run_beside(PyThreadState* state, Frame* frame, Entry* entry, Ref captured, Thread& thread) {
  const FrameSlots slots = slots_of(frame);
  Ref& place = HeapType<NewCode>::of(entry->shared.get()).flat;
  Ref flat = place;
  if (!flat) place = flat = flattened(reinterpret_cast<PyCodeObject*>(entry->code));
  const Ref function = flat ? function_like(flat.get(), slots) : Ref();  // another thread may have replaced the place's
  if (!function) return abandon(state, frame);
  install();  // the call must reach the hook, which another thread may have taken out meanwhile
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

// Runs the continuations that a frame's new code returns, one after the other, in that frame's place.
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

// In line where a hit is: behind a graph, whose calls are deeper than a processor's memory of returns, each return of
// ours is a wrong guess.
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
    result = run_beside(state, frame, entry, std::move(captured), thread);
  }
  if (tail || result == nullptr || !is_continuation(result)) return result;
  return continue_with(Ref::steal(result), thread);
}

// The entry of a slot that holds, moved to the front; empty if none does. A check may allocate, and with that run the
// garbage collector and, with it, any Python code: after a check the slot is looked up again.
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

bool has_entry(const FrameSlots& slots, Owner* owner) {
  Extra* extra = extra_of(slots.code);
  Ref captured;
  return extra != nullptr && find_entry(*extra, owner, extra->find(owner), slots, captured);
}

// What an owner's callback decided about a frame. `entry`: the new entry to run. `code` and `error`: code that raises
// the error in the frame's place.
struct Decision {
  enum Kind { RunEntry, RunAsItIs, RunOff, Wait, Retry, RaiseInside, Error } kind;
  Ref entry = {};
  Ref code = {};
  Ref error = {};
};

// Whether a callback's result is (code, exception).
bool holds_error(PyObject* result) noexcept {
  return PyTuple_Check(result) && PyTuple_GET_SIZE(result) == 2 &&
         PyExceptionInstance_Check(PyTuple_GET_ITEM(result, 1));
}

double seconds_since(std::chrono::steady_clock::time_point began) noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Counts the seconds of its life as spent by a miss: in the callback, and in what the hook does around it.
class MissClock {
 public:
  MissClock(Owner& owner, Thread& thread) noexcept : owner_(owner), thread_(thread) {}
  ~MissClock() {
    const double took = seconds_since(began_);
    owner_.spent += took;
    thread_.accounted += took;
  }
  MissClock(const MissClock&) = delete;
  MissClock& operator=(const MissClock&) = delete;

 private:
  Owner& owner_;
  Thread& thread_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Calls the owner's callback. Meanwhile no frame is compiled, and the recursion depth counts from zero. An error may
// come anywhere, that of a signal's handler or another thread too: what the callback holds and torch's state are
// restored here, not in Python.
Ref call_back(PyThreadState* state, Frame* frame, const FrameViewScope& view, Owner* owner, Thread& thread) {
  const Ref callback = owner->callback;
  const HookOut out(thread.owner);
  const Unwatched unwatched(state, frame, thread);
  const FreshRecursion recursion(state);
  const at::ThreadLocalState torch;
  const int held = thread.collector_holds;
  ++thread.busy;
  Ref result = Ref::steal(hang_at_exit([&] { return PyObject_CallOneArg(callback.get(), view.get()); }));
  --thread.busy;
  release_collector(thread, held);
  const bool is_entry = result && PyTuple_Check(result.get()) && !holds_error(result.get());
  if (!is_entry) at::ThreadLocalState::setThreadLocalState(torch);
  return result;
}

// A new entry of (GuardTree, code, self_contained, keeper). The keeper, an owner or None, has one like it. Empty where
// the guards don't hold of the frame they were made from: another thread, a signal's handler or the backend has changed
// something meanwhile.
Ref accept(PyObject* result, const FrameViewScope& view, const FrameSlots& slots, Owner* owner) {
  PyObject* tree = nullptr;
  PyObject* code = nullptr;
  int self_contained = 0;
  PyObject* keeper = Py_None;
  if (!PyTuple_Check(result) ||
      !PyArg_ParseTuple(result, "OO!|pO", &tree, &PyCode_Type, &code, &self_contained, &keeper) ||
      !is_guard_tree(tree) || !(keeper == Py_None || HeapType<Owner>::is(keeper))) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
    raise(PyExc_TypeError, "a callback returns a verdict or (GuardTree, code), not %R", result);
  }
  if (!can_become(slots.code, reinterpret_cast<PyCodeObject*>(code))) {
    raise(PyExc_ValueError,
          "%R can't take the place of %R: it must be a function's, with as many arguments and free variables, and no "
          "generator's",
          code, slots.code);
  }
  if (const py::object failure = explain(guard_tree(tree), slots)) {
    const OffScope off(this_thread());
    py::module_::import("dynamo_lite.compiler.recompilation").attr("note_outdated")(py::handle(view.get()), failure);
    return {};
  }
  auto* other = reinterpret_cast<Owner*>(keeper);
  Ref shared = make_new_code(code);
  if (keeper != Py_None && !has_entry(slots, other)) {
    add_entry(slots.code, other, copied_tree(tree), shared, self_contained != 0);
  }
  return add_entry(slots.code, owner, Ref::borrow(tree), std::move(shared), self_contained != 0);
}

Decision raise_inside(PyObject* result, const FrameSlots& slots) {
  PyObject* code = PyTuple_GET_ITEM(result, 0);
  const bool fits = PyCode_Check(code) &&
                    free_variable_count(reinterpret_cast<PyCodeObject*>(code)) == free_variable_count(slots.code);
  const int count = fits ? argument_count(reinterpret_cast<PyCodeObject*>(code)) : -1;
  if (count < 1 || count < argument_count(slots.code) || count > argument_count(slots.code) + 1) {
    raise(PyExc_ValueError, "%R can't raise in the place of %R", code, slots.code);
  }
  return {Decision::RaiseInside, {}, Ref::borrow(code), Ref::borrow(PyTuple_GET_ITEM(result, 1))};
}

// Whether frames of this code wait for the owner's usual time, and its callback needn't be asked: the allowance is
// spent, and nobody has said anything of the code. Most frames of a process are met once, so this runs no Python.
bool waits_as_new(PyCodeObject* code, const Owner& owner) noexcept {
  if (owner.wait_of_new <= 0 || !has_spent_allowance(owner) || settings.asks_about_new) return false;
  if (extra_of(code) != nullptr || settings.never_new == nullptr) return false;
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(settings.never_new); ++at) {
    PyObject* folder = PyTuple_GET_ITEM(settings.never_new, at);
    if (PyUnicode_Tailmatch(file_of(code), folder, 0, PY_SSIZE_T_MAX, -1) != 0) return false;
  }
  return true;
}

Decision wait(PyCodeObject* code, Owner* owner, double seconds) {
  OwnerSlot& slot = make_slot(code, owner);
  slot.waits = seconds;
  slot.has_waited = true;
  ++settings.waits;
  return {Decision::Wait};
}

Decision decide(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread) {
  if (!owner->callback || owner->callback.get() == Py_None) return {Decision::RunAsItIs};
  keep_evaluated(frame);
  const FrameSlots slots = slots_of(frame);
  if (waits_as_new(slots.code, *owner)) return wait(slots.code, owner, owner->wait_of_new);
  const MissClock clock(*owner, thread);
  const FrameViewScope view(slots, *owner);  // until there is an entry: who waits for the translation looks for one
  const Ref result = call_back(state, frame, view, owner, thread);
  if (!result) return {Decision::Error};
  if (PyExceptionInstance_Check(result.get())) {  // what the frame raised when the compiler ran it, with its traceback
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(result.get()))), Py_NewRef(result.get()),
                  PyException_GetTraceback(result.get()));
    return {Decision::Error};
  }
  if (holds_error(result.get())) return raise_inside(result.get(), slots);
  if (PyFloat_CheckExact(result.get())) return wait(slots.code, owner, PyFloat_AS_DOUBLE(result.get()));
  const Verdict verdict = verdict_of(result.get());
  if (verdict == Verdict::Pass) return {Decision::RunAsItIs};
  if (verdict == Verdict::Retry) return {Decision::Retry};
  if (verdict == Verdict::PassRecursive) return {Decision::RunOff};
  if (verdict != Verdict::None) {
    const bool has_tensors = verdict == Verdict::SkipWithoutTensors && takes_tensors(slots);
    make_slot(slots.code, owner).verdict = has_tensors ? Verdict::Skip : verdict;
    return {verdict == Verdict::Freeze ? Decision::RunOff : Decision::RunAsItIs};
  }
  if (has_entry(slots, owner)) return {Decision::Retry};  // of another thread, meanwhile
  Ref entry = accept(result.get(), view, slots, owner);
  return {entry ? Decision::RunEntry : Decision::RunAsItIs, std::move(entry)};
}

PyObject* evaluate_for(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail);

// Calls code that takes the frame's arguments and the error to raise, with nobody compiling.
PyObject* run_raising(PyThreadState* state, Frame* frame, const Decision& decision, Thread& thread) {
  const FrameSlots slots = slots_of(frame);
  const Ref function = function_like(decision.code.get(), slots);
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

// Runs a frame as it is, and takes what that took off what its owner waits for, less the time in callbacks and in
// frames that it calls and that are waited for, too: each second is worth one second of translating.
[[gnu::noinline]] PyObject* run_waiting(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread) {
  const Ref code = Ref::borrow(reinterpret_cast<PyObject*>(code_of(frame)));
  const double accounted = thread.accounted;
  const auto began = std::chrono::steady_clock::now();
  PyObject* result = hang_at_exit([&] { return pass_on(state, frame, 0); });
  const double own = seconds_since(began) - (thread.accounted - accounted);
  thread.accounted += own;
  Extra* extra = extra_of(reinterpret_cast<PyCodeObject*>(code.get()));
  OwnerSlot* slot = extra == nullptr ? nullptr : extra->find(owner);
  if (slot != nullptr) slot->waits -= own;
  return result;
}

PyObject* run_decision(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail) {
  const Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(owner));
  const Decision decision = decide(state, frame, owner, thread);
  switch (decision.kind) {
    case Decision::Error:
      return abandon(state, frame);
    case Decision::RunOff:
      return run_off(state, frame, thread);
    case Decision::RunAsItIs:
      return hang_at_exit([&] { return pass_on(state, frame, 0); });
    case Decision::Wait:
      return run_waiting(state, frame, owner, thread);
    case Decision::RaiseInside:
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
  // What it guards has changed since: a finalizer, another thread.
  return hang_at_exit([&] { return pass_on(state, frame, 0); });
}

[[gnu::noinline]] PyObject* run_as_decided(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread,
                                           bool tail) {
  try {
    return run_decision(state, frame, owner, thread, tail);
  } catch (const std::exception&) {  // before the frame began
    set_python_error();
    return abandon(state, frame);
  }
}

// Runs a plain function's frame: by the owner's first entry whose guards hold, otherwise by its verdict on the code.
// `slot`: the owner's on this code, where the caller has found it and it is not skipped; null: it is looked up here.
// In line for the reason that run_entry() gives.
[[gnu::always_inline]] inline PyObject* evaluate_with_slot(PyThreadState* state, Frame* frame, Owner* owner,
                                                           Thread& thread, bool tail, OwnerSlot* slot) {
  Extra* extra = slot == nullptr ? extra_of(code_of(frame)) : slot->extra;
  if (slot == nullptr) {
    if (extra == nullptr) return run_as_decided(state, frame, owner, thread, tail);
    if (extra->mark == Mark::Skip) return pass_on(state, frame, 0);
    slot = extra->find(owner);
    if (slot != nullptr && is_skipped(*slot, frame)) return pass_on(state, frame, 0);
    if (extra->mark == Mark::SkipRecursive) return run_off(state, frame, thread);
  }
  const FrameSlots slots = slots_of(frame);
  const Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(owner));
  const Verdict verdict = slot == nullptr ? Verdict::None : slot->verdict;
  const bool waits = slot != nullptr && slot->waits > 0;
  Ref captured;
  if (const Ref entry = find_entry(*extra, owner, slot, slots, captured)) {
    return run_entry(state, frame, entry, std::move(captured), thread, tail);
  }
  if (verdict == Verdict::Freeze) return run_off(state, frame, thread);
  if (verdict == Verdict::Skip) return pass_on(state, frame, 0);
  if (waits) return run_waiting(state, frame, owner, thread);
  return run_as_decided(state, frame, owner, thread, tail);
}

// The same where nobody has looked for the slot.
[[gnu::noinline]] PyObject* evaluate_for(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail) {
  return evaluate_with_slot(state, frame, owner, thread, tail, nullptr);
}

// Runs a plain function's frame that a tracer watches, or that is a tracer's own callback. By default as CPython does:
// compiled code has no lines to stop at or to count.
[[gnu::noinline]] PyObject* run_watched(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail,
                                        Watcher watcher) {
  const bool is_callback = watcher == Watcher::InCallback && callback_depth(state) != thread.capture_depth;
  if (owner->when_observed && !is_callback) return evaluate_for(state, frame, owner, thread, tail);
  if (watcher == Watcher::Tracer) {
    if (settings.when_observed) return evaluate_for(state, frame, owner, thread, tail);
    if (const Ref tell = Ref::steal(std::exchange(settings.tell_traced, nullptr))) {
      const Unwatched unwatched(state, frame, thread);
      const OffScope off(thread);
      if (!Ref::steal(hang_at_exit([&] { return PyObject_CallNoArgs(tell.get()); }))) return abandon(state, frame);
    }
  }
  return pass_on(state, frame, 0);
}

// Whether the frame is one of code that is skipped, so that CPython runs it: most calls of a program are. No other
// condition of evaluate_frame() but the depth of the stack could change that. Where the owner's slot is found and is
// not skipped, `slot` receives it.
inline bool runs_as_it_is(PyThreadState* state, Frame* frame, const Thread& thread, OwnerSlot*& slot) {
  if (is_in_transit(thread) || installation().previous != nullptr) return false;
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

// `slot`: what runs_as_it_is() found, or null.
DL_HIT [[gnu::noinline]] PyObject* evaluate_frame(PyThreadState* state, Frame* frame, int throwflag, Thread& thread,
                                                  OwnerSlot* slot) {
  if (throwflag != 0 || thread.passing == frame) return pass_on(state, frame, throwflag);
  const Handoff handoff = take_handoff(thread, reinterpret_cast<PyObject*>(code_of(frame)));
  if (handoff.entry != nullptr) return run_direct(state, frame, thread, handoff);
  if (installation().users == 0) remove();  // somebody who was on top of ours has put it back
  if (const Depth depth = depth_of(state); depth != Depth::Shallow) return run_deep(state, frame, thread, depth);
  const bool tail = handoff.continuation != nullptr;
  if (tail) drop_arguments(handoff.continuation);
  Owner* owner = thread.owner != nullptr ? thread.owner : process_owner();
  if (!counts(owner) || thread.busy != 0 || !is_plain(frame) || is_finalizing()) return pass_on(state, frame, 0);
  if (settings.in_eager && !tail) [[unlikely]]
    return run_deep(state, frame, thread, Depth::Shallow);
  if (thread.owner == nullptr && !is_unwatched()) [[unlikely]] {
    if (torch_compiles_here()) return pass_on(state, frame, 0);
    slot = nullptr;  // the lookup in torch may have run Python, and that may have reset the owner
  }
  const Watcher watcher = watcher_of(state, frame);
  if (watcher >= Watcher::Tracer) return run_watched(state, frame, owner, thread, tail, watcher);
  return evaluate_with_slot(state, frame, owner, thread, tail, slot);
}

}  // namespace

DL_HIT PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag) {
  Thread& thread = this_thread(state);
  OwnerSlot* slot = nullptr;
  if (throwflag == 0 && runs_as_it_is(state, frame, thread, slot)) return evaluate_default(state, frame, 0);
  return evaluate_frame(state, frame, throwflag, thread, slot);
}

bool is_in_eager() noexcept { return settings.in_eager; }

void register_eval_frame(py::module_& module) {
  installation().slot = &evaluator_slot(PyInterpreterState_Get());
  register_owners(module);
  register_unwatched(module);
  register_collector(module);
  module.def("hook_installed", is_installed);
  module.def("compile_when_observed", [](bool on) { settings.when_observed = on; });
  module.def("force_eager", [](bool on) { settings.in_eager = on; });
  module.def("ask_about_new_code", [](bool on) { settings.asks_about_new = on; });
  module.def("ask_about_code_in", [](const py::tuple& folders) { put(settings.never_new, folders.inc_ref().ptr()); });
  module.def("waits", [] { return settings.waits; });
  module.def("tell_when_traced", [](Ref tell) { put(settings.tell_traced, tell.release()); });
}

}  // namespace dynamo_lite
