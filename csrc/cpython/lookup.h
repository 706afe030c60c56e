// Lookups in dicts, types and instances that run no Python, and version numbers that tell whether these have changed.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace dynamo_lite {

#if PY_VERSION_HEX >= 0x030D0000
// PyDictValues of Include/internal/pycore_dict.h: the values of an instance's attributes. They are stored after the
// object's fields, even if the instance has a dict.
struct InstanceValues {
  std::uint8_t capacity;
  std::uint8_t size;
  std::uint8_t embedded;
  std::uint8_t valid;
  PyObject* values[1];
};
#endif

#if PY_VERSION_HEX >= 0x030D0000
// Starts to watch the dict and returns its new version. If no watcher is left, the next call returns another version.
[[gnu::cold, gnu::noinline]] std::uint64_t begin_version(PyObject* dict) noexcept;
#endif

// has_version(): whether the dict has a version that changes whenever the dict does.
// dict_version(): a number that is unique to this state of this dict. While it is unchanged, so are the dict's keys,
// their order (except an OrderedDict's, see keeps_order) and the identity of its values, but not the contents of the
// values. A dict without a version gets a new number at every call.
#if PY_VERSION_HEX >= 0x030E0000
// Dicts of 3.14 have no version, but a word for dict watchers. A build with the GIL uses only its low 12 bits. We watch
// a dict from the first read of its version until it changes, and store a number of ours in the higher bits: see
// dict_watchers.cpp.
constexpr std::uint64_t kNotVersion = 0xFFFF;

inline const std::uint64_t* dict_version_at(PyObject* dict) noexcept {
  return &reinterpret_cast<PyDictObject*>(dict)->_ma_watcher_tag;
}
inline bool has_version(PyObject* dict) noexcept { return (*dict_version_at(dict) & ~kNotVersion) != 0; }
inline std::uint64_t dict_version(PyObject* dict) noexcept {
  const std::uint64_t version = *dict_version_at(dict) & ~kNotVersion;
  return version != 0 ? version : begin_version(dict);
}
#else
inline const std::uint64_t* dict_version_at(PyObject* dict) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // kept up to date all through 3.13
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}
#if PY_VERSION_HEX >= 0x030D0000
// The lowest byte contains the dict's watchers; the optimizer counts changes in the next four bits.
constexpr std::uint64_t kNotVersion = 0xFFF;
// Bits that mark numbers of ours (the interpreter counts from zero), and those of dicts that we watch now.
constexpr std::uint64_t kOurVersion = std::uint64_t{1} << 63;
constexpr std::uint64_t kWatchedVersion = std::uint64_t{1} << 62;

// If a dict uses its instance's inline values, assignments to attributes don't change its version, but are reported to
// watchers. We watch such a dict from the first read of its version until it changes, and meanwhile replace its version
// by a number of ours: see dict_watchers.cpp.
inline bool has_version(PyObject* dict) noexcept {
  const auto* values = reinterpret_cast<const InstanceValues*>(reinterpret_cast<PyDictObject*>(dict)->ma_values);
  return values == nullptr || values->embedded == 0 || (*dict_version_at(dict) & kWatchedVersion) != 0;
}
inline std::uint64_t dict_version(PyObject* dict) noexcept {
  return has_version(dict) ? *dict_version_at(dict) & ~kNotVersion : begin_version(dict);
}
#else
inline bool has_version(PyObject*) noexcept { return true; }
inline std::uint64_t dict_version(PyObject* dict) noexcept {
  // From 3.12 on the lowest byte contains the dict's watchers.
  constexpr std::uint64_t watchers = PY_VERSION_HEX >= 0x030C0000 ? 0xFF : 0;
  return *dict_version_at(dict) & ~watchers;
}
#endif
#endif

// A number that is unique to this state of this type. While it is unchanged, so are the results of lookups along the
// MRO. 0 if the type has no version at the moment.
inline unsigned type_version(PyObject* type) noexcept {
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
#if PY_VERSION_HEX >= 0x030D0000  // the flag is unused
  return cls->tp_version_tag;
#else
  return PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG) ? cls->tp_version_tag : 0;
#endif
}

// The words of memory that are unchanged while type_version() is. Half of the second word is padding.
inline std::array<const void*, 2> type_version_at(PyObject* type) noexcept {
  constexpr std::size_t tag = offsetof(PyTypeObject, tp_version_tag);
  static_assert(tag % 8 == 0 && offsetof(PyTypeObject, tp_finalize) == tag + 8 && sizeof(unsigned long) == 8);
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  return {&cls->tp_flags, &cls->tp_version_tag};
}

enum class Presence : std::uint8_t {
  There,
  Missing,
  Unclear,  // only user code (an __eq__) could decide
};

struct DictLookup {
  Presence presence;
  PyObject* value;  // borrowed
};

// Types whose objects contain no references, have no weak references or finalizers, and compare without running Python.
inline bool is_plain(const PyTypeObject* type) noexcept {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || type == Py_TYPE(Py_None);
}

// Whether this object compares equal to another such object without running Python.
bool compares_quietly(PyObject* object) noexcept;

// dict's own lookup, regardless of overrides in a subclass. `quiet`: the value of compares_quietly(key).
DictLookup dict_find(PyObject* dict, PyObject* key, Py_hash_t hash, bool quiet) noexcept;

// Whether dict_version() changes with the order of the entries. False for an OrderedDict with several entries.
bool keeps_order(PyObject* dict) noexcept;

// A node of an OrderedDict's linked list of keys. The order of its entries as a plain dict is that of insertion.
// OrderedDict's own iterator hashes the keys, which may run Python.
struct OrderedKey {
  PyObject* key;
  Py_hash_t hash;
  OrderedKey* next;
  OrderedKey* previous;
};

// Iterates over the keys of a dict in its own order, without running Python. Keys are borrowed; null at the end.
class DictOrder {
 public:
  explicit DictOrder(PyObject* dict) noexcept;

  PyObject* next() noexcept;
  // The hash under which the dict stores the last key. Its `__hash__` may return another one by now.
  Py_hash_t hash() const noexcept;

 private:
  PyObject* dict_;
  const OrderedKey* node_ = nullptr;  // the next node, for an OrderedDict
  Py_ssize_t position_ = 0;           // behind the last key's entry
};

// The value of a key, which is found by identity; borrowed. Null if the key isn't in the dict.
PyObject* dict_value_of(PyObject* dict, PyObject* key) noexcept;

// The instance's __dict__, regardless of overrides in its class. For a type, the dict behind its mappingproxy.
// Borrowed; null if the object can't have a __dict__. If the __dict__ exists only as inline values, the dict is
// created.
PyObject* instance_dict(PyObject* object) noexcept;

// The word in the instance that points to its __dict__; null if there is no such pointer at the moment.
PyObject* const* instance_dict_slot(PyObject* object) noexcept;

// Looks up a name in the instance's __dict__, without creating a dict from inline values.
DictLookup instance_dict_find(PyObject* object, PyObject* name, Py_hash_t hash) noexcept;

// Looks up `name` along the MRO; borrowed, null if it isn't found.
PyObject* type_find(PyObject* type, PyObject* name) noexcept;

// The number of items of a list, tuple, dict, set, frozenset, deque, str, bytes or an instance of a subclass, by the
// base class's own __len__. -1 for other objects.
Py_ssize_t own_length(PyObject* object) noexcept;

// An item of a deque; a new reference. Null if there is no such item, or the object isn't a deque. Sets no exception.
PyObject* deque_item(PyObject* object, Py_ssize_t index) noexcept;

// Turns the garbage collector off for the lifetime of the object, so that no finalizer runs.
class NoCollection {
 public:
  NoCollection() noexcept : was_enabled_(PyGC_Disable()) {}
  ~NoCollection() {
    if (was_enabled_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  int was_enabled_;
};

}  // namespace dynamo_lite
