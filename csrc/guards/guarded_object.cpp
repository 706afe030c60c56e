#include "guards/guarded_object.h"

#include "cpython/objects.h"
#include "guards/constants.h"

namespace dynamo_lite {

namespace {

// The callback of a tree's weak references.
struct LivenessObject {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD bool alive;
};

PyObject* end_liveness(PyObject* self, PyObject*, PyObject*) {
  HeapType<LivenessObject>::of(self).alive = false;
  Py_RETURN_NONE;
}

bool can_be_weak(PyObject* object) noexcept {
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) && !is_constant(object);
}

}  // namespace

bool Liveness::no_flag_ = false;

bool Liveness::create() {
  if (object_) return true;
  object_ = HeapType<LivenessObject>::make(true);
  if (object_) flag_ = &HeapType<LivenessObject>::of(object_.get()).alive;
  return static_cast<bool>(object_);
}

void GuardedObject::hold(PyObject* object, const Liveness& liveness) {
  const bool weak = liveness.callback() != nullptr && can_be_weak(object);
  keeper_ = weak ? checked(Ref::steal(PyWeakref_NewRef(object, liveness.callback()))) : Ref::borrow(object);
  object_ = object;
}

Ref GuardedObject::share() const noexcept {
  if (!keeper_) return Ref::borrow(Py_None);
  const bool is_weak = keeper_.get() != object_;
  return Ref::borrow(is_weak ? weak_referent(keeper_.get()) : object_);
}

void register_guarded_object(py::module_& module) {
  HeapType<LivenessObject>(module, "dynamo_lite._C.Liveness", {},
                           {{Py_tp_call, reinterpret_cast<void*>(end_liveness)}});
}

}  // namespace dynamo_lite
