#include "hook/entries.h"

#include <structmember.h>

#include <algorithm>
#include <new>

#include "cpython/frames.h"
#include "guards/guards.h"

namespace dynamo_lite {

namespace {

// Types and constants of the module; made once, never freed (entries may outlive the module at shutdown).
struct Registered {
  PyTypeObject* owner = nullptr;
  PyTypeObject* entry = nullptr;
  PyTypeObject* verdict = nullptr;
  PyObject* verdicts[kVerdicts] = {};
  Owner* off = nullptr;
  Py_ssize_t index = -1;
};

Registered& registered() {
  static Registered found;
  return found;
}

void forget(OwnerSlot& slot) {
  for (const Ref& entry : slot.entries) as_entry(entry)->owner = nullptr;
}

void free_extra(void* pointer) {
  auto* extra = static_cast<Extra*>(pointer);
  if (extra == nullptr) return;
  for (OwnerSlot& slot : extra->slots) {
    forget(slot);
    slot.owner->codes.erase(extra->code);
  }
  delete extra;
}

// Takes an owner's slots off all code objects. What they held dies after the tables are consistent again.
void reset_owner(Owner* owner) {
  std::vector<OwnerSlot> dropped;
  for (PyCodeObject* code : owner->codes) {
    Extra* extra = extra_of(code);
    if (extra == nullptr) continue;
    auto& slots = extra->slots;
    for (auto slot = slots.begin(); slot != slots.end();) {
      if (slot->owner == owner) {
        forget(*slot);
        dropped.push_back(std::move(*slot));
        slot = slots.erase(slot);
      } else {
        ++slot;
      }
    }
  }
  owner->codes.clear();
}

PyObject* entries_list(const Extra* extra, const Owner* owner) {
  Ref list = Ref::steal(PyList_New(0));
  if (!list || extra == nullptr) return list.release();
  for (const OwnerSlot& slot : extra->slots) {
    if (owner != nullptr && slot.owner != owner) continue;
    for (const Ref& entry : slot.entries) {
      if (!is_valid(guard_tree(as_entry(entry)->tree))) continue;
      if (PyList_Append(list.get(), entry.get()) < 0) return nullptr;
    }
  }
  return list.release();
}

// -- Owner ------------------------------------------------------------------------------------------------------------

Owner* self_owner(PyObject* self) { return reinterpret_cast<Owner*>(self); }

PyObject* owner_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Owner* owner = self_owner(self);
  owner->callback = Py_NewRef(Py_None);
  owner->name = PyUnicode_FromString("");
  owner->family = Py_NewRef(Py_None);
  new (&owner->codes) std::unordered_set<PyCodeObject*>();
  new (&owner->ahead) LinesAhead();
  return self;
}

int owner_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"callback", "name", "family", nullptr};
  PyObject* callback = nullptr;
  PyObject* name = nullptr;
  PyObject* family = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|UO", const_cast<char**>(names), &callback, &name, &family)) {
    return -1;
  }
  put(self_owner(self)->callback, Py_NewRef(callback));
  if (name != nullptr) put(self_owner(self)->name, Py_NewRef(name));
  if (family != nullptr) put(self_owner(self)->family, Py_NewRef(family));
  return 0;
}

int owner_traverse(PyObject* self, visitproc visit, void* arg) {
  Owner* owner = self_owner(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(owner->callback);
  Py_VISIT(owner->family);
  for (PyCodeObject* code : owner->codes) {
    Extra* extra = extra_of(code);
    OwnerSlot* slot = extra == nullptr ? nullptr : extra->find(owner);
    if (slot == nullptr) continue;
    for (const Ref& entry : slot->entries) Py_VISIT(entry.get());
  }
  return 0;
}

int owner_clear(PyObject* self) {
  reset_owner(self_owner(self));
  clear(self_owner(self)->callback);
  clear(self_owner(self)->family);
  return 0;
}

void owner_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Owner* owner = self_owner(self);
  if (owner->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  reset_owner(owner);
  clear(owner->callback);
  clear(owner->name);
  clear(owner->family);
  owner->codes.~unordered_set();
  owner->ahead.~LinesAhead();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* owner_entries(PyObject* self, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "entries() takes a code object");
  return entries_list(extra_of(reinterpret_cast<PyCodeObject*>(code)), self_owner(self));
}

PyObject* owner_codes(PyObject* self, PyObject*) {
  Ref list = Ref::steal(PyList_New(0));
  if (!list) return nullptr;
  for (PyCodeObject* code : self_owner(self)->codes) {
    if (PyList_Append(list.get(), reinterpret_cast<PyObject*>(code)) < 0) return nullptr;
  }
  return list.release();
}

PyObject* owner_reset(PyObject* self, PyObject*) {
  reset_owner(self_owner(self));
  Py_RETURN_NONE;
}

PyMethodDef owner_methods[] = {
    {"entries", owner_entries, METH_O, "This owner's valid entries on a code object."},
    {"codes", owner_codes, METH_NOARGS, "The code objects on which this owner has entries or verdicts."},
    {"reset", owner_reset, METH_NOARGS, "Drop this owner's entries and verdicts everywhere."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef owner_members[] = {
    {"callback", T_OBJECT, offsetof(Owner, callback), 0, nullptr},
    {"name", T_OBJECT, offsetof(Owner, name), 0, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Owner, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot owner_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(owner_new)},
    {Py_tp_init, reinterpret_cast<void*>(owner_init)},
    {Py_tp_traverse, reinterpret_cast<void*>(owner_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(owner_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(owner_dealloc)},
    {Py_tp_methods, owner_methods},
    {Py_tp_members, owner_members},
    {0, nullptr},
};
PyType_Spec owner_spec = {"dynamo_lite._C.Owner", sizeof(Owner), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, owner_slots};

// -- Entry ------------------------------------------------------------------------------------------------------------

Entry* self_entry(PyObject* self) { return reinterpret_cast<Entry*>(self); }

int entry_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_entry(self)->tree);
  Py_VISIT(self_entry(self)->code);
  Py_VISIT(self_entry(self)->flat);
  return 0;
}

int entry_clear(PyObject* self) {
  // The owner's clear takes entries off their code first; the objects themselves stay whole for who still holds one.
  (void)self;
  return 0;
}

void entry_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self_entry(self)->tree);
  clear(self_entry(self)->code);
  clear(self_entry(self)->flat);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* entry_valid(PyObject* self, void*) {
  return PyBool_FromLong(self_entry(self)->owner != nullptr && is_valid(guard_tree(self_entry(self)->tree)));
}

PyObject* entry_owner(PyObject* self, void*) {
  PyObject* owner = self_entry(self)->owner;
  return Py_NewRef(owner == nullptr ? Py_None : owner);
}

PyGetSetDef entry_getset[] = {
    {"valid", entry_valid, nullptr, "Whether it may still hold.", nullptr},
    {"owner", entry_owner, nullptr, "Whose it is; None once dropped.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef entry_members[] = {
    {"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, nullptr},
    {"code", T_OBJECT, offsetof(Entry, code), READONLY, nullptr},
    {"tree", T_OBJECT, offsetof(Entry, tree), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot entry_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(entry_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(entry_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(entry_dealloc)},
    {Py_tp_getset, entry_getset},
    {Py_tp_members, entry_members},
    {0, nullptr},
};
PyType_Spec entry_spec = {"dynamo_lite._C.Entry", sizeof(Entry), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, entry_slots};

PyType_Slot verdict_slots[] = {{0, nullptr}};
PyType_Spec verdict_spec = {"dynamo_lite._C.Verdict", sizeof(PyObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, verdict_slots};

// -- functions of the module --------------------------------------------------------------------------------------------

PyObject* module_entries(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "entries() takes a code object");
  return entries_list(extra_of(reinterpret_cast<PyCodeObject*>(code)), nullptr);
}

PyObject* mark_code(PyObject*, PyObject* args) {
  PyObject* code = nullptr;
  int mark = 0;
  if (!PyArg_ParseTuple(args, "O!i", &PyCode_Type, &code, &mark)) return nullptr;
  if (mark < 0 || mark > 2) return PyErr_Format(PyExc_ValueError, "no mark %d: take one of the MARK_ constants", mark);
  Extra* extra = make_extra(reinterpret_cast<PyCodeObject*>(code));
  if (extra == nullptr) return nullptr;
  extra->mark = static_cast<Mark>(mark);
  Py_RETURN_NONE;
}

PyObject* get_mark(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "get_mark() takes a code object");
  Extra* extra = extra_of(reinterpret_cast<PyCodeObject*>(code));
  return PyLong_FromLong(extra == nullptr ? 0 : static_cast<long>(extra->mark));
}

PyMethodDef functions[] = {
    {"entries", module_entries, METH_O, "Every owner's valid entries on a code object."},
    {"mark_code", mark_code, METH_VARARGS, "Set a code object's process-wide mark."},
    {"get_mark", get_mark, METH_O, "A code object's mark."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(spec));
  if (type == nullptr || PyModule_AddType(module, type) < 0) return nullptr;
  return type;
}

bool add_verdicts(PyObject* module) {
  static const char* names[] = {nullptr, "PASS", "SKIP", "FREEZE", "RETRY"};
  Registered& all = registered();
  for (int at = 1; at < kVerdicts; ++at) {
    all.verdicts[at] = all.verdict->tp_alloc(all.verdict, 0);
    if (all.verdicts[at] == nullptr || PyModule_AddObjectRef(module, names[at], all.verdicts[at]) < 0) return false;
  }
  return true;
}

}  // namespace

Extra* extra_of(PyCodeObject* code) noexcept { return static_cast<Extra*>(get_extra(code, registered().index)); }

Extra* make_extra(PyCodeObject* code) {
  Extra* extra = extra_of(code);
  if (extra != nullptr) return extra;
  extra = new (std::nothrow) Extra{code};
  if (extra == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  if (!set_extra(code, registered().index, extra)) {
    delete extra;
    return nullptr;
  }
  return extra;
}

OwnerSlot* make_slot(PyCodeObject* code, Owner* owner) {
  Extra* extra = make_extra(code);
  if (extra == nullptr) return nullptr;
  if (OwnerSlot* slot = extra->find(owner)) return slot;
  extra->slots.push_back(OwnerSlot{owner});
  owner->codes.insert(code);
  return &extra->slots.back();
}

void move_to_front(OwnerSlot& slot, const Entry* wanted) noexcept {
  auto& entries = slot.entries;
  const auto found =
      std::find_if(entries.begin(), entries.end(), [wanted](const Ref& each) { return as_entry(each) == wanted; });
  if (found != entries.end()) std::rotate(entries.begin(), found, found + 1);
}

void drop_invalid(PyCodeObject* code, const Owner* owner) {
  Extra* extra = extra_of(code);
  OwnerSlot* slot = extra == nullptr ? nullptr : extra->find(owner);
  if (slot == nullptr) return;
  std::vector<Ref> dropped;  // dies last, when the list is whole again
  auto& entries = slot->entries;
  for (auto at = entries.begin(); at != entries.end();) {
    if (is_valid(guard_tree(as_entry(*at)->tree))) {
      ++at;
    } else {
      as_entry(*at)->owner = nullptr;
      dropped.push_back(std::move(*at));
      at = entries.erase(at);
    }
  }
}

Ref add_entry(PyCodeObject* code, Owner* owner, PyObject* tree, PyObject* new_code, bool self_contained) {
  Ref made = Ref::steal(registered().entry->tp_alloc(registered().entry, 0));
  if (!made) return {};
  Entry* entry = as_entry(made);
  entry->tree = Py_NewRef(tree);
  entry->code = Py_NewRef(new_code);
  entry->owner = reinterpret_cast<PyObject*>(owner);
  entry->captured_slot = local_slot(reinterpret_cast<PyCodeObject*>(new_code), "___captured");
  entry->self_contained = self_contained;
  OwnerSlot* slot = make_slot(code, owner);
  if (slot == nullptr) return {};
  slot->entries.insert(slot->entries.begin(), made);
  return made;
}

bool adopt_entry(const FrameSlots& slots, Owner* owner) {
  Extra* extra = extra_of(slots.code);
  if (extra == nullptr || owner->family == nullptr || owner->family == Py_None) return false;
  std::vector<Ref> candidates;  // a check may run the garbage collector, and that anything
  std::unordered_set<PyObject*> codes;  // borrowed: an adopted entry has its elder's, and is that over again
  if (const OwnerSlot* own = extra->find(owner)) {
    for (const Ref& entry : own->entries) codes.insert(as_entry(entry)->code);  // they did not hold
  }
  for (const OwnerSlot& slot : extra->slots) {
    if (slot.owner == owner || slot.owner->family != owner->family) continue;
    for (const Ref& entry : slot.entries) {
      if (codes.insert(as_entry(entry)->code).second) candidates.push_back(entry);
    }
  }
  for (const Ref& each : candidates) {
    const Entry* entry = as_entry(each);
    Ref captured;
    if (!check(guard_tree(entry->tree), slots, captured)) continue;
    const Ref tree = copied_tree(entry->tree);
    return tree && add_entry(slots.code, owner, tree.get(), entry->code, entry->self_contained);
  }
  return false;
}

Owner* off_owner() noexcept { return registered().off; }
bool is_owner(PyObject* object) noexcept { return Py_TYPE(object) == registered().owner; }
PyObject* verdict_object(Verdict verdict) noexcept { return registered().verdicts[static_cast<int>(verdict)]; }

Verdict verdict_of(PyObject* object) noexcept {
  for (int at = 1; at < kVerdicts; ++at) {
    if (registered().verdicts[at] == object) return static_cast<Verdict>(at);
  }
  return Verdict::None;
}

bool register_cache(PyObject* module) {
  Registered& all = registered();
  if (all.index < 0) all.index = request_extra(free_extra);
  if (all.index < 0) {
    PyErr_SetString(PyExc_ImportError, "dynamo_lite: CPython has no index left for data on code objects");
    return false;
  }
  all.owner = add_type(module, &owner_spec);
  all.entry = add_type(module, &entry_spec);
  all.verdict = add_type(module, &verdict_spec);
  if (all.owner == nullptr || all.entry == nullptr || all.verdict == nullptr) return false;
  if (!add_verdicts(module)) return false;
  Ref off = Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(all.owner), "Os", Py_None, "off"));
  if (!off || PyModule_AddObjectRef(module, "OFF", off.get()) < 0) return false;
  all.off = reinterpret_cast<Owner*>(off.release());
  return PyModule_AddFunctions(module, functions) == 0 && PyModule_AddIntConstant(module, "MARK_NONE", 0) == 0 &&
         PyModule_AddIntConstant(module, "MARK_SKIP", 1) == 0 &&
         PyModule_AddIntConstant(module, "MARK_SKIP_RECURSIVE", 2) == 0;
}

}  // namespace dynamo_lite
