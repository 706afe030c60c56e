#include "guards/accessors.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "cpython/iterators.h"
#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "guards/constants.h"
#include "guards/tensors.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

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

// Attributes of tensors: `grad`, which is read without its getter; those whose getters call no Python; others.
enum TensorField : Py_ssize_t { kGrad, kInC, kOther };

TensorField tensor_field_named(PyObject* name) noexcept {
  const auto is = [name](const char* each) { return PyUnicode_CompareWithASCIIString(name, each) == 0; };
  return is("grad") ? kGrad : is("is_leaf") || is("_backward_hooks") ? kInC : kOther;
}

// The result of a getter. An AttributeError means that there is no value; after any other error that is unknown.
// Steals.
Reached own(PyObject* object, Ref& owned) noexcept {
  owned = Ref::steal(object);
  if (object) return {object};
  const bool readable = !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_AttributeError);
  PyErr_Clear();
  return {nullptr, readable};
}

// Whether a property's getter is written in C, as pybind11's are.
bool is_property_in_c(PyObject* property) noexcept {
  const Ref getter = Ref::steal(PyObject_GetAttrString(property, "fget"));
  if (!getter) PyErr_Clear();
  return getter && PyInstanceMethod_Check(getter.get()) &&
         PyCFunction_Check(PyInstanceMethod_GET_FUNCTION(getter.get()));
}

// Calls a C getter that is found along the type's MRO. (Data descriptors precede an instance's own attributes.)
Reached run_getter(PyObject* object, PyObject* name, Ref& owned) noexcept {
  PyObject* descriptor = type_find(reinterpret_cast<PyObject*>(Py_TYPE(object)), name);
  if (!descriptor) return Reached::nothing();
  PyTypeObject* kind = Py_TYPE(descriptor);
  const bool in_c = kind == &PyGetSetDescr_Type || kind == &PyMemberDescr_Type;
  if (!in_c && !(kind == &PyProperty_Type && is_property_in_c(descriptor))) return Reached::unreadable();
  if (Py_REFCNT(object) == 0) return Reached::unreadable();  // it is being deallocated: a getter may do so again
  NoCollection no_collection;
  return own(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object))), owned);
}

Reached tensor_attr(PyObject* object, Py_ssize_t field, PyObject* name, Ref& owned) noexcept {
  NoCollection no_collection;
  NoTorchFunction no_torch_function;
  if (field == kGrad) return own(tensor_grad(object), owned);
  // Other getters may call a subclass's __torch_dispatch__, which is Python.
  return field != kInC && has_python_dispatch(object) ? Reached::unreadable() : run_getter(object, name, owned);
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

// Calls a C function without arguments that runs no Python: a query of a device's state.
Reached result_of(PyObject* function, Ref& owned) noexcept {
  if (!PyCFunction_Check(function)) return Reached::unreadable();
  NoCollection no_collection;
  return own(PyObject_CallNoArgs(function), owned);
}

// What type.__subclasses__ returns, even if the class's metaclass overrides it.
Reached subclasses_of(PyObject* type, Ref& owned) noexcept {
  if (!PyType_Check(type)) return Reached::unreadable();
  NoCollection no_collection;
  static PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__");
  return own(method ? PyObject_CallOneArg(method, type) : nullptr, owned);
}

// The value of a context variable in the current context. There is none if it was never set there, even if it has a
// default.
Reached context_value(PyObject* variable, Ref& owned) noexcept {
  PyObject* value = nullptr;
  if (!PyContextVar_CheckExact(variable) || PyContextVar_Get(variable, variable, &value) < 0) {
    PyErr_Clear();
    return Reached::unreadable();
  }
  owned = Ref::steal(value);
  return {value == variable ? nullptr : value};
}

Reached referent(PyObject* reference) noexcept {
  if (!PyWeakref_Check(reference)) return Reached::unreadable();
  PyObject* target = weak_referent(reference);
  return {target == Py_None ? nullptr : target};
}

// -- arguments

void set_position(AccessorParts& parts, PyObject* arg, const FrameLayout&, const Liveness&) {
  parts.index = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
  if (parts.index < 0) raise(PyExc_ValueError, "a position is wanted, not %R", arg);
}

void set_local(AccessorParts& parts, PyObject* arg, const FrameLayout& layout, const Liveness&) {
  PyObject* names = layout.names.get();
  for (parts.index = 0; parts.index < PyTuple_GET_SIZE(names); ++parts.index) {
    if (same_constant(PyTuple_GET_ITEM(names, parts.index), arg)) return;
  }
  raise(PyExc_ValueError, "the code has no local variable %R", arg);
}

void set_free_variable(AccessorParts& parts, PyObject* arg, const FrameLayout& layout, const Liveness& liveness) {
  set_position(parts, arg, layout, liveness);
  if (parts.index < layout.free_count) return;
  raise(PyExc_ValueError, "the code has %zd free variables, there is no number %zd", layout.free_count, parts.index);
}

void set_object(AccessorParts& parts, PyObject* arg, const FrameLayout&, const Liveness& liveness) {
  parts.object.hold(arg, liveness);
}

void set_slot(AccessorParts& parts, PyObject* arg, const FrameLayout&, const Liveness& liveness) {
  if (!Py_IS_TYPE(arg, &PyMemberDescr_Type)) raise(PyExc_ValueError, "slot needs a member descriptor, not %R", arg);
  parts.object.hold(arg, liveness);
}

void set_name(AccessorParts& parts, PyObject* arg, const FrameLayout&, const Liveness& liveness) {
  if (!PyUnicode_CheckExact(arg)) raise(PyExc_ValueError, "a name is wanted, not %R", arg);
  PyObject* name = Py_NewRef(arg);
  PyUnicode_InternInPlace(&name);  // the type's cache of lookups is by identity
  const Ref interned = Ref::steal(name);
  parts.field = field_named(name);
  parts.index = tensor_field_named(name);
  parts.key.set(name, liveness);
}

void set_key(AccessorParts& parts, PyObject* arg, const FrameLayout&, const Liveness& liveness) {
  parts.key.set(arg, liveness);
}

// -- the accessors of the rows

#define DL_REACH(name)                                                                              \
  DL_HIT Reached name([[maybe_unused]] const AccessorParts& parts, [[maybe_unused]] PyObject* from, \
                      [[maybe_unused]] const FrameSlots& frame, [[maybe_unused]] Ref& owned) noexcept
#define DL_WORD(name) \
  PyObject* const* name([[maybe_unused]] const AccessorParts& parts, [[maybe_unused]] PyObject* from) noexcept

DL_REACH(reach_local) { return {frame.value(parts.index)}; }
DL_REACH(reach_closure) {
  PyObject* cells = frame.func ? function_closure(frame.func) : nullptr;
  return {cells && parts.index < PyTuple_GET_SIZE(cells) ? PyTuple_GET_ITEM(cells, parts.index) : nullptr};
}
// CPython looks names up in a subclass of dict by the subclass's own __getitem__.
Reached namespace_of(PyObject* names) noexcept {
  return !names || PyDict_CheckExact(names) ? Reached{names} : Reached::unreadable();
}

DL_REACH(reach_globals) { return namespace_of(frame.globals); }
DL_REACH(reach_builtins) { return namespace_of(frame.builtins); }
DL_REACH(reach_function) { return {frame.func}; }
DL_REACH(reach_const) { return {parts.object.get()}; }
DL_REACH(reach_type) { return {reinterpret_cast<PyObject*>(Py_TYPE(from))}; }
DL_REACH(reach_instance_dict) { return {instance_dict(from)}; }
DL_REACH(reach_type_attr) {
  return PyType_Check(from) ? Reached{type_find(from, parts.key.object.get())} : Reached::unreadable();
}
DL_REACH(reach_slot) { return slot_value(from, parts.object.get(), owned); }
DL_REACH(reach_c_attr) { return c_attr(from, parts.field, parts.index, parts.key.object.get(), owned); }
DL_REACH(reach_dict_item) {
  if (!PyDict_Check(from)) return Reached::unreadable();
  const DictLookup found = dict_find(from, parts.key.object.get(), parts.key.hash, parts.key.quiet);
  return {found.value, found.presence != Presence::Unclear};
}
DL_REACH(reach_dict_key) { return dict_entry(from, parts.index, false); }
DL_REACH(reach_dict_value) { return dict_entry(from, parts.index, true); }
DL_REACH(reach_list_item) {
  if (!PyList_Check(from)) return Reached::unreadable();
  return {parts.index < PyList_GET_SIZE(from) ? PyList_GET_ITEM(from, parts.index) : nullptr};
}
DL_REACH(reach_tuple_item) {
  if (!PyTuple_Check(from)) return Reached::unreadable();
  return {parts.index < PyTuple_GET_SIZE(from) ? PyTuple_GET_ITEM(from, parts.index) : nullptr};
}
DL_REACH(reach_deque_item) { return own(deque_item(from, parts.index), owned); }
DL_REACH(reach_next_item) { return next_item(from, parts.index, owned); }
DL_REACH(reach_next_value) { return next_value(from, parts.index); }
DL_REACH(reach_taken_from) { return taken_from(from); }
DL_REACH(reach_next_number) { return next_number(from, owned); }
DL_REACH(reach_cell_contents) { return PyCell_Check(from) ? Reached{PyCell_GET(from)} : Reached::unreadable(); }
DL_REACH(reach_referent) { return referent(from); }
DL_REACH(reach_result) { return result_of(from, owned); }
DL_REACH(reach_subclasses) { return subclasses_of(from, owned); }
DL_REACH(reach_thread_dict) { return {thread_dict(from)}; }
DL_REACH(reach_context_value) { return context_value(from, owned); }

DL_WORD(instance_dict_word) { return instance_dict_slot(from); }
DL_WORD(word_of_slot) { return slot_word(from, parts.object.get()); }
DL_WORD(word_of_c_attr) { return field_word(from, parts.field, parts.key.object.get()); }
DL_WORD(word_of_item) {
  return PyTuple_Check(from) && parts.index < PyTuple_GET_SIZE(from) ? tuple_items(from) + parts.index : nullptr;
}
DL_WORD(word_of_cell) { return PyCell_Check(from) ? cell_word(from) : nullptr; }

#undef DL_REACH
#undef DL_WORD

Lasts forever(PyObject*) noexcept { return Lasts::Forever; }
Lasts with_dict(PyObject*) noexcept { return Lasts::Version; }
Lasts with_order(PyObject* dict) noexcept { return keeps_order(dict) ? Lasts::Version : Lasts::Now; }
Lasts with_type(PyObject* type) noexcept { return type_version(type) ? Lasts::Version : Lasts::Now; }

// clang-format off
constexpr AccessorKind kAccessorKinds[] = {
    {.name = "local", .from = From::Frame, .set = set_local, .reach = reach_local, .text = "{arg}"},
    {.name = "closure", .from = From::Frame, .set = set_free_variable, .reach = reach_closure, .text = "closure[{arg}]"},
    {.name = "globals", .from = From::Frame, .reach = reach_globals, .text = "globals()"},
    {.name = "builtins", .from = From::Frame, .reach = reach_builtins, .text = "builtins"},
    {.name = "function", .from = From::Frame, .reach = reach_function, .text = "<function>"},
    {.name = "const", .from = From::Nothing, .set = set_object, .reach = reach_const, .lasts = forever, .text = "{const}"},
    {.name = "type", .reach = reach_type, .text = "type({parent})"},
    {.name = "instance_dict", .reach = reach_instance_dict, .word = instance_dict_word, .text = "{parent}.__dict__",
     .is_instance_dict = true},
    {.name = "type_attr", .set = set_name, .reach = reach_type_attr, .lasts = with_type, .text = "{parent}.{arg}"},
    {.name = "slot", .set = set_slot, .reach = reach_slot, .word = word_of_slot, .text = "{parent}.{arg.__name__}"},
    {.name = "c_attr", .set = set_name, .reach = reach_c_attr, .word = word_of_c_attr, .text = "{parent}.{arg}"},
    {.name = "dict_item", .set = set_key, .reach = reach_dict_item, .lasts = with_dict, .text = "{item}"},
    {.name = "dict_key", .set = set_position, .reach = reach_dict_key, .lasts = with_order,
     .text = "list({parent})[{arg}]"},
    {.name = "dict_value", .set = set_position, .reach = reach_dict_value, .lasts = with_order,
     .text = "list({parent}.values())[{arg}]"},
    {.name = "list_item", .set = set_position, .reach = reach_list_item, .text = "{parent}[{arg}]"},
    {.name = "tuple_item", .set = set_position, .reach = reach_tuple_item, .word = word_of_item, .lasts = forever,
     .text = "{parent}[{arg}]"},
    {.name = "deque_item", .set = set_position, .reach = reach_deque_item, .text = "{parent}[{arg}]"},
    {.name = "next_item", .set = set_position, .reach = reach_next_item, .text = "item {arg} ahead in {parent}"},
    {.name = "next_value", .set = set_position, .reach = reach_next_value, .text = "value {arg} ahead in {parent}"},
    {.name = "taken_from", .reach = reach_taken_from, .text = "the iterable of {parent}"},
    {.name = "next_number", .reach = reach_next_number, .text = "<number ahead in {parent}>"},
    {.name = "cell_contents", .reach = reach_cell_contents, .word = word_of_cell, .text = "{parent}"},
    {.name = "weakref_target", .reach = reach_referent, .text = "{parent}()"},
    {.name = "result", .reach = reach_result, .text = "{parent}()"},
    {.name = "subclasses", .reach = reach_subclasses, .text = "{parent}.__subclasses__()"},
    {.name = "thread_dict", .reach = reach_thread_dict, .text = "{parent}.__dict__"},
    {.name = "context_value", .reach = reach_context_value, .text = "{parent}.get()"},
};
// clang-format on

}  // namespace

void Key::set(PyObject* key, const Liveness& liveness) {
  hash = PyObject_Hash(key);
  if (hash == -1 && PyErr_Occurred()) throw py::error_already_set();
  quiet = compares_quietly(key);
  object.hold(key, liveness);
}

FrameLayout::FrameLayout(PyCodeObject* code)
    : names(Ref::borrow(slot_names(code))), free_count(free_variable_count(code)) {}

Accessor::Accessor(const char* kind, PyObject* arg, const FrameLayout& layout, const Liveness& liveness) {
  const auto has_name = [kind](const AccessorKind& each) { return std::strcmp(each.name, kind) == 0; };
  kind_ = std::find_if(std::begin(kAccessorKinds), std::end(kAccessorKinds), has_name);
  if (kind_ == std::end(kAccessorKinds)) raise(PyExc_ValueError, "there is no accessor of kind '%.100s'", kind);
  if (kind_->set) kind_->set(parts_, arg, layout, liveness);
}

int Accessor::traverse(visitproc visit, void* arg) const {
  Py_VISIT(parts_.key.object.keeper());
  Py_VISIT(parts_.object.keeper());
  return 0;
}

void register_accessors(py::module_& module) {
  py::dict texts;
  for (const AccessorKind& kind : kAccessorKinds) texts[kind.name] = kind.text;
  module.attr("ACCESSOR_KINDS") = texts;
  module.def("weak_referent", [](py::handle reference) {
    PyObject* target = referent(reference.ptr()).value;
    return Ref::borrow(target ? target : Py_None);
  });
  module.def("accepts_writes", [](py::handle tensor) { return accepts_writes(tensor.ptr()); });
  module.def("computes_sizes", [](py::handle tensor) {
    if (!is_tensor(tensor.ptr())) raise(PyExc_TypeError, "a tensor, not %R", tensor.ptr());
    return computes_sizes(tensor.ptr());
  });
}

}  // namespace dynamo_lite
