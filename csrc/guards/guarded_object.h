// Objects that a guard refers to without keeping them alive.
#pragma once

#include "heap_type.h"
#include "refs.h"

namespace dynamo_lite {

// Whether everything that one tree holds weakly is still alive; shared by the tree, its copies and the callbacks of its
// weak references, which turn it off for good.
class Liveness {
 public:
  // Once. False with an exception set on failure.
  bool create();
  bool alive() const noexcept { return *flag_; }
  // The callback for weak references; borrowed.
  PyObject* callback() const noexcept { return object_.get(); }

 private:
  Ref object_;              // a callable of ours, which is in no reference cycle
  bool* flag_ = &no_flag_;  // inside object_
  static bool no_flag_;     // false: for trees that were not created, or were cleared
};

// One object, held weakly if its type allows that, else strongly. While the Liveness is alive the pointer may be
// compared and followed, and no other object can have the address.
class GuardedObject {
 public:
  GuardedObject() noexcept = default;
  // Holds constants and objects without weak references strongly, others weakly. With a Liveness that was not created
  // it holds all strongly.
  void hold(PyObject* object, const Liveness& liveness);
  PyObject* get() const noexcept { return object_; }
  // The object for a report, or None if it was deallocated; a new reference.
  Ref share() const noexcept;
  // A borrowed reference to what this owns: the object itself, or a weak reference to it.
  PyObject* keeper() const noexcept { return keeper_.get(); }

 private:
  PyObject* object_ = nullptr;  // borrowed from keeper_
  Ref keeper_;
};

void register_guarded_object(py::module_& module);

}  // namespace dynamo_lite
