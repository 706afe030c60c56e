#include "cpython/lookup.h"

#include <algorithm>
#include <cstddef>

#include "cpython/objects.h"
#include "cpython/version.h"
#include "hit.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

// The first fields of PyDictKeysObject, which is opaque in the public headers (Include/internal/pycore_dict.h).
struct DictKeys {
  Py_ssize_t refcnt;
  std::uint8_t log2_size;
  std::uint8_t log2_index_bytes;
  std::uint8_t kind;
  std::uint32_t version;
  Py_ssize_t usable;
  Py_ssize_t entry_count;
  char indices[1];

  static constexpr std::uint8_t kGeneral = 0;

  const void* entries() const noexcept { return indices + (std::size_t{1} << log2_index_bytes); }
};
static_assert(offsetof(DictKeys, indices) == 32);

struct GeneralEntry {
  Py_hash_t hash;
  PyObject* key;
  PyObject* value;
};

struct UnicodeEntry {
  PyObject* key;
  PyObject* value;
};

// The first fields of an OrderedDict (Objects/odictobject.c).
struct OrderedDict {
  PyDictObject dict;
  OrderedKey* first;
  OrderedKey* last;
};

constexpr Py_ssize_t kEmpty = -1;

const DictKeys* keys_of(PyObject* dict) noexcept {
  return reinterpret_cast<const DictKeys*>(reinterpret_cast<PyDictObject*>(dict)->ma_keys);
}

Py_ssize_t index_at(const DictKeys* keys, std::size_t slot) noexcept {
  if (keys->log2_size < 8) return reinterpret_cast<const std::int8_t*>(keys->indices)[slot];
  if (keys->log2_size < 16) return reinterpret_cast<const std::int16_t*>(keys->indices)[slot];
  if (keys->log2_size < 32) return reinterpret_cast<const std::int32_t*>(keys->indices)[slot];
  return reinterpret_cast<const std::int64_t*>(keys->indices)[slot];
}

// Follows CPython's probe sequence in a table of general keys. Compares only keys for which that runs no Python.
DictLookup find_among_any(const DictKeys* keys, PyObject* key, Py_hash_t hash, bool quiet) noexcept {
  const auto* entries = static_cast<const GeneralEntry*>(keys->entries());
  const std::size_t mask = (std::size_t{1} << keys->log2_size) - 1;
  std::size_t perturb = static_cast<std::size_t>(hash);
  std::size_t slot = perturb & mask;
  Presence missing = Presence::Missing;
  while (true) {
    const Py_ssize_t index = index_at(keys, slot);
    if (index == kEmpty) return {missing, nullptr};
    if (index >= 0) {
      const GeneralEntry& entry = entries[index];
      if (entry.key == key) return {Presence::There, entry.value};
      if (entry.hash == hash) {
        const int equal = quiet && compares_quietly(entry.key) ? PyObject_RichCompareBool(entry.key, key, Py_EQ) : -1;
        if (equal > 0) return {Presence::There, entry.value};
        if (equal < 0) {
          PyErr_Clear();
          missing = Presence::Unclear;
        }
      }
    }
    perturb >>= 5;
    slot = (slot * 5 + perturb + 1) & mask;
  }
}

bool is_same_string(PyObject* a, PyObject* b, Py_hash_t hash_of_b) noexcept {
  if (a == b) return true;
  return reinterpret_cast<PyASCIIObject*>(a)->hash == hash_of_b && PyUnicode_Compare(a, b) == 0;
}

// Looks up a key that isn't an exact str in a table of exact strs. It may be of a subclass of str, or have an __eq__.
DictLookup find_among_strings(PyObject* dict, PyObject* key, Py_hash_t hash, bool quiet) noexcept {
  PyObject* value = nullptr;
  Presence missing = Presence::Missing;
  if (quiet) {
    value = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (PyErr_Occurred()) missing = Presence::Unclear;
    PyErr_Clear();
  } else {
    Py_ssize_t position = 0;
    PyObject* each = nullptr;
    while (PyDict_Next(dict, &position, &each, nullptr)) {
      if (PyObject_Hash(each) == hash) missing = Presence::Unclear;  // hashing an exact str runs no Python
    }
  }
  return {value ? Presence::There : missing, value};
}

// Whether the type's == is the C function of one of these builtins, possibly inherited.
bool has_builtin_equality(PyTypeObject* type) noexcept {
  const richcmpfunc compare = type->tp_richcompare;
  return compare == PyBaseObject_Type.tp_richcompare || compare == PyUnicode_Type.tp_richcompare ||
         compare == PyLong_Type.tp_richcompare || compare == PyFloat_Type.tp_richcompare ||
         compare == PyBytes_Type.tp_richcompare || compare == PyComplex_Type.tp_richcompare;
}

constexpr Py_ssize_t kManagedDict = -3;  // in words before the object

// The attribute values of an instance without a dict, in the order of the class's keys, and their maximum number. Null
// if the instance has no inline values.
struct InlineValues {
  PyObject** values;
  Py_ssize_t capacity;
};

#if PY_VERSION_HEX < 0x030C0000
constexpr Py_ssize_t kInlineValues = -4;

PyObject* managed_dict(PyObject* object) noexcept { return reinterpret_cast<PyObject**>(object)[kManagedDict]; }
InlineValues inline_values(PyObject* object) noexcept {
  return {reinterpret_cast<PyObject***>(object)[kInlineValues], PY_SSIZE_T_MAX};
}
PyObject* own_type_dict(PyObject* type) noexcept { return reinterpret_cast<PyTypeObject*>(type)->tp_dict; }
#elif PY_VERSION_HEX < 0x030D0000
std::uintptr_t dict_or_values(PyObject* object) noexcept {
  return reinterpret_cast<std::uintptr_t*>(object)[kManagedDict];
}
PyObject* managed_dict(PyObject* object) noexcept {
  const std::uintptr_t word = dict_or_values(object);
  return word & 1 ? nullptr : reinterpret_cast<PyObject*>(word);
}
InlineValues inline_values(PyObject* object) noexcept {
  const std::uintptr_t word = dict_or_values(object);
  return {word & 1 ? reinterpret_cast<PyObject**>(word + 1) : nullptr, PY_SSIZE_T_MAX};
}
#else
PyObject* managed_dict(PyObject* object) noexcept { return reinterpret_cast<PyObject**>(object)[kManagedDict]; }
InlineValues inline_values(PyObject* object) noexcept {
  if (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_INLINE_VALUES)) return {nullptr, 0};
  // They follow the other fields. In 3.13 there are none; from 3.14 on subclasses of list, dict, str and others have
  // some.
  auto* found = reinterpret_cast<InstanceValues*>(reinterpret_cast<char*>(object) + Py_TYPE(object)->tp_basicsize);
  return {found->valid != 0 ? found->values : nullptr, found->capacity};
}
#endif
#if PY_VERSION_HEX >= 0x030C0000
PyObject* own_type_dict(PyObject* type) noexcept {
  PyObject* dict = PyType_GetDict(reinterpret_cast<PyTypeObject*>(type));  // new; the type keeps it alive
  drop(dict);
  return dict;
}
#endif

bool has_managed_dict(PyObject* object) noexcept { return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_MANAGED_DICT); }

bool is_deque(PyObject* object) noexcept {
  PyTypeObject* deque = standard_types().deque;
  return Py_TYPE(object) == deque || PyType_IsSubtype(Py_TYPE(object), deque);
}

}  // namespace

bool compares_quietly(PyObject* object) noexcept {
  const auto is_quiet = [](PyObject* each) { return is_plain(Py_TYPE(each)) || has_builtin_equality(Py_TYPE(each)); };
  if (is_quiet(object) || !PyTuple_CheckExact(object)) return is_quiet(object);
  return std::all_of(tuple_items(object), tuple_items(object) + PyTuple_GET_SIZE(object), is_quiet);
}

DL_HIT DictLookup dict_find(PyObject* dict, PyObject* key, Py_hash_t hash, bool quiet) noexcept {
  const DictKeys* keys = keys_of(dict);
  if (keys->kind == DictKeys::kGeneral) return find_among_any(keys, key, hash, quiet);
  if (PyUnicode_CheckExact(key)) {
    PyObject* value = _PyDict_GetItem_KnownHash(dict, key, hash);
    return {value ? Presence::There : Presence::Missing, value};
  }
  return find_among_strings(dict, key, hash, quiet);
}

bool keeps_order(PyObject* dict) noexcept {
  return PyDict_CheckExact(dict) || !PyODict_Check(dict) || PyDict_GET_SIZE(dict) < 2;
}

DictOrder::DictOrder(PyObject* dict) noexcept : dict_(dict) {
  if (!keeps_order(dict)) node_ = reinterpret_cast<const OrderedDict*>(dict)->first;
}

PyObject* DictOrder::next() noexcept {
  PyObject* key = nullptr;
  if (keeps_order(dict_)) return PyDict_Next(dict_, &position_, &key, nullptr) ? key : nullptr;
  if (!node_) return nullptr;
  key = node_->key;
  node_ = node_->next;
  return key;
}

Py_hash_t DictOrder::hash() const noexcept {
  if (!keeps_order(dict_)) return (node_ ? node_->previous : reinterpret_cast<const OrderedDict*>(dict_)->last)->hash;
  const DictKeys* keys = keys_of(dict_);
  if (keys->kind == DictKeys::kGeneral) return static_cast<const GeneralEntry*>(keys->entries())[position_ - 1].hash;
  return PyObject_Hash(static_cast<const UnicodeEntry*>(keys->entries())[position_ - 1].key);  // an exact str
}

PyObject* dict_value_of(PyObject* dict, PyObject* key) noexcept {
  if (PyUnicode_CheckExact(key)) {
    return dict_find(dict, key, PyObject_Hash(key), true).value;
  }
  Py_ssize_t position = 0;
  PyObject* each;
  PyObject* value;
  while (PyDict_Next(dict, &position, &each, &value)) {
    if (each == key) return value;
  }
  return nullptr;
}

DL_HIT PyObject* instance_dict(PyObject* object) noexcept {
  if (has_managed_dict(object)) {
    if (PyObject* dict = managed_dict(object)) return dict;
  } else if (PyType_Check(object)) {
    return own_type_dict(object);
  }
  NoCollection no_collection;
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (!slot) {
    PyErr_Clear();
    return nullptr;
  }
  if (*slot) return *slot;
  PyObject* made = PyObject_GenericGetDict(object, nullptr);  // new; the instance keeps it alive
  if (!made) PyErr_Clear();
  drop(made);
  return made;
}

PyObject* const* instance_dict_slot(PyObject* object) noexcept {
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? &type->tp_dict : nullptr;
  }
  if (has_managed_dict(object)) {
    return managed_dict(object) ? reinterpret_cast<PyObject* const*>(object) + kManagedDict : nullptr;
  }
  return _PyObject_GetDictPtr(object);
}

DL_HIT DictLookup instance_dict_find(PyObject* object, PyObject* name, Py_hash_t hash) noexcept {
  if (has_managed_dict(object) && !managed_dict(object)) {
    const auto [values, capacity] = inline_values(object);
    if (!values) return {Presence::Missing, nullptr};
    auto* type = reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(object));
    const auto* keys = reinterpret_cast<const DictKeys*>(type->ht_cached_keys);
    const auto* entries = static_cast<const UnicodeEntry*>(keys->entries());
    for (Py_ssize_t i = 0; i < std::min(keys->entry_count, capacity); ++i) {
      if (is_same_string(entries[i].key, name, hash)) {
        return {values[i] ? Presence::There : Presence::Missing, values[i]};
      }
    }
    return {Presence::Missing, nullptr};
  }
  PyObject** slot = has_managed_dict(object) || PyType_Check(object) ? nullptr : _PyObject_GetDictPtr(object);
  PyObject* dict = slot ? *slot : has_managed_dict(object) || PyType_Check(object) ? instance_dict(object) : nullptr;
  return dict ? dict_find(dict, name, hash, true) : DictLookup{Presence::Missing, nullptr};
}

PyObject* type_find(PyObject* type, PyObject* name) noexcept {
  return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name);
}

Py_ssize_t own_length(PyObject* object) noexcept {
  if (PyList_Check(object)) return PyList_GET_SIZE(object);
  if (PyTuple_Check(object)) return PyTuple_GET_SIZE(object);
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  if (PyUnicode_Check(object)) return PyUnicode_GET_LENGTH(object);
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  if (PyBytes_Check(object)) return PyBytes_GET_SIZE(object);
  return is_deque(object) ? standard_types().deque->tp_as_sequence->sq_length(object) : -1;
}

PyObject* deque_item(PyObject* object, Py_ssize_t index) noexcept {
  if (!is_deque(object) || index >= own_length(object)) return nullptr;
  PyObject* item = standard_types().deque->tp_as_sequence->sq_item(object, index);
  if (!item) PyErr_Clear();
  return item;
}

}  // namespace dynamo_lite
