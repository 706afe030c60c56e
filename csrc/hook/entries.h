// Guarded code kept on code objects: for each owner (a dl.compile or dl.enable) its entries and what it said of the
// code.
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

// What one owner has on one code object.
struct OwnerSlot {
  Owner* owner;  // borrowed: it owns this
  Extra* extra;  // borrowed: of the code object
  Verdict verdict = Verdict::None;
  double waits = 0;               // frames run as they are until that has taken so many seconds
  bool has_waited = false;        // the last time that nothing held, they were to wait
  double cost = 0;                // what translating the code is expected to take, in seconds; 0: nothing is known
  std::vector<Ref> entries = {};  // of Entry; the last hit first
};

// A Python object: one that compiles. The garbage collector reaches its entries through it.
struct Owner {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref callback;  // None: cached code only
  Ref name;
  Ref family;                  // None: nobody else's. Owners of one family compile alike
  bool when_observed = false;  // its frames must be captured: where a tracer watches, too
  double spent = 0;            // seconds that misses took, without those that the callback deducts
  double wait_of_new = 0;      // how long frames of new code wait once the allowance is spent; 0: the callback says
  PyObject* weakrefs = nullptr;
  std::unordered_map<PyCodeObject*, std::unique_ptr<OwnerSlot>> slots = {};  // by code, borrowed until its deallocation

  ~Owner() { reset(); }
  auto references() { return std::tie(callback, family); }
  int traverse(visitproc visit, void* arg) const;
  void clear();
  // Takes its slots off all code objects.
  void reset();
};

// A Python object that holds the code which entries share. The garbage collector doesn't traverse code objects, so it
// would never find a cycle through one of their constants (a backend's result that refers to what holds the compiled
// function). This object traverses the constants in their place.
struct NewCode {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref code;
  Ref flat;  // made when first needed: `code` with positional arguments only

  auto references() { return std::tie(); }  // the collector tracks neither
  int traverse(visitproc visit, void* arg) const;
  void clear() {}
};

// A Python object: assumptions and the code that holds under them.
struct Entry {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref tree;  // a GuardTree
  Ref shared;              // a NewCode
  PyObject* code;          // borrowed of it
  PyObject* owner;         // borrowed; null once the entry has been dropped
  std::uint64_t hits;
  int captured_slot;    // where `code` wants the captured values, -1 for nowhere
  bool self_contained;  // `code` runs its graph and makes its result: nothing that it calls is to be compiled

  auto references() { return std::tie(tree, shared); }
  void clear() {}  // Owner::clear takes entries off their code; the objects stay whole for what still refers to them
};

// What a code object carries.
struct Extra {
  PyCodeObject* code;  // borrowed: it owns this
  Mark mark = Mark::None;
  std::vector<OwnerSlot*> slots = {};  // borrowed of their owners

  // Null if the owner has none. Good until Python runs next: that may reset owners.
  [[gnu::always_inline]] OwnerSlot* find(Owner* owner) noexcept {
    if (slots.size() > kFew) return find_of_many(owner);
    for (OwnerSlot* slot : slots) {
      if (slot->owner == owner) return slot;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kFew = 4;

  // All modules share the code of `Module.__call__`, so that one code object may have thousands of slots.
  [[gnu::noinline]] OwnerSlot* find_of_many(Owner* owner) noexcept {
    const auto found = owner->slots.find(code);
    return found == owner->slots.end() ? nullptr : found->second.get();
  }
};

inline Entry* as_entry(const Ref& ref) noexcept { return &HeapType<Entry>::of(ref.get()); }

// Null where the code carries nothing.
Extra* extra_of(PyCodeObject* code) noexcept;
// The owner's slot on the code, made if needed. Throws.
OwnerSlot& make_slot(PyCodeObject* code, Owner* owner);

// An object to share the code by. Throws.
Ref make_new_code(PyObject* code);
// Puts a new entry in front of the owner's others. `new_code`: a NewCode. Throws.
Ref add_entry(PyCodeObject* code, Owner* owner, Ref tree, Ref new_code, bool self_contained);
// Gives the owner an entry of another one of its family that holds of a frame, with guards that remember by themselves.
// False where there is none. Throws.
[[gnu::cold, gnu::noinline]] bool adopt_entry(const FrameSlots& slots, Owner* owner);
// Puts an entry in front of its owner's others, if it is still one of them.
void move_to_front(OwnerSlot& slot, const Entry* entry) noexcept;
// Drops the owner's invalid entries. May run Python.
[[gnu::cold, gnu::noinline]] void drop_invalid(PyCodeObject* code, Owner* owner) noexcept;

// Whether nothing is to be looked up for a frame: its owner has said so of its code.
[[gnu::always_inline]] inline bool is_skipped(const OwnerSlot& slot, Frame* frame) noexcept {
  if (slot.verdict == Verdict::None) return false;
  if (slot.verdict == Verdict::SkipWithoutTensors) return !takes_tensors(slots_of(frame));
  return slot.verdict == Verdict::Skip && slot.entries.empty();
}

Owner* off_owner() noexcept;  // borrowed

// Whether the owner's misses have cost what they may. See Owner::spent.
bool has_spent_allowance(const Owner& owner) noexcept;
// `None` where the object is no verdict.
Verdict verdict_of(PyObject* object) noexcept;

void register_entries(pybind11::module_& module);

}  // namespace dynamo_lite
