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
  Ref object_;              // a callable of ours; no part of any cycle
  bool* flag_ = &no_flag_;  // inside object_
  static bool no_flag_;     // false: a tree that was not created, or was cleared
};

// One object, held weakly where its type allows, else strongly. The pointer may be compared and followed as long as
// the Liveness is alive: so the address can never be another object's.
class GuardedObject {
 public:
  GuardedObject() noexcept = default;
  // Constants and objects without weak references strongly, others weakly; all strongly with a Liveness that was not
  // created.
  void hold(PyObject* object, const Liveness& liveness);
  PyObject* get() const noexcept { return object_; }
  // The object for a report, None where it was deallocated; a new reference.
  Ref share() const noexcept;
  // A borrowed reference to what this owns: the object itself, or a weak reference to it.
  PyObject* keeper() const noexcept { return keeper_.get(); }

 private:
  PyObject* object_ = nullptr;  // borrowed from keeper_
  Ref keeper_;
};

void register_guarded_object(py::module_& module);

}  // namespace dynamo_lite
