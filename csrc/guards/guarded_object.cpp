#include "guards/guarded_object.h"

#include "guards/constants.h"

namespace dynamo_lite {

namespace {

// Called by a weak reference whose object dies.
struct LivenessObject {
  PyObject_HEAD
  bool alive;
};

PyObject* end_liveness(PyObject* self, PyObject*, PyObject*) {
  reinterpret_cast<LivenessObject*>(self)->alive = false;
  Py_RETURN_NONE;
}

// The type, made by prepare_held and kept for the life of the process.
PyTypeObject*& liveness_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

bool can_be_weak(PyObject* object) noexcept {
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) && !is_constant(object);
}

}  // namespace

bool Liveness::no_flag_ = false;

bool Liveness::create() {
  if (object_) return true;
  auto* made = PyObject_New(LivenessObject, liveness_type());
  if (!made) return false;
  made->alive = true;
  object_ = Ref::steal(reinterpret_cast<PyObject*>(made));
  flag_ = &made->alive;
  return true;
}

bool Held::hold(PyObject* object, const Liveness& liveness) {
  PyObject* keeper = can_be_weak(object) ? PyWeakref_NewRef(object, liveness.callback()) : Py_NewRef(object);
  if (!keeper) return false;
  keeper_ = Ref::steal(keeper);
  object_ = object;
  return true;
}

Ref Held::share() const noexcept {
  if (!keeper_) return Ref::borrow(Py_None);
  const bool is_weak = keeper_.get() != object_;
  return Ref::borrow(is_weak ? PyWeakref_GET_OBJECT(keeper_.get()) : object_);
}

int Held::traverse(visitproc visit, void* arg) const {
  Py_VISIT(keeper_.get());
  return 0;
}

bool prepare_held() {
  if (liveness_type()) return true;
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(end_liveness)}, {0, nullptr}};
  PyType_Spec spec = {"dynamo_lite._C.Liveness", sizeof(LivenessObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  liveness_type() = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return liveness_type() != nullptr;
}

}  // namespace dynamo_lite
