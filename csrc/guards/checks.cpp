#include "guards/checks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "prefetch.h"
#include "guards/constants.h"
#include "guards/finalizers.h"
#include "guards/global_state.h"
#include "guards/tensors.h"
#include "cpython/lookup.h"
#include "cpython/objects.h"

namespace dynamo_lite {

struct CheckDetails {
  Key key;                           // dict_has and the like: of what there is or isn't
  std::vector<Key> keys;             // dict_keys and set_order in order, set_items
  std::vector<std::uint32_t> nodes;  // same_as, distinct, storages_distinct, symbolic
  std::size_t written = 0;           // storages_distinct: how many of the nodes, the first ones, are written to
  std::shared_ptr<const SymbolicProgram> program;  // symbolic
};

namespace {

constexpr std::array<const char*, 29> kKindNames{
    "type",       "id",        "equals",     "length",                   "dict_keys",
    "dict_has",   "dict_lacks", "type_lacks", "derives",    "derives_not", "lacks_instance_dict_item",
    "dies_unseen", "dict_item_dies_unseen", "instance_item_dies_unseen", "set_items",  "set_order",  "payload",
    "tensor",     "tensor_of_any_size", "tensor_without_size", "storage_offset", "present",   "unbound",    "global_state",             "registrations",
    "same_as",
    "distinct",   "storages_distinct", "symbolic",
};

const char* name_of(CheckKind kind) noexcept { return kKindNames[static_cast<std::size_t>(kind)]; }

// Whether a key of a dict or an item of a set is the wanted one: constants by exact value, others by identity.
bool is_key(const Key& wanted, PyObject* found) noexcept { return same_constant(wanted.object.get(), found); }

// An object whose class nobody can assign: of a static or immutable type that is no module's.
bool keeps_type(PyTypeObject* type) noexcept {
  return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype(type, &PyModule_Type);
}

DictLookup find_in(PyObject* dict, const Key& key) noexcept {
  return dict_find(dict, key.object.get(), key.hash, key.quiet);
}

const char* presence_in_words(Presence presence) noexcept {
  switch (presence) {
    case Presence::There:
      return "the key is there";
    case Presence::Missing:
      return "the key is missing";
    case Presence::Unclear:
      break;
  }
  return "a key of the same hash whose __eq__ is not run";
}

// Whether a list begins with the count of classes that were registered with abstract ones. It is brought up to date
// where it turned out that what was registered makes no difference.
bool was_registered_last(PyObject* list) noexcept {
  if (PyList_GET_SIZE(list) == 0 || !PyLong_CheckExact(PyList_GET_ITEM(list, 0))) return false;
  const unsigned long long count = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(list, 0));
  PyErr_Clear();
  return count == abc_registrations();
}

// Whether a class has another in its MRO.
bool derives_from(PyObject* cls, PyObject* base) noexcept {
  return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), reinterpret_cast<PyTypeObject*>(base));
}

template <typename Part>
std::unique_ptr<Part> copied(const std::unique_ptr<Part>& part) {
  return part ? std::make_unique<Part>(*part) : nullptr;
}

std::string keys_in_words(PyObject* dict) {
  std::string text = "keys";
  DictOrder order(dict);
  int shown = 0;
  while (PyObject* key = order.next()) {
    if (++shown > 16) return text + " ...";
    text += ' ';
    text += in_words(key);
  }
  return shown ? text : "no keys";
}

}  // namespace

Check::Check() = default;
Check::Check(const Check& other)
    : kind_(other.kind_),
      of_dict_(other.of_dict_),
      object_(other.object_),
      number_(other.number_),
      facts_(copied(other.facts_)),
      details_(copied(other.details_)),
      held_(other.held_),
      reason_(other.reason_) {}

Check::Check(Check&&) noexcept = default;
Check& Check::operator=(const Check& other) { return *this = Check(other); }
Check& Check::operator=(Check&&) noexcept = default;
Check::~Check() = default;

bool Check::set(const char* kind, PyObject* arg, PyObject* reason, Py_ssize_t node_count, const Liveness& liveness) {
  std::size_t which = 0;
  while (which < kKindNames.size() && std::strcmp(kKindNames[which], kind) != 0) ++which;
  if (which == kKindNames.size()) {
    PyErr_Format(PyExc_ValueError, "there is no check of kind '%.100s'", kind);
    return false;
  }
  kind_ = static_cast<CheckKind>(which);
  reason_ = Ref::borrow(reason);
  return set_argument(arg, node_count, liveness);
}

bool Check::set_argument(PyObject* arg, Py_ssize_t node_count, const Liveness& liveness) {
  const auto wrong = [&](const char* wanted) {
    PyErr_Format(PyExc_TypeError, "a check of kind %s needs %s, not %R", kind_name(), wanted, arg);
    return false;
  };
  switch (kind_) {
    case CheckKind::Type:
    case CheckKind::Derives:
    case CheckKind::DerivesNot:
      if (!PyType_Check(arg)) return wrong("a type");
      break;
    case CheckKind::Equals:
    case CheckKind::Payload:
      if (!is_constant(arg)) return wrong("a constant (use id for other objects)");
      break;
    case CheckKind::GlobalState:
      if (!is_global_state(arg)) return wrong("a GlobalState");
      break;
    case CheckKind::Registrations:
      if (!PyList_Check(arg)) return wrong("a list that begins with abc.get_cache_token()");
      break;
    case CheckKind::Length:
      number_ = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
      return number_ >= 0 || (PyErr_Clear(), wrong("a length"));
    case CheckKind::TypeLacks:
    case CheckKind::LacksInstanceDictItem:
    case CheckKind::InstanceItemDiesUnseen:
      if (!PyUnicode_CheckExact(arg)) return wrong("a name");
      [[fallthrough]];
    case CheckKind::DictItemDiesUnseen:
    case CheckKind::DictHas:
    case CheckKind::DictLacks:
      details_ = std::make_unique<CheckDetails>();
      return details_->key.set(arg, liveness);
    case CheckKind::DictKeys:
    case CheckKind::SetOrder:
      return PyTuple_Check(arg) ? set_keys(arg, liveness) : wrong("a tuple of keys");
    case CheckKind::SetItems:
      return PyAnySet_Check(arg) ? set_set(arg, liveness) : wrong("a frozenset");
    case CheckKind::Tensor:
      facts_ = TensorFacts::of(arg);
      return facts_ != nullptr;
    case CheckKind::TensorOfAnySize:
      if (!PyTuple_Check(arg)) return wrong("a tuple of a tensor and the dims that are free");
      facts_ = TensorFacts::with_free_dims(arg);
      return facts_ != nullptr;
    case CheckKind::TensorWithoutSize:
      facts_ = TensorFacts::without_sizes(arg);
      return facts_ != nullptr;
    case CheckKind::StorageOffset:
      number_ = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
      return number_ >= 0 || (PyErr_Clear(), wrong("a number of elements"));
    case CheckKind::SameAs:
    case CheckKind::Distinct:
    case CheckKind::StoragesDistinct:
      return set_nodes(arg, node_count);
    case CheckKind::Symbolic:
      if (!PyTuple_Check(arg) || PyTuple_GET_SIZE(arg) != 2) return wrong("a tuple of nodes and instructions");
      return set_program(arg, node_count);
    case CheckKind::Id:
      break;
    case CheckKind::Present:
    case CheckKind::Unbound:
    case CheckKind::DiesUnseen:
      return true;
  }
  object_ = arg;
  return held_.hold(arg, liveness);
}

bool Check::set_keys(PyObject* arg, const Liveness& liveness) {
  details_ = std::make_unique<CheckDetails>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg); ++i) {
    if (!details_->keys.emplace_back().set(PyTuple_GET_ITEM(arg, i), liveness)) return false;
  }
  return true;
}

bool Check::set_set(PyObject* arg, const Liveness& liveness) {
  details_ = std::make_unique<CheckDetails>();
  for (SetItems items(arg); items.next();) {
    Key& key = details_->keys.emplace_back();
    key.hash = items.hash;
    if (!key.object.hold(items.item, liveness)) return false;
  }
  return true;
}

bool Check::set_nodes(PyObject* arg, Py_ssize_t node_count) {
  details_ = std::make_unique<CheckDetails>();
  const bool is_one = kind_ == CheckKind::SameAs;
  if (kind_ == CheckKind::StoragesDistinct && PyTuple_Check(arg) && PyTuple_GET_SIZE(arg) == 2) {
    if (!add_nodes(PyTuple_GET_ITEM(arg, 0), node_count)) return false;
    details_->written = details_->nodes.size();
    return add_nodes(PyTuple_GET_ITEM(arg, 1), node_count);
  }
  const Ref one = is_one ? Ref::steal(PyTuple_Pack(1, arg)) : Ref::borrow(arg);
  if (!one || !add_nodes(one.get(), node_count)) return false;
  details_->written = details_->nodes.size();
  return true;
}

bool Check::set_program(PyObject* arg, Py_ssize_t node_count) {
  details_ = std::make_unique<CheckDetails>();
  if (!add_nodes(PyTuple_GET_ITEM(arg, 0), node_count)) return false;
  details_->program = SymbolicProgram::of(PyTuple_GET_ITEM(arg, 1), details_->nodes.size());
  return details_->program != nullptr;
}

bool Check::add_nodes(PyObject* sequence, Py_ssize_t node_count) {
  const Ref numbers = Ref::steal(PySequence_Tuple(sequence));
  if (!numbers) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers.get()); ++i) {
    const Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(numbers.get(), i));
    if (number == -1 && PyErr_Occurred()) return false;
    if (number < 0 || number >= node_count) {
      PyErr_Format(PyExc_ValueError, "the tree has %zd nodes, there is no number %zd", node_count, number);
      return false;
    }
    details_->nodes.push_back(static_cast<std::uint32_t>(number));
  }
  return true;
}

bool Check::keys_match(PyObject* dict) const noexcept {
  const std::vector<Key>& keys = details_->keys;
  if (PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(keys.size())) return false;
  DictOrder order(dict);
  for (const Key& key : keys) {
    PyObject* found = order.next();
    if (!found || !is_key(key, found)) return false;
  }
  return !order.next();
}

bool Check::set_matches(PyObject* set) const noexcept {
  const std::vector<Key>& keys = details_->keys;
  if (PySet_GET_SIZE(set) != static_cast<Py_ssize_t>(keys.size())) return false;
  for (SetItems items(set); items.next();) {
    const auto is_item = [&items](const Key& key) { return key.hash == items.hash && is_key(key, items.item); };
    if (std::none_of(keys.begin(), keys.end(), is_item)) return false;
  }
  return true;
}

bool Check::order_matches(PyObject* set) const noexcept {
  SetItems items(set);
  for (const Key& key : details_->keys) {
    if (!items.next() || !is_key(key, items.item)) return false;
  }
  return !items.next();
}

DL_HIT DictLookup Check::item_of(PyObject* container) const noexcept {
  const Key& key = details_->key;
  const bool lacks = kind_ == CheckKind::LacksInstanceDictItem && !of_dict_;
  const bool of_instance = lacks || kind_ == CheckKind::InstanceItemDiesUnseen;
  return of_instance ? instance_dict_find(container, key.object.get(), key.hash) : find_in(container, key);
}

DL_HIT bool Check::lets_go_unseen(PyObject* container) const noexcept {
  const DictLookup item = item_of(container);
  return item.presence == Presence::Missing || (item.presence == Presence::There && !is_seen_to_die(item.value));
}

DL_HIT bool Check::holds_of_container(PyObject* value) const noexcept {
  switch (kind_) {
    case CheckKind::DictKeys:
      return PyDict_Check(value) && keys_match(value);
    case CheckKind::SetItems:
      return PyAnySet_Check(value) && set_matches(value);
    case CheckKind::SetOrder:
      return PyAnySet_Check(value) && order_matches(value);
    case CheckKind::DictHas:
      return PyDict_Check(value) && item_of(value).presence == Presence::There;
    case CheckKind::DictLacks:
      return PyDict_Check(value) && item_of(value).presence == Presence::Missing;
    case CheckKind::LacksInstanceDictItem:
      return item_of(value).presence == Presence::Missing;
    case CheckKind::DictItemDiesUnseen:
      return PyDict_Check(value) && lets_go_unseen(value);
    case CheckKind::InstanceItemDiesUnseen:
      return lets_go_unseen(value);
    case CheckKind::TypeLacks:
      return PyType_Check(value) && !type_find(value, details_->key.object.get());
    default:
      return false;
  }
}

DL_HIT bool Check::is_met_by(PyObject* value, std::string* found) const noexcept {
  switch (kind_) {
    case CheckKind::Type:
    case CheckKind::Unbound:
      return false;
    case CheckKind::Id:
      return value == object_;
    case CheckKind::Derives:
    case CheckKind::DerivesNot:
      return PyType_Check(value) && derives_from(value, object_) == (kind_ == CheckKind::Derives);
    case CheckKind::Equals:
      return same_constant(object_, value);
    case CheckKind::Payload:
      return same_payload(object_, value);
    case CheckKind::Tensor:
    case CheckKind::TensorOfAnySize:
    case CheckKind::TensorWithoutSize:
      return facts_->match(value, found);
    case CheckKind::Length:
      return own_length(value) == number_;
    case CheckKind::StorageOffset:
      return storage_offset(value) == number_;
    case CheckKind::GlobalState:
      return matches_current_state(object_, found);
    case CheckKind::Registrations:
      return was_registered_last(object_);
    case CheckKind::Present:
      return true;
    case CheckKind::DiesUnseen:
      return !is_seen_to_die(value);
    default:
      return holds_of_container(value);
  }
}

DL_HIT bool Check::holds_of(PyObject* value, std::string* found) const noexcept {
  const bool held = is_met_by(value, found);
  if (!held && found && found->empty()) *found = instead(value);
  return held;
}

std::string Check::instead(PyObject* value) const {
  switch (kind_) {
    case CheckKind::Type:
      return in_words(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    case CheckKind::Length:
      if (const Py_ssize_t length = own_length(value); length >= 0) return "length " + std::to_string(length);
      break;
    case CheckKind::StorageOffset:
      return "storage offset " + std::to_string(storage_offset(value));
    case CheckKind::Registrations:
      return "a class was registered since";
    case CheckKind::DictHas:
    case CheckKind::DictLacks:
      if (!PyDict_Check(value)) break;
      [[fallthrough]];
    case CheckKind::LacksInstanceDictItem:
      return presence_in_words(item_of(value).presence);
    case CheckKind::DiesUnseen:
    case CheckKind::DictItemDiesUnseen:
    case CheckKind::InstanceItemDiesUnseen:
      return "something that is seen to die";
    default:
      break;
  }
  return PyDict_Check(value) ? keys_in_words(value) : in_words(value);
}

Lasts Check::lasts(PyObject* value) const noexcept {
  switch (kind_) {
    case CheckKind::Id:
    case CheckKind::Equals:
    case CheckKind::Payload:
    case CheckKind::Present:
      return Lasts::Forever;
    case CheckKind::Type:
      return keeps_type(reinterpret_cast<PyTypeObject*>(object_)) ? Lasts::Forever : Lasts::Now;
    case CheckKind::Length:
      if (PyDict_Check(value)) return Lasts::Version;
      return PyTuple_Check(value) || PyUnicode_Check(value) || PyFrozenSet_Check(value) ? Lasts::Forever : Lasts::Now;
    case CheckKind::DictKeys:
      return keeps_order(value) ? Lasts::Version : Lasts::Now;
    case CheckKind::DictHas:
    case CheckKind::DictLacks:
      return Lasts::Version;
    case CheckKind::LacksInstanceDictItem:
      return of_dict_ ? Lasts::Version : Lasts::Now;
    case CheckKind::TypeLacks:
    case CheckKind::Derives:
    case CheckKind::DerivesNot:
      return type_version(value) ? Lasts::Version : Lasts::Now;
    case CheckKind::SetItems:
    case CheckKind::SetOrder:
      return PyFrozenSet_Check(value) ? Lasts::Forever : Lasts::Now;
    default:
      return Lasts::Now;
  }
}

const std::vector<std::uint32_t>& Check::nodes() const noexcept { return details_->nodes; }

std::size_t Check::written() const noexcept { return details_->written; }

const SymbolicProgram& Check::program() const noexcept { return *details_->program; }

const char* Check::kind_name() const noexcept { return name_of(kind_); }

Ref Check::argument() const {
  switch (kind_) {
    case CheckKind::Type:
    case CheckKind::Derives:
    case CheckKind::DerivesNot:
    case CheckKind::Id:
    case CheckKind::Equals:
    case CheckKind::Payload:
    case CheckKind::GlobalState:
    case CheckKind::Registrations:
      return held_.share();
    case CheckKind::Length:
    case CheckKind::StorageOffset:
      return Ref::steal(PyLong_FromSsize_t(number_));
    case CheckKind::TypeLacks:
    case CheckKind::LacksInstanceDictItem:
    case CheckKind::DictHas:
    case CheckKind::DictLacks:
    case CheckKind::DictItemDiesUnseen:
    case CheckKind::InstanceItemDiesUnseen:
      return details_->key.object.share();
    case CheckKind::Tensor:
    case CheckKind::TensorOfAnySize:
    case CheckKind::TensorWithoutSize:
      return Ref::steal(PyUnicode_FromString(facts_->in_words().c_str()));
    case CheckKind::Present:
    case CheckKind::Unbound:
    case CheckKind::DiesUnseen:
      return Ref::borrow(Py_None);
    case CheckKind::SameAs:
      return Ref::steal(PyLong_FromUnsignedLong(details_->nodes.front()));
    default:
      break;
  }
  Ref list = Ref::steal(PyList_New(0));
  if (!list) return list;
  for (const Key& key : details_->keys) {
    if (PyList_Append(list.get(), key.object.share().get()) < 0) return {};
  }
  for (const std::uint32_t node : details_->nodes) {
    const Ref number = Ref::steal(PyLong_FromUnsignedLong(node));
    if (!number || PyList_Append(list.get(), number.get()) < 0) return {};
  }
  if (kind_ == CheckKind::DictKeys || kind_ == CheckKind::SetOrder) return Ref::steal(PyList_AsTuple(list.get()));
  return kind_ == CheckKind::SetItems ? Ref::steal(PyFrozenSet_New(list.get())) : list;
}

void Check::add_ahead(LinesAhead& ahead) const {
  ahead.add(this, sizeof(*this));
  if (facts_) ahead.add(facts_.get(), sizeof(*facts_));
  if (details_) ahead.add(details_.get(), sizeof(*details_));
  if (object_ != nullptr) ahead.add(object_, sizeof(PyObject));
}

int Check::traverse(visitproc visit, void* arg) const {
  Py_VISIT(reason_.get());
  if (const int stop = held_.traverse(visit, arg)) return stop;
  if (!details_) return 0;
  if (const int stop = details_->key.object.traverse(visit, arg)) return stop;
  for (const Key& key : details_->keys) {
    if (const int stop = key.object.traverse(visit, arg)) return stop;
  }
  return 0;
}

}  // namespace dynamo_lite
