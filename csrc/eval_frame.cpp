#include "eval_frame.h"

#include <algorithm>

#include "callables.h"
#include "frame_view.h"
#include "guards.h"

namespace dynamo_lite {

namespace {

// The hook's own state. Under the GIL.
struct Hook {
  Evaluator previous = nullptr;  // whoever was there before us; null for CPython's own
  int users = 0;                 // threads and the process that have an owner other than OFF
  Owner* process = nullptr;      // owned
  bool installed = false;        // ours is the current one, or somebody has put theirs on top of it
};

Hook& hook() noexcept {
  static Hook found;
  return found;
}

PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag);

bool counts(const Owner* owner) noexcept { return owner != nullptr && owner != off_owner(); }

void install(PyThreadState* state) noexcept {
  Hook& our = hook();
  const Evaluator current = current_evaluator(state);
  if (current == evaluate) return;
  // A stranger's evaluator on top of ours chains to us; putting ours on top of it again would make a circle.
  if (our.installed && current != evaluate_default_address()) return;
  our.previous = current == evaluate_default_address() ? nullptr : current;
  our.installed = true;
  set_evaluator(state, evaluate);
}

void remove(PyThreadState* state) noexcept {
  Hook& our = hook();
  if (current_evaluator(state) != evaluate) return;
  set_evaluator(state, our.previous == nullptr ? evaluate_default_address() : our.previous);
  our.installed = false;
}

void add_user(const Owner* owner) noexcept {
  if (!counts(owner)) return;
  ++hook().users;
  install(PyThreadState_Get());
}

void drop_user(const Owner* owner) noexcept {
  if (!counts(owner)) return;
  if (--hook().users == 0) remove(PyThreadState_Get());
}

PyObject* pass_on(PyThreadState* state, Frame* frame, int throwflag) {
  const Evaluator previous = hook().previous;
  return previous == nullptr ? evaluate_default(state, frame, throwflag) : previous(state, frame, throwflag);
}

// Runs a frame, and all that it calls, without any hook: as deep as plain Python goes.
PyObject* run_unhooked(PyThreadState* state, Frame* frame) {
  if (current_evaluator(state) != evaluate) return pass_on(state, frame, 0);
  set_evaluator(state, evaluate_default_address());
  PyObject* result = evaluate_default(state, frame, 0);
  set_evaluator(state, evaluate);
  return result;
}

PyObject* run_off(PyThreadState* state, Frame* frame, Thread& thread) {
  OffScope off(thread);
  return pass_on(state, frame, 0);
}

// The frame's data stack has no room for the new code: it runs in a frame of its own, called with the slots.
PyObject* run_beside(PyThreadState* state, Frame* frame, Entry* entry, Ref captured) {
  const FrameSlots slots = slots_of(frame);
  if (entry->flat == nullptr) entry->flat = flattened(reinterpret_cast<PyCodeObject*>(entry->code)).release();
  Ref function = entry->flat == nullptr ? Ref() : Ref::steal(PyFunction_New(entry->flat, slots.globals));
  PyObject* closure = PyFunction_GET_CLOSURE(slots.func);
  if (!function || (closure != nullptr && PyFunction_SetClosure(function.get(), closure) < 0)) {
    return abandon(state, frame);
  }
  direct_call() = {entry->flat, captured.get(), entry->captured_slot};
  PyObject* result = PyObject_Vectorcall(function.get(), slots.localsplus, argument_count(slots.code), nullptr);
  direct_call() = {};
  if (result == nullptr) return abandon(state, frame);
  discard(state, frame);
  return result;
}

// Runs the continuations that a frame's new code asks for, one after the other, in that frame's place.
PyObject* continue_with(Ref result, PyObject* globals, Thread& thread) {
  while (result && is_continuation(result.get())) {
    Ref function = continuation_function(result.get(), globals);
    if (!function) return nullptr;
    const ContinuationArguments arguments = continuation_arguments(result.get());
    thread.tail = PyFunction_GET_CODE(function.get());
    thread.continuation = result.get();
    Ref next = Ref::steal(PyObject_Vectorcall(function.get(), arguments.values, arguments.count, nullptr));
    thread.tail = nullptr;
    result = std::move(next);
  }
  return result.release();
}

PyObject* run_entry(PyThreadState* state, Frame* frame, const Ref& held, Ref captured, Thread& thread, bool tail) {
  Entry* entry = as_entry(held);
  ++entry->hits;
  const Ref globals = Ref::borrow(slots_of(frame).globals);
  Ref result;
  if (swap_code(state, frame, reinterpret_cast<PyCodeObject*>(entry->code))) {
    if (entry->captured_slot >= 0) set_slot(frame, entry->captured_slot, std::move(captured));
    result = Ref::steal(evaluate_default(state, frame, 0));
    if (result && is_continuation(result.get())) release_locals(frame);
  } else {
    const Ref kept = held;
    result = Ref::steal(run_beside(state, frame, entry, std::move(captured)));
  }
  if (tail || !result || !is_continuation(result.get())) return result.release();
  return continue_with(std::move(result), globals.get(), thread);
}

// Asks the owner. On an entry: true, and it is first in the slot.
enum class Answer { Entry, RunAsItIs, RunOff, Error };

Answer ask(Frame* frame, Owner* owner, PyCodeObject* code, Thread& thread) {
  if (owner->callback == Py_None || owner->callback == nullptr) return Answer::RunAsItIs;
  const Ref callback = Ref::borrow(owner->callback);
  const FrameSlots slots = slots_of(frame);
  FrameViewScope view(slots, owner);
  if (!view) return Answer::Error;
  ++thread.busy;
  const Ref answer = Ref::steal(PyObject_CallOneArg(callback.get(), view.get()));
  --thread.busy;
  if (!answer) return Answer::Error;
  const Verdict verdict = verdict_of(answer.get());
  if (verdict == Verdict::Pass) return Answer::RunAsItIs;
  if (verdict != Verdict::None) {
    OwnerSlot* slot = make_slot(code, owner);
    if (slot == nullptr) return Answer::Error;
    slot->verdict = verdict;
    return verdict == Verdict::Freeze ? Answer::RunOff : Answer::RunAsItIs;
  }
  if (!PyTuple_Check(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 2 ||
      !is_guard_tree(PyTuple_GET_ITEM(answer.get(), 0)) || !PyCode_Check(PyTuple_GET_ITEM(answer.get(), 1))) {
    PyErr_Format(PyExc_TypeError, "a callback returns a verdict or (GuardTree, code), not %R", answer.get());
    return Answer::Error;
  }
  PyObject* tree = PyTuple_GET_ITEM(answer.get(), 0);
  const Ref failure = explain(guard_tree(tree), slots);
  if (PyErr_Occurred()) return Answer::Error;
  if (failure) {
    raise_internal_error(failure.get());
    return Answer::Error;
  }
  return add_entry(code, owner, tree, PyTuple_GET_ITEM(answer.get(), 1)) ? Answer::Entry : Answer::Error;
}

// The entry that holds, moved to the front; empty if none does.
Ref find_entry(OwnerSlot& slot, Frame* frame, Ref& captured) {
  const FrameSlots slots = slots_of(frame);
  bool stale = false;
  for (std::size_t at = 0; at < slot.entries.size(); ++at) {
    GuardTree& tree = guard_tree(as_entry(slot.entries[at])->tree);
    if (check(tree, slots, captured)) {
      if (at != 0) std::rotate(slot.entries.begin(), slot.entries.begin() + at, slot.entries.begin() + at + 1);
      return slot.entries.front();
    }
    stale = stale || !is_valid(tree);
  }
  if (stale) drop_invalid(slot);
  return {};
}

PyObject* run_by_answer(PyThreadState* state, Frame* frame, Owner* owner, Thread& thread, bool tail) {
  const Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(owner));
  PyCodeObject* code = slots_of(frame).code;
  switch (ask(frame, owner, code, thread)) {
    case Answer::Error:
      return abandon(state, frame);
    case Answer::RunOff:
      return run_off(state, frame, thread);
    case Answer::RunAsItIs:
      return pass_on(state, frame, 0);
    case Answer::Entry:
      break;
  }
  // Another thread may have put its own in front meanwhile, so look again.
  Ref captured;
  OwnerSlot* slot = make_slot(code, owner);
  const Ref entry = slot == nullptr ? Ref() : find_entry(*slot, frame, captured);
  if (!entry) return pass_on(state, frame, 0);
  return run_entry(state, frame, entry, std::move(captured), thread, tail);
}

// A frame that run_beside() has called: it has new code already.
bool take_direct(Frame* frame) {
  DirectCall& direct = direct_call();
  if (direct.code == nullptr || reinterpret_cast<PyObject*>(slots_of(frame).code) != direct.code) return false;
  if (direct.captured_slot >= 0) set_slot(frame, direct.captured_slot, Ref::borrow(direct.captured));
  direct = {};
  return true;
}

PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag) {
  if (throwflag != 0) return pass_on(state, frame, throwflag);
  if (is_deep(state)) return run_unhooked(state, frame);
  Thread& thread = this_thread();
  Owner* owner = thread.owner != nullptr ? thread.owner : hook().process;
  if (!counts(owner) || thread.busy != 0 || !is_plain(frame)) return pass_on(state, frame, 0);
  if (take_direct(frame)) return evaluate_default(state, frame, 0);
  PyCodeObject* code = slots_of(frame).code;
  const bool tail = thread.tail == reinterpret_cast<PyObject*>(code);
  thread.tail = nullptr;
  if (tail) drop_arguments(thread.continuation);
  if (is_traced(state)) return pass_on(state, frame, 0);
  Extra* extra = extra_of(code);
  if (extra != nullptr) {
    if (extra->mark == Mark::Skip) return pass_on(state, frame, 0);
    if (extra->mark == Mark::SkipRecursive) return run_off(state, frame, thread);
    if (OwnerSlot* slot = extra->find(owner)) {
      if (slot->verdict == Verdict::Skip) return pass_on(state, frame, 0);
      Ref captured;
      if (const Ref entry = find_entry(*slot, frame, captured)) {
        return run_entry(state, frame, entry, std::move(captured), thread, tail);
      }
      if (slot->verdict == Verdict::Freeze) return run_off(state, frame, thread);
    }
  }
  return run_by_answer(state, frame, owner, thread, tail);
}

// -- functions of the module --------------------------------------------------------------------------------------------

Owner* owner_argument(PyObject* object, bool& ok) {
  ok = object == Py_None || is_owner(object);
  if (!ok) PyErr_Format(PyExc_TypeError, "expected an Owner or None, not %s", Py_TYPE(object)->tp_name);
  return ok && object != Py_None ? reinterpret_cast<Owner*>(object) : nullptr;
}

// Replaces an owner in its place; returns the one before as a new reference, None for none.
PyObject* replace_owner(Owner*& place, Owner* owner) {
  Owner* before = place;
  Py_XINCREF(owner);
  place = owner;
  add_user(owner);
  drop_user(before);
  return before == nullptr ? Py_NewRef(Py_None) : reinterpret_cast<PyObject*>(before);
}

PyObject* set_thread_owner(PyObject*, PyObject* object) {
  bool ok = false;
  Owner* owner = owner_argument(object, ok);
  return ok ? replace_owner(this_thread().owner, owner) : nullptr;
}

PyObject* set_process_owner(PyObject*, PyObject* object) {
  bool ok = false;
  Owner* owner = owner_argument(object, ok);
  return ok ? replace_owner(hook().process, owner) : nullptr;
}

PyObject* current_owner(PyObject*, PyObject*) {
  Owner* owner = this_thread().owner != nullptr ? this_thread().owner : hook().process;
  return Py_NewRef(owner == nullptr ? Py_None : reinterpret_cast<PyObject*>(owner));
}

PyObject* hook_installed(PyObject*, PyObject*) {
  return PyBool_FromLong(current_evaluator(PyThreadState_Get()) == evaluate);
}

PyMethodDef functions[] = {
    {"set_thread_owner", set_thread_owner, METH_O, "Set who compiles on this thread; returns who did."},
    {"set_process_owner", set_process_owner, METH_O, "Set who compiles on threads without an owner; returns who did."},
    {"current_owner", current_owner, METH_NOARGS, "Who compiles on this thread."},
    {"hook_installed", hook_installed, METH_NOARGS, "Whether frames come to us."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Thread& this_thread() noexcept {
  static thread_local Thread found __attribute__((tls_model("initial-exec")));
  return found;
}

DirectCall& direct_call() noexcept {
  static thread_local DirectCall found __attribute__((tls_model("initial-exec")));
  return found;
}

OwnerScope::OwnerScope(Owner* owner) noexcept : thread_(this_thread()), before_(thread_.owner) {
  Py_INCREF(owner);
  thread_.owner = owner;
  add_user(owner);
}

OwnerScope::~OwnerScope() {
  Owner* mine = thread_.owner;
  thread_.owner = before_;
  drop_user(mine);
  Py_XDECREF(mine);
}

bool register_eval_frame(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace dynamo_lite
