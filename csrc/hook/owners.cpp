#include "hook/owners.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cpython/objects.h"
#include "hit.h"
#include "hook/collector.h"
#include "hook/torch_hook.h"

namespace dynamo_lite {

namespace {

// The owner that compiles on all threads without an owner. Under the GIL.
struct Process {
  Owner* owner = nullptr;                // owned
  std::vector<Block>* blocks = nullptr;  // owned; created for the first block
} process;

Ref as_object(Owner* owner) { return Ref::borrow(owner == nullptr ? Py_None : reinterpret_cast<PyObject*>(owner)); }

// Replaces the owner in a variable. Returns the old owner, or None.
Ref replace_owner(Owner*& place, Owner* owner, int& users) {
  Owner* before = place;
  Py_XINCREF(owner);
  place = owner;
  add_user(owner, users);
  drop_user(before, users);
  return before == nullptr ? Ref::borrow(Py_None) : Ref::steal(reinterpret_cast<PyObject*>(before));
}

// The variables that a block sets, those of a thread or of the process.
struct OwnerVariables {
  Owner*& owner;
  std::vector<Block>*& blocks;
  int& users;
};

OwnerVariables owner_variables(bool of_process) {
  Stacks& stacks = this_threads_stacks();
  if (of_process) return {process.owner, process.blocks, installation().process_users};
  Thread& thread = this_thread();
  return {thread.owner, thread.blocks, stacks.users};
}

constexpr const char* kThreadKey = "dynamo_lite.thread";

void drop_owners(Thread& thread) {
  clear(thread.owner);
  delete std::exchange(thread.blocks, nullptr);
}

// Called when a thread ends: drops its owners and the state of greenlets that haven't finished.
void end_thread(PyObject* capsule) {
  Stacks& stacks = this_threads_stacks();
  if (PyCapsule_GetPointer(capsule, kThreadKey) != &stacks)
    return;  // another thread clears the dict of a thread that has ended
  const auto others = std::exchange(stacks.others, nullptr);
  installation().users -= std::exchange(stacks.users, 0);
  if (installation().users == 0) remove();
  stacks.stack = &kNoStack;
  stacks.first_stack = nullptr;
  drop_owners(stacks.first);
  if (others == nullptr) return;
  for (auto& [stack, each] : *others) drop_owners(each);
  delete others;
}

// Registers end_thread(), once for a thread: it is the destructor of a capsule in the thread's dict. False with an
// exception set.
bool register_thread_end(Stacks& stacks) {
  PyObject* kept = PyThreadState_GetDict();  // borrowed
  if (kept == nullptr || PyDict_GetItemString(kept, kThreadKey) != nullptr) return true;
  const Ref capsule = Ref::steal(PyCapsule_New(&stacks, kThreadKey, end_thread));
  return capsule && PyDict_SetItemString(kept, kThreadKey, capsule.get()) == 0;
}

void enter_block(Owner* owner, bool of_process) {
  Stacks& stacks = this_threads_stacks();
  if (!register_thread_end(stacks)) throw py::error_already_set();
  const OwnerVariables place = owner_variables(of_process);
  stacks.calls += of_process || place.owner == nullptr;
  if (place.blocks == nullptr) place.blocks = new std::vector<Block>();
  auto& blocks = *place.blocks;
  blocks.reserve(blocks.size() + 1);
  Owner* effective = !of_process && torch_compiles_here() ? off_owner() : owner;
  Ref before = replace_owner(place.owner, effective, place.users);
  blocks.push_back({as_object(owner), as_object(effective), std::move(before)});
}

// Leaves the owner's most recently entered block. Blocks needn't be left in reverse order, because coroutines and
// threads interleave them; so the block is removed wherever it is in the list.
void leave_block(Ref owner, bool of_process) {
  const OwnerVariables place = owner_variables(of_process);
  if (place.blocks == nullptr) return;
  auto& blocks = *place.blocks;
  auto at = blocks.size();
  while (at > 0 && blocks[at - 1].owner.get() != owner.get()) --at;
  if (at == 0) return;  // the block was entered on another thread
  const Block left = std::move(blocks[at - 1]);
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at) - 1);
  if (at <= blocks.size()) {
    Ref& before = blocks[at - 1].before;  // that of the block that was entered next
    if (before.get() == left.effective.get()) before = left.before;
  } else if (as_object(place.owner).get() == left.effective.get()) {
    PyObject* before = left.before.get();
    replace_owner(place.owner, before == Py_None ? nullptr : &HeapType<Owner>::of(before), place.users);
  }
}

// Resets the state in a forked child that starts afresh: it never returns to the calls in which it was forked.
void begin_process() {
  Thread& thread = this_thread();
  replace_owner(process.owner, nullptr, installation().process_users);
  delete std::exchange(process.blocks, nullptr);
  thread.running_callbacks = 0;
  drop_other_threads_holds();
  release_collector(thread, 0);
  unfreeze_objects(thread);
  this_threads_stacks().users = installation().users = 0;
  remove();
  drop_owners(thread);
}

// Adjusts the counters in a forked child. Its one thread continues its calls; the calls of other threads don't exist.
void after_fork() {
  drop_other_threads_holds();
  Installation& our = installation();
  our.users = this_threads_stacks().users + our.process_users;
  if (our.users == 0) return remove();
  install();  // another thread may have removed it
}

// Whether a callback is running on another stack of this thread, that is, in another greenlet.
bool is_busy_elsewhere() {
  const Thread& here = this_thread();
  const Stacks& stacks = this_threads_stacks();
  const auto is_busy = [&here](const Thread& each) { return &each != &here && each.running_callbacks != 0; };
  if (is_busy(stacks.first)) return true;
  return stacks.others != nullptr && std::any_of(stacks.others->begin(), stacks.others->end(),
                                                 [&](const auto& each) { return is_busy(each.second); });
}

}  // namespace

Owner* process_owner() noexcept { return process.owner; }

Thread& switch_stacks(Stacks& stacks, PyThreadState* state) noexcept {
  if (data_stack(state) == nullptr) ensure_data_stack();
  const void* stack = data_stack(state);
  if (stacks.first_stack == nullptr) stacks.first_stack = stack;
  Thread* found = &stacks.first;
  if (stack != stacks.first_stack) {
    try {
      if (stacks.others == nullptr) {
        const SavedError error;
        if (!register_thread_end(stacks)) throw std::bad_alloc();
        stacks.others = new std::unordered_map<const void*, Thread>();
      }
      found = &(*stacks.others)[stack];
    } catch (const std::bad_alloc&) {
      return stacks.first;
    }
  }
  stacks.stack = stack;
  stacks.current = found;
  return *found;
}

OwnerScope::OwnerScope(Owner* owner, PyThreadState* state) noexcept
    : thread_(this_thread(state)), before_(thread_.owner) {
  Stacks& stacks = this_threads_stacks();
  stacks.calls += before_ == nullptr;
  Py_INCREF(owner);
  thread_.owner = owner;
  add_user(owner, stacks.users);
}

OwnerScope::~OwnerScope() {
  Owner* mine = thread_.owner;
  thread_.owner = before_;
  drop_user(mine, this_threads_stacks().users);
  drop(mine);
}

DL_HIT OffScope::~OffScope() {
  Owner* mine = thread_.owner;
  thread_.owner = before_;
  drop_user(mine, this_threads_stacks().users);  // an owner that was set inside and not reset
  drop(mine);
}

void register_owners(py::module_& module) {
  module.def("enter_block", enter_block, py::arg("owner"), py::arg("process"));
  module.def("leave_block", leave_block, py::arg("owner"), py::arg("process"));
  module.def("current_owner", [] {
    const Thread& thread = this_thread();
    return as_object(thread.owner != nullptr ? thread.owner : process_owner());
  });
  module.def("outermost_calls", [] { return this_threads_stacks().calls; });
  module.def("is_busy_elsewhere", is_busy_elsewhere);
  module.def("begin_process", begin_process);
  py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") = py::cpp_function(after_fork));
}

}  // namespace dynamo_lite
