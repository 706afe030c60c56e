// Accessors: the steps by which a guard reaches what it checks, each from a value, or the frame, to the next value.
//
// A kind is one row of the table in accessors.cpp, which Python reads too.
#pragma once

#include <cstdint>

#include "cpython/frames.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "guards/guarded_object.h"
#include "refs.h"

namespace dynamo_lite {

// How long a fact about an object lasts.
enum class Lasts : std::uint8_t {
  Now,      // it must be checked each time
  Version,  // while the dict's, or type's, version is the same
  Forever,  // as long as it is the same object
};

// A key of a dict, or a name, with its hash.
struct Key {
  GuardedObject object;
  Py_hash_t hash = 0;
  bool quiet = false;  // compares_quietly

  // Hashes the object, which may run Python.
  void set(PyObject* key, const Liveness& liveness);
};

// The slots of the frames of a code object.
struct FrameLayout {
  Ref names;  // of all slots
  Py_ssize_t free_count = 0;

  explicit FrameLayout(PyCodeObject* code);
};

struct AccessorParts {
  Field field = 0;       // of c_attr
  Py_ssize_t index = 0;  // a slot of the frame, a position; of c_attr the field of a tensor
  Key key;               // dict_item, type_attr, c_attr
  GuardedObject object;  // const, slot
};

enum class From : std::uint8_t { Frame, Nothing, Value };

struct AccessorKind {
  const char* name;
  From from = From::Value;
  // Makes the parts from the argument; throws if it doesn't suit.
  void (*set)(AccessorParts&, PyObject* arg, const FrameLayout&, const Liveness&) = nullptr;
  // The value one step from `from` (which the accessors of the frame ignore). A new object is put into `owned`. Runs no
  // Python and leaves no exception set.
  Reached (*reach)(const AccessorParts&, PyObject* from, const FrameSlots&, Ref& owned) noexcept;
  // The word of `from` that contains the value; null if another object does, or if it is computed. Its address depends
  // on the type of `from` and on the number of its items. A word that contains null stands for a missing value or None.
  PyObject* const* (*word)(const AccessorParts&, PyObject* from) noexcept = nullptr;
  // How long the step leads to the same object; null: it must be taken in every walk.
  Lasts (*lasts)(PyObject* from) noexcept = nullptr;
  // The place in words: a format string of Python's, of `parent`, `arg` and the words that `source.py` defines.
  const char* text;
  bool is_instance_dict = false;
};

class Accessor {
 public:
  Accessor() noexcept = default;
  // ValueError for a kind or an argument that makes no sense.
  Accessor(const char* kind, PyObject* arg, const FrameLayout& layout, const Liveness& liveness);

  Reached reach(PyObject* from, const FrameSlots& frame, Ref& owned) const noexcept {
    return kind_->reach(parts_, from, frame, owned);
  }
  PyObject* const* word(PyObject* from) const noexcept { return kind_->word ? kind_->word(parts_, from) : nullptr; }

  const AccessorKind& kind() const noexcept { return *kind_; }
  int traverse(visitproc visit, void* arg) const;

 private:
  const AccessorKind* kind_ = nullptr;  // null for the frame itself
  AccessorParts parts_;
};

void register_accessors(py::module_& module);

}  // namespace dynamo_lite
