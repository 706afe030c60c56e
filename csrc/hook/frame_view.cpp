#include "hook/frame_view.h"

#include "hook/eval_frame.h"
#include "guards/guards.h"

namespace dynamo_lite {

namespace {

struct FrameView {
  PyObject_HEAD
  const FrameSlots* slots;  // borrowed; null once the callback has returned
  Owner* owner;             // borrowed, as long as slots is there
};

PyTypeObject*& view_type() {
  static PyTypeObject* found = nullptr;
  return found;
}

FrameView* valid(PyObject* self) {
  auto* view = reinterpret_cast<FrameView*>(self);
  if (view->slots != nullptr) return view;
  PyErr_SetString(PyExc_RuntimeError, "this FrameView's callback has returned: the frame is gone");
  return nullptr;
}

PyObject* get_code(PyObject* self, void*) {
  FrameView* view = valid(self);
  return view == nullptr ? nullptr : Py_NewRef(reinterpret_cast<PyObject*>(view->slots->code));
}

PyObject* get_func(PyObject* self, void*) {
  FrameView* view = valid(self);
  return view == nullptr ? nullptr : Py_NewRef(view->slots->func);
}

PyObject* get_globals(PyObject* self, void*) {
  FrameView* view = valid(self);
  return view == nullptr ? nullptr : Py_NewRef(view->slots->globals);
}

PyObject* get_builtins(PyObject* self, void*) {
  FrameView* view = valid(self);
  return view == nullptr ? nullptr : Py_NewRef(view->slots->builtins);
}

PyObject* get_closure(PyObject* self, void*) {
  FrameView* view = valid(self);
  if (view == nullptr) return nullptr;
  PyObject* closure = PyFunction_GET_CLOSURE(view->slots->func);
  return closure == nullptr ? PyTuple_New(0) : Py_NewRef(closure);
}

PyObject* get_locals(PyObject* self, void*) {
  FrameView* view = valid(self);
  if (view == nullptr) return nullptr;
  Ref found = Ref::steal(PyDict_New());
  if (!found) return nullptr;
  const FrameSlots& slots = *view->slots;
  for (int at = 0; at < argument_count(slots.code); ++at) {
    if (slots.values[at] == nullptr) continue;
    PyObject* name = PyTuple_GET_ITEM(slot_names(slots.code), at);
    if (PyDict_SetItem(found.get(), name, slots.values[at]) < 0) return nullptr;
  }
  return found.release();
}

PyObject* get_owner(PyObject* self, void*) {
  FrameView* view = valid(self);
  return view == nullptr ? nullptr : Py_NewRef(reinterpret_cast<PyObject*>(view->owner));
}

OwnerSlot* slot_of(FrameView* view) {
  Extra* extra = extra_of(view->slots->code);
  return extra == nullptr ? nullptr : extra->find(view->owner);
}

PyObject* get_entries(PyObject* self, void*) {
  FrameView* view = valid(self);
  if (view == nullptr) return nullptr;
  drop_invalid(view->slots->code, view->owner);
  const OwnerSlot* slot = slot_of(view);
  return PyLong_FromSize_t(slot == nullptr ? 0 : slot->entries.size());
}

PyObject* misses(PyObject* self, PyObject*) {
  FrameView* view = valid(self);
  Ref found = view == nullptr ? Ref() : Ref::steal(PyList_New(0));
  if (!found) return nullptr;
  OwnerSlot* slot = slot_of(view);
  if (slot == nullptr) return found.release();
  const std::vector<Ref> entries = slot->entries;
  for (const Ref& entry : entries) {
    const Ref failure = explain(guard_tree(as_entry(entry)->tree), *view->slots);
    if (PyErr_Occurred()) return nullptr;
    if (failure && PyList_Append(found.get(), failure.get()) < 0) return nullptr;
  }
  return found.release();
}

PyObject* adopt(PyObject* self, PyObject*) {
  FrameView* view = valid(self);
  if (view == nullptr) return nullptr;
  const bool adopted = adopt_entry(*view->slots, view->owner);
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(adopted);
}

void view_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyGetSetDef getset[] = {
    {"code", get_code, nullptr, nullptr, nullptr},
    {"func", get_func, nullptr, nullptr, nullptr},
    {"globals", get_globals, nullptr, nullptr, nullptr},
    {"builtins", get_builtins, nullptr, nullptr, nullptr},
    {"closure", get_closure, nullptr, "The function's cells in the order of co_freevars.", nullptr},
    {"locals", get_locals, nullptr, "Bound arguments by name.", nullptr},
    {"owner", get_owner, nullptr, nullptr, nullptr},
    {"entries", get_entries, nullptr, "How many valid entries this owner has on this code.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef methods[] = {
    {"misses", misses, METH_NOARGS, "Why each of this owner's entries did not hold, first tried first."},
    {"adopt", adopt, METH_NOARGS, "Whether another owner of the family has an entry that holds; if so, it is shared."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(view_dealloc)},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {0, nullptr},
};
PyType_Spec spec = {"dynamo_lite._C.FrameView", sizeof(FrameView), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

FrameViewScope::FrameViewScope(const FrameSlots& slots, Owner* owner)
    : view_(Ref::steal(view_type()->tp_alloc(view_type(), 0))) {
  if (!view_) return;
  auto* view = reinterpret_cast<FrameView*>(view_.get());
  view->slots = &slots;
  view->owner = owner;
}

FrameViewScope::~FrameViewScope() {
  if (view_) reinterpret_cast<FrameView*>(view_.get())->slots = nullptr;
}

const FrameSlots* frame_slots(PyObject* view) noexcept {
  if (Py_TYPE(view) != view_type()) {
    PyErr_Format(PyExc_TypeError, "expected a FrameView, not %s", Py_TYPE(view)->tp_name);
    return nullptr;
  }
  FrameView* found = valid(view);
  return found == nullptr ? nullptr : found->slots;
}

void raise_internal_error(PyObject* failure) noexcept {
  const Ref module = Ref::steal(PyImport_ImportModule("dynamo_lite.exc"));
  const Ref error = module ? Ref::steal(PyObject_GetAttrString(module.get(), "InternalError")) : Ref();
  if (!error) return;
  if (failure == nullptr) {
    PyErr_SetString(error.get(), "a guard tree holds of a frame when it is asked why not, and does not when it is checked");
    return;
  }
  const Ref reason = Ref::steal(PyObject_GetAttrString(failure, "reason"));
  const Ref found = Ref::steal(PyObject_GetAttrString(failure, "found"));
  if (!reason || !found) return;
  PyErr_Format(error.get(), "a guard does not hold of the frame it was made from: %S (found: %S)", reason.get(),
               found.get());
}

bool register_frame_view(PyObject* module) {
  view_type() = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return view_type() != nullptr && PyModule_AddType(module, view_type()) == 0;
}

}  // namespace dynamo_lite
