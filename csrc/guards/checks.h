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

// The parts of a check that its common kinds do without.
struct CheckDetails {
  Key key;                           // dict_has and the like: the key in question
  std::vector<Key> keys;             // dict_keys and set_order in order, set_items
  std::vector<std::uint32_t> nodes;  // same_as, distinct, storages_distinct, symbolic: the other nodes' numbers
  std::size_t written = 0;           // storages_distinct: how many of the nodes, the first ones, are written to
};

// A check's argument, as its kind keeps it.
struct CheckParts {
  CheckParts() = default;
  CheckParts(const CheckParts& other);
  CheckParts(CheckParts&&) noexcept = default;
  CheckParts& operator=(CheckParts&&) noexcept = default;
  CheckParts& operator=(const CheckParts& other) { return *this = CheckParts(other); }

  // What is there under the key; `of_instance`: in the __dict__ of an instance.
  DictLookup item_of(PyObject* container, bool of_instance) const noexcept;

  PyObject* object = nullptr;           // borrowed from `held`
  Py_ssize_t number = 0;                // length, storage_offset
  bool of_dict = false;                 // lacks_instance_dict_item: the value is the instance's __dict__ itself
  std::unique_ptr<TensorFacts> tensor;  // tensor, tensor_of_any_size, tensor_without_size
  std::unique_ptr<CheckDetails> details;
  GuardedObject held;
};

// What a check is made of: a value that the accessor found, no value, the frame, or relations of several nodes, which
// are checked after all others.
enum class Subject : std::uint8_t { Value, NoValue, Frame, Same, Distinct, StoragesDistinct, Symbolic };

// How a replay (see replay.cpp) repeats a check of an object at the same address.
enum class Replayed : std::uint8_t {
  AsCheck,      // by the check itself
  ByAddress,    // the address says enough
  ByType,       // by the word that has its type
  ByTensor,     // by the words of the tensor
  ByKeepingIt,  // the object is kept alive, so the address says enough
};

// What a kind takes as its argument.
struct CheckArgument {
  const char* wanted;  // in words
  // Makes the parts of it, or throws; false where it is not what is wanted.
  bool (*set)(CheckParts&, PyObject* arg, std::size_t node_count, const Liveness&);
};

struct CheckKind {
  const char* name;
  const CheckArgument* argument;
  // Whether a value meets the check. `found`, if not null, may receive more than the value about a failure. Runs no
  // Python and leaves no exception set; throws where there is no memory. Null for relations.
  bool (*holds)(const CheckParts&, PyObject* value, Found* found) = nullptr;
  // How long the fact lasts that the value meets the check; null: no longer than now.
  Lasts (*lasts)(const CheckParts&, PyObject* value) noexcept = nullptr;
  Replayed replayed = Replayed::AsCheck;
  Subject subject = Subject::Value;
  bool of_instance_dict = false;  // it is made of the instance's __dict__ where that is a node too

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
  // ValueError for a kind that is not there, TypeError for an argument that does not suit it. `node_count`: how many
  // nodes the tree has, for the kinds that name others.
  Check(const char* kind, PyObject* arg, PyObject* reason, std::size_t node_count, const Liveness& liveness);

  bool holds(PyObject* value, Found* found) const {
    const bool is_common = exact_type_ != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(value)) == exact_type_;
    return is_common || kind_->holds(parts_, value, found);  // of the frame there is no value
  }
  Lasts lasts(PyObject* value) const noexcept { return kind_->lasts ? kind_->lasts(parts_, value) : Lasts::Now; }

  // From now on it is made of the instance's __dict__.
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
