// Steps from one value to the next: how a guard reaches what it checks.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "cpython/frames.h"
#include "cpython/objects.h"
#include "guards/guarded_object.h"
#include "refs.h"

namespace dynamo_lite {

enum class AccessorKind : std::uint8_t {
  Frame,
  Local,
  Closure,
  Globals,
  Builtins,
  Function,
  Const,
  Type,
  InstanceDict,
  TypeAttr,
  Slot,
  CAttr,
  DictItem,
  DictKey,
  DictValue,
  ListItem,
  TupleItem,
  DequeItem,
  NextItem,
  NextValue,
  CellContents,
  WeakrefTarget,
  TakenFrom,
  NextNumber,
  ThreadDict,
  Subclasses,
};

// A key of a dict, or a name, with its hash.
struct Key {
  Held object;
  Py_hash_t hash = 0;
  bool quiet = false;  // compares_quietly

  // Hashes the object, which may run Python. False with an exception set.
  bool set(PyObject* key, const Liveness& liveness);
};

// What the frame of a code object can offer, by name.
struct FrameLayout {
  Ref names;  // of all slots
  Py_ssize_t free_count = 0;

  explicit FrameLayout(PyCodeObject* code);
};

struct Reached {
  PyObject* value = nullptr;  // borrowed from where it was found, or from `owned`
  bool readable = true;       // false: the accessor does not apply here, or only Python could answer

  static Reached nothing() noexcept { return {}; }
  static Reached unreadable() noexcept { return {nullptr, false}; }
};

class Accessor {
 public:
  Accessor() noexcept = default;
  // ValueError for a kind or an argument that makes no sense; false with an exception set.
  bool set(const char* kind, PyObject* arg, const FrameLayout& layout, const Liveness& liveness);

  // The value one step from `from` (ignored by the accessors of the frame). Where that is a new object, `owned` gets
  // it. Runs no Python, leaves no exception set.
  Reached reach(PyObject* from, const FrameSlots& frame, Ref& owned) const noexcept;

  // The word of `from` that the value lies in; null where it lies elsewhere or has to be worked out. Where it is depends
  // on the type of `from`, and on how many items it has. Null in the word is nothing there, or None.
  PyObject* const* word(PyObject* from) const noexcept;

  AccessorKind kind() const noexcept { return kind_; }
  // The step in words, as `dict_item 'x'`.
  std::string in_words() const;
  int traverse(visitproc visit, void* arg) const;

 private:
  bool set_frame_part(PyObject* arg, const FrameLayout& layout);
  bool set_index(PyObject* arg);
  bool set_slot(PyObject* arg, const Liveness& liveness);
  bool set_name(PyObject* arg, const Liveness& liveness);

  AccessorKind kind_ = AccessorKind::Frame;
  Field field_ = Field::Other;  // c_attr
  Py_ssize_t index_ = 0;        // a slot of the frame, a position; of c_attr the field of a tensor
  Key key_;               // dict_item, type_attr, c_attr
  Held object_;           // const, slot
};

// False with an exception set.
bool register_accessors(PyObject* module);

}  // namespace dynamo_lite
