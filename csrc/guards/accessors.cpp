#include "guards/accessors.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include <array>
#include <cstring>

#include "prefetch.h"
#include "guards/constants.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "guards/tensors.h"
#include "cpython/lookup.h"

namespace dynamo_lite {

namespace {

constexpr std::array<const char*, 26> kKindNames{
    "frame",     "local",         "closure",   "globals",   "builtins", "function", "const",
    "type",      "instance_dict", "type_attr", "slot",      "c_attr",   "dict_item", "dict_key",
    "dict_value", "list_item",    "tuple_item", "deque_item", "next_item", "next_value",
    "cell_contents", "weakref_target", "taken_from", "next_number", "thread_dict",
    "subclasses",
};

// Keeps __torch_function__, of modes and subclasses, out of a tensor's C getters.
class NoTorchFunction {
 public:
  NoTorchFunction() : state_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::ALL_DISABLED);
  }
  ~NoTorchFunction() { at::impl::PythonTorchFunctionTLS::set_disabled_state(state_); }
  NoTorchFunction(const NoTorchFunction&) = delete;
  NoTorchFunction& operator=(const NoTorchFunction&) = delete;

 private:
  at::impl::TorchFunctionDisabledState state_;
};

// Attributes of tensors that are read in a way of their own.
enum TensorField : Py_ssize_t { kGrad, kIsLeaf, kHooks, kOther };

TensorField tensor_field_named(PyObject* name) noexcept {
  constexpr std::array kNames{"grad", "is_leaf", "_backward_hooks"};
  Py_ssize_t at = 0;
  while (at < kOther && PyUnicode_CompareWithASCIIString(name, kNames[at]) != 0) ++at;
  return static_cast<TensorField>(at);
}

Reached own(PyObject* object, Ref& owned) noexcept {  // steals
  PyErr_Clear();
  owned = Ref::steal(object);
  return {object};
}

// A C getter found along the type's MRO, called. Data descriptors come before an instance's own attributes.
Reached run_getter(PyObject* object, PyObject* name, Ref& owned) noexcept {
  PyObject* descriptor = type_find(reinterpret_cast<PyObject*>(Py_TYPE(object)), name);
  if (!descriptor) return Reached::nothing();
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind != &PyGetSetDescr_Type && kind != &PyMemberDescr_Type) return Reached::unreadable();
  NoCollection no_collection;
  return own(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object))), owned);
}

Reached tensor_attr(PyObject* object, Py_ssize_t field, PyObject* name, Ref& owned) noexcept {
  NoCollection no_collection;
  NoTorchFunction no_torch_function;
  if (field == kGrad) return own(tensor_grad(object), owned);
  const bool in_c = field == kIsLeaf || field == kHooks;
  // Other getters may call a subclass's __torch_dispatch__, which is Python.
  return !in_c && has_python_dispatch(object) ? Reached::unreadable() : run_getter(object, name, owned);
}

Reached c_attr(PyObject* object, Field field, Py_ssize_t tensor_field, PyObject* name, Ref& owned) noexcept {
  if (PyObject* const* word = field_word(object, field, name)) return {*word ? *word : Py_None};
  return is_tensor(object) ? tensor_attr(object, tensor_field, name, owned) : run_getter(object, name, owned);
}

Reached slot_value(PyObject* object, PyObject* descriptor, Ref& owned) noexcept {
  if (PyObject* const* word = slot_word(object, descriptor)) return {*word};
  NoCollection no_collection;
  bool applies = false;
  PyObject* value = read_slot(object, descriptor, applies);
  return applies ? own(value, owned) : Reached::unreadable();
}

Reached dict_entry(PyObject* dict, Py_ssize_t position, bool value) noexcept {
  if (!PyDict_Check(dict)) return Reached::unreadable();
  DictOrder order(dict);
  PyObject* key = order.next();
  for (Py_ssize_t i = 0; key && i < position; ++i) key = order.next();
  return {key && value ? dict_value_of(dict, key) : key};
}

Reached dict_item(PyObject* dict, const Key& key) noexcept {
  if (!PyDict_Check(dict)) return Reached::unreadable();
  const DictLookup found = dict_find(dict, key.object.get(), key.hash, key.quiet);
  return {found.value, found.presence != Presence::Unclear};
}

Reached closure_cell(const FrameSlots& frame, Py_ssize_t index) noexcept {
  PyObject* cells = function_closure(frame.func);
  return {cells && index < PyTuple_GET_SIZE(cells) ? PyTuple_GET_ITEM(cells, index) : nullptr};
}

Reached referent(PyObject* reference) noexcept {
  if (!PyWeakref_Check(reference)) return Reached::unreadable();
  PyObject* target = PyWeakref_GET_OBJECT(reference);
  return {target == Py_None ? nullptr : target};
}

// A new list, of those that are alive. The metaclass is not asked.
Reached subclasses(PyObject* cls, Ref& owned) noexcept {
  static PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__");
  if (!PyType_Check(cls) || !method) return Reached::unreadable();
  NoCollection no_collection;
  return own(PyObject_CallOneArg(method, cls), owned);
}

Reached peeked(Peeked found) noexcept { return {found.value, found.readable}; }

Reached list_item(PyObject* list, Py_ssize_t index) noexcept {
  if (!PyList_Check(list)) return Reached::unreadable();
  return {index < PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, index) : nullptr};
}

Reached tuple_item(PyObject* tuple, Py_ssize_t index) noexcept {
  if (!PyTuple_Check(tuple)) return Reached::unreadable();
  return {index < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, index) : nullptr};
}

PyObject* weak_referent(PyObject*, PyObject* reference) {
  PyObject* target = referent(reference).value;
  return Py_NewRef(target ? target : Py_None);
}

PyObject* tensor_computes_sizes(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return PyErr_Format(PyExc_TypeError, "a tensor, not %R", tensor);
  return PyBool_FromLong(computes_sizes(tensor));
}

PyMethodDef functions[] = {
    {"weak_referent", weak_referent, METH_O, "What a weak reference or proxy refers to; None: it has died."},
    {"computes_sizes", tensor_computes_sizes, METH_O, "Whether a tensor's sizes or strides are what Python says."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_accessors(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

bool Key::set(PyObject* key, const Liveness& liveness) {
  hash = PyObject_Hash(key);
  if (hash == -1 && PyErr_Occurred()) return false;
  quiet = compares_quietly(key);
  return object.hold(key, liveness);
}

FrameLayout::FrameLayout(PyCodeObject* code)
    : names(Ref::borrow(slot_names(code))), free_count(free_variable_count(code)) {}

bool Accessor::set(const char* kind, PyObject* arg, const FrameLayout& layout, const Liveness& liveness) {
  std::size_t which = 1;
  while (which < kKindNames.size() && std::strcmp(kKindNames[which], kind) != 0) ++which;
  if (which == kKindNames.size()) {
    PyErr_Format(PyExc_ValueError, "there is no accessor of kind '%.100s'", kind);
    return false;
  }
  kind_ = static_cast<AccessorKind>(which);
  switch (kind_) {
    case AccessorKind::Local:
    case AccessorKind::Closure:
      return set_frame_part(arg, layout);
    case AccessorKind::Const:
      return object_.hold(arg, liveness);
    case AccessorKind::Slot:
      return set_slot(arg, liveness);
    case AccessorKind::TypeAttr:
    case AccessorKind::CAttr:
      return set_name(arg, liveness);
    case AccessorKind::DictItem:
      return key_.set(arg, liveness);
    case AccessorKind::DictKey:
    case AccessorKind::DictValue:
    case AccessorKind::ListItem:
    case AccessorKind::TupleItem:
    case AccessorKind::DequeItem:
    case AccessorKind::NextItem:
    case AccessorKind::NextValue:
      return set_index(arg);
    default:
      return true;
  }
}

bool Accessor::set_frame_part(PyObject* arg, const FrameLayout& layout) {
  if (kind_ == AccessorKind::Closure) {
    if (!set_index(arg)) return false;
    if (index_ < layout.free_count) return true;
    PyErr_Format(PyExc_ValueError, "the code has %zd free variables, there is no number %zd", layout.free_count,
                 index_);
    return false;
  }
  PyObject* names = layout.names.get();
  for (index_ = 0; index_ < PyTuple_GET_SIZE(names); ++index_) {
    if (same_constant(PyTuple_GET_ITEM(names, index_), arg)) return true;
  }
  PyErr_Format(PyExc_ValueError, "the code has no local variable %R", arg);
  return false;
}

bool Accessor::set_index(PyObject* arg) {
  index_ = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
  if (index_ >= 0) return true;
  PyErr_Clear();
  PyErr_Format(PyExc_ValueError, "%s needs a position, not %R", kKindNames[static_cast<std::size_t>(kind_)], arg);
  return false;
}

bool Accessor::set_slot(PyObject* arg, const Liveness& liveness) {
  if (Py_IS_TYPE(arg, &PyMemberDescr_Type)) return object_.hold(arg, liveness);
  PyErr_Format(PyExc_ValueError, "slot needs a member descriptor, not %R", arg);
  return false;
}

bool Accessor::set_name(PyObject* arg, const Liveness& liveness) {
  if (PyUnicode_CheckExact(arg)) {
    PyObject* name = Py_NewRef(arg);
    PyUnicode_InternInPlace(&name);  // the type's cache of lookups is by identity
    const Ref interned = Ref::steal(name);
    field_ = field_named(name);
    index_ = tensor_field_named(name);
    return key_.set(name, liveness);
  }
  PyErr_Format(PyExc_ValueError, "%s needs a name, not %R", kKindNames[static_cast<std::size_t>(kind_)], arg);
  return false;
}

DL_HIT Reached Accessor::reach(PyObject* from, const FrameSlots& frame, Ref& owned) const noexcept {
  switch (kind_) {
    case AccessorKind::Frame:
      return Reached::nothing();
    case AccessorKind::Local:
      return {frame.values[index_]};
    case AccessorKind::Closure:
      return closure_cell(frame, index_);
    case AccessorKind::Globals:
      return {frame.globals};
    case AccessorKind::Builtins:
      return {frame.builtins};
    case AccessorKind::Function:
      return {frame.func};
    case AccessorKind::Const:
      return {object_.get()};
    case AccessorKind::Type:
      return {reinterpret_cast<PyObject*>(Py_TYPE(from))};
    case AccessorKind::InstanceDict:
      return {instance_dict(from)};
    case AccessorKind::TypeAttr:
      return PyType_Check(from) ? Reached{type_find(from, key_.object.get())} : Reached::unreadable();
    case AccessorKind::Slot:
      return slot_value(from, object_.get(), owned);
    case AccessorKind::CAttr:
      return c_attr(from, field_, index_, key_.object.get(), owned);
    case AccessorKind::DictItem:
      return dict_item(from, key_);
    case AccessorKind::DictKey:
      return dict_entry(from, index_, false);
    case AccessorKind::DictValue:
      return dict_entry(from, index_, true);
    case AccessorKind::ListItem:
      return list_item(from, index_);
    case AccessorKind::TupleItem:
      return tuple_item(from, index_);
    case AccessorKind::DequeItem:
      return own(deque_item(from, index_), owned);
    case AccessorKind::NextItem:
      return peeked(next_item(from, index_, owned));
    case AccessorKind::NextValue:
      return peeked(next_value(from, index_));
    case AccessorKind::TakenFrom:
      return peeked(taken_from(from));
    case AccessorKind::NextNumber:
      return peeked(next_number(from, owned));
    case AccessorKind::ThreadDict:
      return {thread_dict(from)};
    case AccessorKind::Subclasses:
      return subclasses(from, owned);
    case AccessorKind::CellContents:
      return PyCell_Check(from) ? Reached{PyCell_GET(from)} : Reached::unreadable();
    case AccessorKind::WeakrefTarget:
      return referent(from);
  }
  return Reached::unreadable();
}

PyObject* const* Accessor::word(PyObject* from) const noexcept {
  switch (kind_) {
    case AccessorKind::InstanceDict:
      return instance_dict_slot(from);
    case AccessorKind::Slot:
      return slot_word(from, object_.get());
    case AccessorKind::CAttr:
      return field_word(from, field_, key_.object.get());
    case AccessorKind::TupleItem:
      return PyTuple_Check(from) && index_ < PyTuple_GET_SIZE(from) ? tuple_items(from) + index_ : nullptr;
    case AccessorKind::CellContents:
      return PyCell_Check(from) ? cell_word(from) : nullptr;
    default:
      return nullptr;
  }
}

std::string Accessor::in_words() const {
  std::string text = kKindNames[static_cast<std::size_t>(kind_)];
  const Held& named = key_.object.get() ? key_.object : object_;
  if (named.get()) {
    text += ' ';
    text += dynamo_lite::in_words(named.share().get());
  } else if (kind_ == AccessorKind::Closure || (kind_ >= AccessorKind::DictKey && kind_ <= AccessorKind::NextValue)) {
    text += ' ';
    text += std::to_string(index_);
  }
  return text;
}

int Accessor::traverse(visitproc visit, void* arg) const {
  if (const int stop = key_.object.traverse(visit, arg)) return stop;
  return object_.traverse(visit, arg);
}

}  // namespace dynamo_lite
