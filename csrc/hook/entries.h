// The cache of compiled code on code objects. For every owner (a dl.compile or dl.enable) it has the entries and the
// owner's verdict on the code object.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cpython/frames.h"
#include "heap_type.h"
#include "hook/tensor_arguments.h"
#include "refs.h"

namespace dynamo_lite {

enum class Mark : int { None = 0, Skip = 1, SkipRecursive = 2 };
enum class Verdict : int { None = 0, Pass, Skip, SkipWithoutTensors, Freeze, Retry, PassRecursive };

struct Owner;
struct Extra;

// The state of one owner on one code object.
struct OwnerSlot {
  Owner* owner;  // borrowed: it owns this
  Extra* extra;  // borrowed: the code object's
  Verdict verdict = Verdict::None;
  double remaining_delay = 0;     // seconds: frames run in eager until they have taken this long
  bool was_delayed = false;       // whether compilation was delayed at the last miss
  double cost = 0;                // seconds that compiling the code is expected to take; 0 if unknown
  std::vector<Ref> entries = {};  // Entry objects; the most recently hit is first
};

// A Python object: a user of the compiler, such as one dl.compile. The garbage collector reaches its entries through
// it.
struct Owner {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref callback;  // called at a miss; None: only cached code runs
  Ref name;
  Ref family;                  // owners with the same family can share entries; None: no family
  bool when_observed = false;  // its frames must be captured, even if a tracer watches them
  double spent = 0;            // seconds that misses took, without those that the callback deducts
  double wait_of_new = 0;      // the delay of new code once the allowance is spent; 0: the callback decides
  PyObject* weakrefs = nullptr;
  std::unordered_map<PyCodeObject*, std::unique_ptr<OwnerSlot>> slots = {};  // by code, which is borrowed

  ~Owner() { reset(); }
  auto references() { return std::tie(callback, family); }
  int traverse(visitproc visit, void* arg) const;
  void clear();
  // Removes its slots from all code objects.
  void reset();
};

// A Python object that holds code shared by entries. The garbage collector doesn't traverse code objects, so it
// wouldn't find a cycle through their constants (a backend's result may refer to the compiled function). This object
// traverses the constants of its code instead.
struct NewCode {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref code;
  Ref flat;  // `code` with positional arguments only; created when it is first needed

  auto references() { return std::tie(); }  // code objects are traversed by traverse()
  int traverse(visitproc visit, void* arg) const;
  void clear() {}
};

// A Python object: guards, and the code that is valid while they hold.
struct Entry {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref tree;  // a GuardTree
  Ref shared;              // a NewCode
  PyObject* code;          // borrowed from `shared`
  PyObject* owner;         // borrowed; null once the entry has been removed from its slot
  std::uint64_t hits;
  int captured_slot;    // the local variable of `code` for the captured values; -1 if it has none
  bool self_contained;  // `code` only runs its graph and constructs the result: its callees needn't be compiled

  auto references() { return std::tie(tree, shared); }
  void clear() {}  // Owner::clear() removes entries from code objects. Other references may still use this object
};

// Our data on a code object (co_extra).
struct Extra {
  PyCodeObject* code;  // borrowed: it owns this
  Mark mark = Mark::None;
  std::vector<OwnerSlot*> slots = {};  // borrowed from their owners

  // The owner's slot, or null. Valid until Python code runs, which may reset owners.
  [[gnu::always_inline]] OwnerSlot* find(Owner* owner) noexcept {
    if (slots.size() > kFew) return find_among_many(owner);
    for (OwnerSlot* slot : slots) {
      if (slot->owner == owner) return slot;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kFew = 4;

  // All modules share the code of `Module.__call__`, so that one code object may have thousands of slots.
  [[gnu::noinline]] OwnerSlot* find_among_many(Owner* owner) noexcept {
    const auto found = owner->slots.find(code);
    return found == owner->slots.end() ? nullptr : found->second.get();
  }
};

inline Entry* as_entry(const Ref& ref) noexcept { return &HeapType<Entry>::of(ref.get()); }

// Null if the code object has no data of ours.
Extra* extra_of(PyCodeObject* code) noexcept;
// The owner's slot on the code, created if necessary. Throws.
OwnerSlot& make_slot(PyCodeObject* code, Owner* owner);

// Creates a NewCode for a code object. Throws.
Ref make_new_code(PyObject* code);
// Creates an entry in front of the owner's other entries. `new_code`: a NewCode. Throws.
Ref add_entry(PyCodeObject* code, Owner* owner, Ref tree, Ref new_code, bool self_contained);
// Looks for an entry of the owner's family whose guards hold for the frame, and adds a copy to the owner. The copied
// guard tree has its own memory of past checks. False if there is no such entry. Throws.
[[gnu::cold, gnu::noinline]] bool copy_entry_from_family(const FrameSlots& slots, Owner* owner);
// Moves an entry to the front of its slot, if it is still in it.
void move_to_front(OwnerSlot& slot, const Entry* entry) noexcept;
// Drops the owner's invalid entries on the code. May run Python.
[[gnu::cold, gnu::noinline]] void drop_invalid(PyCodeObject* code, Owner* owner) noexcept;

// Whether the owner's verdict on the code is to skip this frame without checking entries.
[[gnu::always_inline]] inline bool is_skipped(const OwnerSlot& slot, Frame* frame) noexcept {
  if (slot.verdict == Verdict::None) return false;
  if (slot.verdict == Verdict::SkipWithoutTensors) return !takes_tensors(slots_of(frame));
  return slot.verdict == Verdict::Skip && slot.entries.empty();
}

Owner* off_owner() noexcept;  // OFF, borrowed

// Whether the owner's misses have used up the allowance. See Owner::spent.
bool has_spent_allowance(const Owner& owner) noexcept;
// Converts a Python object. `None` if it isn't a Verdict.
Verdict verdict_of(PyObject* object) noexcept;

void register_entries(pybind11::module_& module);

}  // namespace dynamo_lite
