// Checks: what a guard demands of one value it reached, or of several.
//
// A kind is one row of the table in checks.cpp: its name, its argument, the function that checks a value, how long the
// result lasts, and all that a user is told of it, which Python reads too. A new kind is a new row and its function.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpython/lookup.h"
#include "guards/accessors.h"
#include "guards/found.h"
#include "guards/guarded_object.h"
#include "guards/tensors.h"
#include "refs.h"

namespace dynamo_lite {

// The parts of a check that only some kinds have.
struct CheckDetails {
  Key key;                           // dict_has and the like: the key in question
  std::vector<Key> keys;             // dict_keys and set_order in order, set_items
  std::vector<std::uint32_t> nodes;  // same_as, distinct, storages_distinct, symbolic: numbers of the other nodes
  std::size_t written = 0;           // storages_distinct: the graph writes to so many of them, which come first
};

// A check's argument, converted to what its kind compares values with.
struct CheckParts {
  CheckParts() = default;
  CheckParts(const CheckParts& other);
  CheckParts(CheckParts&&) noexcept = default;
  CheckParts& operator=(CheckParts&&) noexcept = default;
  CheckParts& operator=(const CheckParts& other) { return *this = CheckParts(other); }

  // The container's item for the key. `of_instance`: of an instance's __dict__.
  DictLookup item_of(PyObject* container, bool of_instance) const noexcept;

  PyObject* object = nullptr;           // borrowed from `held`
  Py_ssize_t number = 0;                // length, storage_offset
  bool of_dict = false;                 // lacks_instance_dict_item: the value is the instance's __dict__ itself
  std::unique_ptr<TensorFacts> tensor;  // tensor, tensor_of_any_size, tensor_without_size
  std::unique_ptr<CheckDetails> details;
  GuardedObject held;
};

// The subject of a check: a value that the accessor found, a missing value, the frame, or several nodes. The last four
// are relations, which are checked after all others.
enum class Subject : std::uint8_t { Value, NoValue, Frame, Same, Distinct, StoragesDistinct, Symbolic };

// How a replay (see replay.h) repeats a check of an object at the same address.
enum class Replayed : std::uint8_t {
  AsCheck,      // by the check itself
  ByAddress,    // the address identifies it
  ByType,       // by the word that contains its type
  ByTensor,     // by the words of the tensor
  ByKeepingIt,  // the object is kept alive, so the address identifies it
};

// The argument that a kind takes.
struct CheckArgument {
  const char* wanted;  // in words
  // Makes the parts from it, or throws. False if the argument is of another sort.
  bool (*set)(CheckParts&, PyObject* arg, std::size_t node_count, const Liveness&);
};

struct CheckKind {
  const char* name;
  const CheckArgument* argument;
  // Whether a value meets the check. `found`, if not null, may receive more than the value about a failure. Runs no
  // Python and leaves no exception set; throws if memory is short. Null for relations.
  bool (*holds)(const CheckParts&, PyObject* value, Found* found) = nullptr;
  // How long the fact lasts that the value meets the check; null: it must be checked in every walk.
  Lasts (*lasts)(const CheckParts&, PyObject* value) noexcept = nullptr;
  Replayed replayed = Replayed::AsCheck;
  Subject subject = Subject::Value;
  bool of_instance_dict = false;  // it moves to the node of the instance's __dict__, if there is one

  // What follows are format strings of Python's. The check as a sentence without its subject; its fields are `arg` and
  // those in records/guards.py.
  const char* text;
  // What a user is told when the check fails and the frame is compiled again; the fields are those in
  // insight/changes.py. `change` for a failure that a value or differences describe, `remark` for one that only words
  // do, `difference` for one of several differences, `about` for what changed, whatever it is now.
  const char* change = "{place}: {value}, was one that {text}";
  const char* remark = "the guard '{condition}' no longer holds: {words}";
  const char* difference = "{what} is {now}, was {was}";
  const char* about = "{place}";
  const char* hint = nullptr;  // what to do about it; null: it follows from the types of the values
  // What an exported program says it wanted and, with the value for `arg`, was given, if it checks the kind (by a
  // function in export/exported_program.py, which can be captured itself).
  const char* wanted = nullptr;
  const char* given = nullptr;
};

class Check {
 public:
  Check() = default;
  // Throws ValueError for an unknown kind, TypeError for an argument that doesn't suit it. `node_count`: the number of
  // nodes in the tree, for kinds that name other nodes.
  Check(const char* kind, PyObject* arg, PyObject* reason, std::size_t node_count, const Liveness& liveness);

  bool holds(PyObject* value, Found* found) const {
    const bool is_common = exact_type_ != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(value)) == exact_type_;
    return is_common || kind_->holds(parts_, value, found);  // for the frame `value` is null
  }
  Lasts lasts(PyObject* value) const noexcept { return kind_->lasts ? kind_->lasts(parts_, value) : Lasts::Now; }

  // Makes the instance's __dict__ its subject.
  void move_to_instance_dict() noexcept { parts_.of_dict = true; }
  bool is_of_dict() const noexcept { return parts_.of_dict; }

  const CheckKind& kind() const noexcept { return *kind_; }
  const CheckDetails& details() const noexcept { return *parts_.details; }
  bool relates() const noexcept { return kind_->subject >= Subject::Same; }
  PyObject* reason() const noexcept { return reason_.get(); }
  // What it is made with, for a report: an object, a key, or a tuple of keys or items. None for what was deallocated,
  // and for kinds that keep none of these. Throws.
  Ref object() const;
  int traverse(visitproc visit, void* arg) const;

 private:
  PyObject* exact_type_ = nullptr;  // of the kind `type`: borrowed from the parts
  const CheckKind* kind_ = nullptr;
  CheckParts parts_;
  Ref reason_;
};

void register_checks(py::module_& module);

}  // namespace dynamo_lite
