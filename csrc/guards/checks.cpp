#include "guards/checks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "cpython/objects.h"
#include "guards/constants.h"
#include "guards/global_state.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

template <typename Part>
std::unique_ptr<Part> copied(const std::unique_ptr<Part>& part) {
  return part ? std::make_unique<Part>(*part) : nullptr;
}

// -- arguments

bool hold(CheckParts& parts, PyObject* arg, const Liveness& liveness) {
  parts.held.hold(arg, liveness);
  parts.object = arg;
  return true;
}

template <auto is_wanted>
bool set_object(CheckParts& parts, PyObject* arg, std::size_t, const Liveness& liveness) {
  return is_wanted(arg) && hold(parts, arg, liveness);
}

bool set_number(CheckParts& parts, PyObject* arg, std::size_t, const Liveness& liveness) {
  parts.number = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
  PyErr_Clear();
  return parts.number >= 0 && hold(parts, arg, liveness);
}

bool set_key(CheckParts& parts, PyObject* arg, std::size_t, const Liveness& liveness) {
  parts.details = std::make_unique<CheckDetails>();
  parts.details->key.set(arg, liveness);
  return true;
}

bool set_name(CheckParts& parts, PyObject* arg, std::size_t count, const Liveness& liveness) {
  return PyUnicode_CheckExact(arg) && set_key(parts, arg, count, liveness);
}

bool set_keys(CheckParts& parts, PyObject* arg, std::size_t, const Liveness& liveness) {
  if (!PyTuple_Check(arg)) return false;
  parts.details = std::make_unique<CheckDetails>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg); ++i) {
    parts.details->keys.emplace_back().object.hold(PyTuple_GET_ITEM(arg, i), liveness);
  }
  return true;
}

bool set_hashes(CheckParts& parts, PyObject* arg, std::size_t, const Liveness&) {
  if (!PyTuple_Check(arg)) return false;
  parts.details = std::make_unique<CheckDetails>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg); ++i) {
    parts.details->keys.emplace_back().hash = PyLong_AsSsize_t(PyTuple_GET_ITEM(arg, i));
  }
  return !PyErr_Occurred();
}

bool set_items(CheckParts& parts, PyObject* arg, std::size_t, const Liveness& liveness) {
  if (!PyAnySet_Check(arg)) return false;
  parts.details = std::make_unique<CheckDetails>();
  for (SetItems items(arg); items.next();) {
    Key& key = parts.details->keys.emplace_back();
    key.hash = items.hash;
    key.object.hold(items.item, liveness);
  }
  return true;
}

template <std::unique_ptr<TensorFacts> (*facts_of)(PyObject*)>
bool set_tensor(CheckParts& parts, PyObject* arg, std::size_t, const Liveness&) {
  parts.tensor = facts_of(arg);
  return parts.tensor != nullptr;
}

// Appends numbers of nodes.
void add_nodes(CheckParts& parts, PyObject* sequence, std::size_t node_count) {
  if (!parts.details) parts.details = std::make_unique<CheckDetails>();
  for (const py::handle each : py::tuple(py::reinterpret_borrow<py::object>(sequence))) {
    const Py_ssize_t number = PyLong_AsSsize_t(each.ptr());
    if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
    if (number < 0 || number >= static_cast<Py_ssize_t>(node_count)) {
      raise(PyExc_ValueError, "the tree has %zd nodes, there is no number %zd", node_count, number);
    }
    parts.details->nodes.push_back(static_cast<std::uint32_t>(number));
  }
}

bool set_node(CheckParts& parts, PyObject* arg, std::size_t node_count, const Liveness& liveness) {
  add_nodes(parts, py::make_tuple(py::handle(arg)).ptr(), node_count);
  return hold(parts, arg, liveness);
}

bool set_nodes(CheckParts& parts, PyObject* arg, std::size_t node_count, const Liveness& liveness) {
  add_nodes(parts, arg, node_count);
  return hold(parts, arg, liveness);
}

// The argument is a pair of lists: the nodes whose tensors the graph mutates, and other nodes.
bool set_storages(CheckParts& parts, PyObject* arg, std::size_t node_count, const Liveness& liveness) {
  const bool is_pair = PyTuple_Check(arg) && PyTuple_GET_SIZE(arg) == 2;
  add_nodes(parts, is_pair ? PyTuple_GET_ITEM(arg, 0) : arg, node_count);
  parts.details->written = parts.details->nodes.size();
  if (is_pair) add_nodes(parts, PyTuple_GET_ITEM(arg, 1), node_count);
  return hold(parts, arg, liveness);
}

// A pair: nodes, and the instructions of a program, which the tree adds to its facts.
bool set_program(CheckParts& parts, PyObject* arg, std::size_t node_count, const Liveness& liveness) {
  if (!PyTuple_Check(arg) || PyTuple_GET_SIZE(arg) != 2) return false;
  add_nodes(parts, PyTuple_GET_ITEM(arg, 0), node_count);
  return hold(parts, arg, liveness);
}

bool is_token_and_function(PyObject* arg) noexcept {
  return PyList_Check(arg) && PyList_GET_SIZE(arg) == 2 && PyCFunction_Check(PyList_GET_ITEM(arg, 1));
}

constexpr CheckArgument kType{"a type", set_object<[](PyObject* arg) { return PyType_Check(arg) != 0; }>};
constexpr CheckArgument kObject{"an object", set_object<[](PyObject*) { return true; }>};
constexpr CheckArgument kConstant{"a constant (use id for other objects)", set_object<is_constant>};
constexpr CheckArgument kState{"a GlobalState", set_object<is_global_state>};
constexpr CheckArgument kRegistrations{"a list of a cache token and abc.get_cache_token",
                                       set_object<is_token_and_function>};
constexpr CheckArgument kNumber{"a number that is not negative", set_number};
constexpr CheckArgument kKey{"a key", set_key};
constexpr CheckArgument kName{"a name", set_name};
constexpr CheckArgument kKeys{"a tuple of keys", set_keys};
constexpr CheckArgument kHashes{"a tuple of hashes", set_hashes};
constexpr CheckArgument kItems{"a frozenset", set_items};
constexpr CheckArgument kTensor{"a tensor", set_tensor<TensorFacts::of>};
constexpr CheckArgument kTensorAndDims{"a tuple of a tensor and the dims that are free",
                                       set_tensor<TensorFacts::with_free_dims>};
constexpr CheckArgument kTensorWithoutSizes{"a tensor", set_tensor<TensorFacts::without_sizes>};
constexpr CheckArgument kNode{"a node", set_node};
constexpr CheckArgument kNodes{"nodes", set_nodes};
constexpr CheckArgument kStorages{"nodes, or a pair of them", set_storages};
constexpr CheckArgument kProgram{"a tuple of nodes and instructions", set_program};

// -- the checks of the rows

#define DL_CHECK(name)                                                                         \
  DL_HIT bool name([[maybe_unused]] const CheckParts& parts, [[maybe_unused]] PyObject* value, \
                   [[maybe_unused]] Found* found)

// False, with the reason in words if `found` is given.
bool fails(Found* found, const char* words) {
  if (found) found->words = words;
  return false;
}

// Whether a number is the expected one. If not, and `found` is given, both are reported.
bool is_number(Py_ssize_t expected, Py_ssize_t number, const char* what, Found* found) {
  if (number == expected) return true;
  if (found) found->differences.push_back({what, int_of(number), int_of(expected)});
  return false;
}

// Whether a key of a dict or an item of a set is the expected one: constants by exact value, others by identity.
bool is_key(const Key& wanted, PyObject* found) noexcept { return same_constant(wanted.object.get(), found); }

bool derives(const CheckParts& parts, PyObject* cls) noexcept {
  return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), reinterpret_cast<PyTypeObject*>(parts.object));
}

bool presence_is(Presence wanted, DictLookup item, Found* found) {
  if (item.presence == wanted) return true;
  return item.presence == Presence::Unclear && fails(found, "a key has the same hash, and its __eq__ is not run");
}

DL_CHECK(never) { return false; }
DL_CHECK(always) { return true; }
DL_CHECK(has_type) { return false; }  // `Check::holds` has compared it
DL_CHECK(is_object) { return value == parts.object; }
DL_CHECK(equals) { return same_constant(parts.object, value); }
DL_CHECK(has_bits) { return same_memory(parts.object, value); }
DL_CHECK(has_payload) { return same_payload(parts.object, value); }
DL_CHECK(class_derives) { return PyType_Check(value) && derives(parts, value); }
DL_CHECK(class_derives_not) { return PyType_Check(value) && !derives(parts, value); }
DL_CHECK(type_lacks) { return PyType_Check(value) && !type_find(value, parts.details->key.object.get()); }

DL_CHECK(has_length) {
  const Py_ssize_t length = own_length(value);
  return length < 0 ? fails(found, "it has no length of its own") : is_number(parts.number, length, "length", found);
}

DL_CHECK(has_keys) {
  const std::vector<Key>& keys = parts.details->keys;
  if (!PyDict_Check(value) || PyDict_GET_SIZE(value) != static_cast<Py_ssize_t>(keys.size())) return false;
  DictOrder order(value);
  for (const Key& key : keys) {
    PyObject* each = order.next();
    if (!each || !is_key(key, each)) return false;
  }
  return !order.next();
}

// Holds beside `has_keys`, which knows the number of keys.
DL_CHECK(has_hashes) {
  if (!PyDict_Check(value)) return false;
  DictOrder order(value);
  for (const Key& key : parts.details->keys) {
    if (!order.next() || order.hash() != key.hash) return false;
  }
  return true;
}

DL_CHECK(dict_has) { return PyDict_Check(value) && presence_is(Presence::There, parts.item_of(value, false), found); }
DL_CHECK(dict_lacks) {
  return PyDict_Check(value) && presence_is(Presence::Missing, parts.item_of(value, false), found);
}
DL_CHECK(instance_lacks) { return presence_is(Presence::Missing, parts.item_of(value, !parts.of_dict), found); }

DL_CHECK(has_items) {
  const std::vector<Key>& keys = parts.details->keys;
  if (!PyAnySet_Check(value) || PySet_GET_SIZE(value) != static_cast<Py_ssize_t>(keys.size())) return false;
  for (SetItems items(value); items.next();) {
    const auto is_item = [&items](const Key& key) { return key.hash == items.hash && is_key(key, items.item); };
    if (std::none_of(keys.begin(), keys.end(), is_item)) return false;
  }
  return true;
}

DL_CHECK(has_items_in_order) {
  if (!PyAnySet_Check(value)) return false;
  SetItems items(value);
  for (const Key& key : parts.details->keys) {
    if (!items.next() || !is_key(key, items.item)) return false;
  }
  return !items.next();
}

DL_CHECK(set_lacks) {
  if (!PyAnySet_Check(value)) return false;
  for (SetItems items(value); items.next();) {
    if (items.hash == parts.details->key.hash) return false;  // the name, or an object that may claim to equal it
  }
  return true;
}

DL_CHECK(matches_tensor) { return parts.tensor->match(value, found); }
DL_CHECK(begins_at) {
  const std::int64_t offset = shape_of(value).offset;
  return offset < 0 ? fails(found, "it is not a tensor") : is_number(parts.number, offset, "storage offset", found);
}
DL_CHECK(can_be_written) { return accepts_writes(value); }

DL_CHECK(state_is) { return matches_current_state(parts.object, found); }
// The argument is a list: the token that abc.get_cache_token() returned, and that function. If a class was registered
// since, and no recorded isinstance() or issubclass() has another result, Python replaces the token: the check holds
// again.
DL_CHECK(nothing_was_registered) {
  const Ref now = Ref::steal(PyObject_CallNoArgs(PyList_GET_ITEM(parts.object, 1)));
  if (!now) PyErr_Clear();
  return now && same_constant(PyList_GET_ITEM(parts.object, 0), now.get());
}

DL_CHECK(nothing_is_handled) { return !Ref::steal(PyErr_GetHandledException()); }

#undef DL_CHECK

// -- how long they last

using Parts = CheckParts;

Lasts forever(const Parts&, PyObject*) noexcept { return Lasts::Forever; }
Lasts with_dict(const Parts&, PyObject*) noexcept { return Lasts::Version; }
Lasts with_instance_dict(const Parts& parts, PyObject*) noexcept { return parts.of_dict ? Lasts::Version : Lasts::Now; }
Lasts with_order(const Parts&, PyObject* dict) noexcept { return keeps_order(dict) ? Lasts::Version : Lasts::Now; }
Lasts with_class(const Parts&, PyObject* cls) noexcept { return type_version(cls) ? Lasts::Version : Lasts::Now; }
Lasts if_frozen(const Parts&, PyObject* set) noexcept { return PyFrozenSet_Check(set) ? Lasts::Forever : Lasts::Now; }

// The __class__ of an object can't be assigned if its type is static or immutable, and not a module's.
Lasts with_immutable_type(const Parts& parts, PyObject*) noexcept {
  auto* type = reinterpret_cast<PyTypeObject*>(parts.object);
  const bool stays = PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype(type, &PyModule_Type);
  return stays ? Lasts::Forever : Lasts::Now;
}

Lasts with_length(const Parts&, PyObject* value) noexcept {
  if (PyDict_Check(value)) return Lasts::Version;
  return PyTuple_Check(value) || PyUnicode_Check(value) || PyFrozenSet_Check(value) ? Lasts::Forever : Lasts::Now;
}

// -- the table

constexpr const char* kStateHint = "call it in the same modes of torch (gradients, autocast, number of threads)";
constexpr const char* kAliasHint = "inputs that are one object or share memory are compiled separately";

// clang-format off
constexpr CheckKind kCheckKinds[] = {
    {.name = "type", .argument = &kType, .holds = has_type, .lasts = with_immutable_type, .replayed = Replayed::ByType,
     .text = "is exactly {a_class}", .change = "{place}: {a_type}, was {a_class}", .wanted = "of type {arg.__qualname__}",
     .given = "of type {type}"},
    {.name = "id", .argument = &kObject, .holds = is_object, .lasts = forever, .replayed = Replayed::ByAddress,
     .text = "is {identity}", .change = "{place}: {another}, was {expected}", .wanted = "the object {arg!r}",
     .given = "{arg!r}"},
    {.name = "equals", .argument = &kConstant, .holds = equals, .lasts = forever, .replayed = Replayed::ByKeepingIt,
     .text = "== {arg!r}", .change = "{place}: {value}, was {expected}", .wanted = "{arg!r}", .given = "{arg!r}"},
    {.name = "payload", .argument = &kConstant, .holds = has_payload, .lasts = forever, .text = "has the value {arg!r}",
     .change = "{place}: {value}, was {expected}", .wanted = "{arg!r}", .given = "{arg!r}"},
    {.name = "bits", .argument = &kObject, .holds = has_bits, .lasts = forever, .text = "== {arg!r}",
     .change = "{place}: {value}, was {expected}", .wanted = "{arg!r}", .given = "{arg!r}"},
    {.name = "length", .argument = &kNumber, .holds = has_length, .lasts = with_length, .text = "has length {arg}",
     .change = "{place}: {differences}", .difference = "{what} {now}, was {what} {was}", .wanted = "of length {arg}",
     .given = "of length {length}"},
    {.name = "dict_keys", .argument = &kKeys, .holds = has_keys, .lasts = with_order, .text = "has {keys}",
     .change = "{place}: {keys_now}, was {keys}", .wanted = "a dict with the keys {list}",
     .given = "one with the keys {list}"},
    {.name = "key_hashes", .argument = &kHashes, .holds = has_hashes, .lasts = with_order,
     .text = "stores its keys under the same hashes", .change = "{place}: a key was stored while it had another hash"},
    {.name = "dict_has", .argument = &kKey, .holds = dict_has, .lasts = with_dict, .text = "has the key {arg!r}",
     .change = "{place}: the key {expected} is missing, was there", .wanted = "a dict with the key {arg!r}",
     .given = "one with the keys {list}"},
    {.name = "dict_lacks", .argument = &kKey, .holds = dict_lacks, .lasts = with_dict, .text = "lacks the key {arg!r}",
     .change = "{place}: the key {expected} is there, was missing", .wanted = "a dict without the key {arg!r}",
     .given = "one with the keys {list}"},
    {.name = "type_lacks", .argument = &kName, .holds = type_lacks, .lasts = with_class,
     .text = "has no attribute {arg!r}", .change = "{place}: {value} with an attribute {expected}, had none"},
    {.name = "derives", .argument = &kType, .holds = class_derives, .lasts = with_class, .text = "derives from {class}"},
    {.name = "derives_not", .argument = &kType, .holds = class_derives_not, .lasts = with_class,
     .text = "does not derive from {class}"},
    {.name = "lacks_instance_dict_item", .argument = &kName, .holds = instance_lacks, .lasts = with_instance_dict,
     .of_instance_dict = true, .text = "has no instance attribute {arg!r}",
     .change = "{place}: has an instance attribute {expected}, had none",
     .wanted = "without an attribute {arg!r} of its own", .given = "{arg!r}"},
    {.name = "set_items", .argument = &kItems, .holds = has_items, .lasts = if_frozen, .text = "holds the same items",
     .change = "{place}: {value} of other items", .wanted = "a set of {list}", .given = "{list}"},
    {.name = "set_order", .argument = &kKeys, .holds = has_items_in_order, .lasts = if_frozen,
     .text = "holds the same items in the same order", .change = "{place}: {value} of other items, or in another order",
     .wanted = "a set of {list} in this order", .given = "{arg}"},
    {.name = "set_lacks", .argument = &kName, .holds = set_lacks, .text = "lacks {arg!r}",
     .change = "{place}: {value} with the item {expected}, lacked it"},
    {.name = "tensor", .argument = &kTensor, .holds = matches_tensor, .replayed = Replayed::ByTensor,
     .text = "is a {arg.dtype} tensor on {arg.device} of shape {shape}{grad}", .change = "{place}: {differences}",
     .difference = "{what} {now} instead of {was}", .about = "{place}: {what}"},
    {.name = "tensor_of_any_size", .argument = &kTensorAndDims, .holds = matches_tensor,
     .text = "is a {arg[0].dtype} tensor on {arg[0].device} of shape {free_shape}", .change = "{place}: {differences}",
     .difference = "{what} {now} instead of {was}", .about = "{place}: {what}"},
    {.name = "tensor_without_size", .argument = &kTensorWithoutSizes, .holds = matches_tensor,
     .text = "is a {arg.dtype} tensor on {arg.device}{grad}", .change = "{place}: {differences}",
     .difference = "{what} {now} instead of {was}", .about = "{place}: {what}"},
    {.name = "storage_offset", .argument = &kNumber, .holds = begins_at, .text = "begins at element {arg} of its storage",
     .change = "{place}: {differences}", .difference = "{what} {now}, was {was}",
     .hint = "each place of a view in its storage is compiled separately: call .clone() before",
     .wanted = "a tensor that begins at element {arg} of its storage", .given = "one that begins at element {offset}"},
    {.name = "accepts_writes", .argument = &kObject, .holds = can_be_written,
     .text = "may be mutated under autograd",
     .change = "{place}: autograd forbids to mutate it (a leaf, or a view of one), and allowed it before",
     .hint = "mutate a clone, or call it under torch.no_grad()"},
    {.name = "present", .argument = &kObject, .holds = always, .lasts = forever, .replayed = Replayed::ByAddress,
     .text = "is there", .remark = "{place}: {words}, was there", .wanted = "there", .given = "{arg!r}"},
    {.name = "unbound", .argument = &kObject, .holds = never, .subject = Subject::NoValue, .text = "is not bound",
     .change = "{place}: {value}, was not there"},
    {.name = "global_state", .argument = &kState, .holds = state_is, .subject = Subject::Frame,
     .text = "grad mode, autocast, default dtype and the like are unchanged", .change = "{differences}",
     .about = "{what}", .hint = kStateHint},
    {.name = "registrations", .argument = &kRegistrations, .holds = nothing_was_registered, .subject = Subject::Frame,
     .text = "answer as they did before a class was registered",
     .change = "a class was registered with an abstract base class",
     .hint = "register classes before the first call"},
    {.name = "no_handled_exception", .argument = &kObject, .holds = nothing_is_handled, .subject = Subject::Frame,
     .text = "is handling no exception", .change = "it is called while an exception is handled, and wasn't before",
     .hint = "calls inside and outside of `except` blocks have a version each"},
    {.name = "same_as", .argument = &kNode, .subject = Subject::Same, .text = "is {arg}",
     .change = "'{condition}' no longer holds: they are different objects", .hint = kAliasHint},
    {.name = "distinct", .argument = &kNodes, .subject = Subject::Distinct, .text = "are different objects",
     .change = "two of its inputs are one object, and were different ones", .about = "which inputs are one",
     .hint = kAliasHint},
    {.name = "storages_distinct", .argument = &kStorages, .subject = Subject::StoragesDistinct,
     .text = "share no memory with one that is written to",
     .change = "two of its inputs share memory, and it writes to one of them", .about = "which inputs share memory",
     .hint = kAliasHint},
    {.name = "symbolic", .argument = &kProgram, .subject = Subject::Symbolic, .text = "{arg}",
     .change = "{condition} doesn't hold for {numbers}", .about = "{condition}",
     .hint = "the function branches on this, or something in it needs the number itself: each outcome is compiled "
             "separately"},
};
// clang-format on

}  // namespace

CheckParts::CheckParts(const CheckParts& other)
    : object(other.object),
      number(other.number),
      of_dict(other.of_dict),
      tensor(copied(other.tensor)),
      details(copied(other.details)),
      held(other.held) {}

DL_HIT DictLookup CheckParts::item_of(PyObject* container, bool of_instance) const noexcept {
  const Key& key = details->key;
  return of_instance ? instance_dict_find(container, key.object.get(), key.hash)
                     : dict_find(container, key.object.get(), key.hash, key.quiet);
}

Check::Check(const char* kind, PyObject* arg, PyObject* reason, std::size_t node_count, const Liveness& liveness)
    : reason_(Ref::borrow(reason)) {
  const auto has_name = [kind](const CheckKind& each) { return std::strcmp(each.name, kind) == 0; };
  kind_ = std::find_if(std::begin(kCheckKinds), std::end(kCheckKinds), has_name);
  if (kind_ == std::end(kCheckKinds)) raise(PyExc_ValueError, "there is no check of kind '%.100s'", kind);
  if (!kind_->argument->set(parts_, arg, node_count, liveness)) {
    if (PyErr_Occurred()) throw py::error_already_set();
    raise(PyExc_TypeError, "a check of kind %s needs %s, not %R", kind, kind_->argument->wanted, arg);
  }
  if (kind_->holds == has_type) exact_type_ = parts_.object;
}

Ref Check::object() const {
  if (!parts_.details || parts_.held.get()) return parts_.held.share();
  const std::vector<Key>& keys = parts_.details->keys;
  if (parts_.details->key.object.get()) return parts_.details->key.object.share();
  Ref tuple = checked(Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(keys.size()))));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), keys[i].object.share().release());
  }
  return tuple;
}

int Check::traverse(visitproc visit, void* arg) const {
  Py_VISIT(reason_.get());
  Py_VISIT(parts_.held.keeper());
  if (!parts_.details) return 0;
  Py_VISIT(parts_.details->key.object.keeper());
  for (const Key& key : parts_.details->keys) Py_VISIT(key.object.keeper());
  return 0;
}

void register_checks(py::module_& module) {
  using Text = const char* CheckKind::*;
  constexpr std::pair<const char*, Text> kTexts[] = {
      {"text", &CheckKind::text},     {"change", &CheckKind::change}, {"remark", &CheckKind::remark},
      {"about", &CheckKind::about},   {"hint", &CheckKind::hint},     {"difference", &CheckKind::difference},
      {"wanted", &CheckKind::wanted}, {"given", &CheckKind::given},
  };
  py::dict kinds;
  const py::object row_type = py::module_::import("types").attr("SimpleNamespace");
  for (const CheckKind& kind : kCheckKinds) {
    py::object row = row_type();
    for (const auto& [name, text] : kTexts) row.attr(name) = kind.*text;
    kinds[kind.name] = row;
  }
  module.attr("CHECK_KINDS") = kinds;
  module.attr("TENSOR_FACTS") = hints_of_tensor_facts();
}

}  // namespace dynamo_lite
