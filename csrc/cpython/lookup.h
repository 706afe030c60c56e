// Lookups in dicts, types and instances that run no Python, and the version numbers which say that those have not
// changed.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace dynamo_lite {

#if PY_VERSION_HEX >= 0x030D0000
// PyDictValues of Include/internal/pycore_dict.h: the values of an instance's attributes, which follow the object's
// fields, also where the instance has a dict.
struct InstanceValues {
  std::uint8_t capacity;
  std::uint8_t size;
  std::uint8_t embedded;
  std::uint8_t valid;
  PyObject* values[1];
};
#endif

#if PY_VERSION_HEX >= 0x030D0000
// Begins to watch the dict. Returns its new number, which means nothing where no watcher was left.
[[gnu::cold, gnu::noinline]] std::uint64_t begin_version(PyObject* dict) noexcept;
#endif

// has_version(): whether the dict's version changes with the dict.
// dict_version(): a number that no other state of any dict of this process has had. The dict's keys, their order
// (except an OrderedDict's, see keeps_order) and the identity of its values are unchanged while it is; it says nothing
// of what is inside the values. Of a dict without a version: another number each time.
#if PY_VERSION_HEX >= 0x030E0000
// Dicts of 3.14 have no version. They have a word for those who watch them, of which a build with the GIL uses the low
// 12 bits. We watch a dict from when its version is first read until it changes, and keep a number above those bits:
// see dict_watchers.cpp.
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
// The lowest byte says who watches the dict; four more bits count changes for the optimizer.
constexpr std::uint64_t kNotVersion = 0xFFF;
// Of numbers of ours (the interpreter counts from zero), and of those while we watch the dict.
constexpr std::uint64_t kOurVersion = std::uint64_t{1} << 63;
constexpr std::uint64_t kWatchedVersion = std::uint64_t{1} << 62;

// Assignments to attributes don't change the version of a dict whose values are the instance's own, but are reported to
// watchers. We watch such a dict from when its version is first read until it changes, and meanwhile keep a number of
// ours in the place of its version: see dict_watchers.cpp.
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
  // From 3.12 on the lowest byte says who watches the dict.
  constexpr std::uint64_t watchers = PY_VERSION_HEX >= 0x030C0000 ? 0xFF : 0;
  return *dict_version_at(dict) & ~watchers;
}
#endif
#endif

// A number that no other state of any type has had: what a lookup along the MRO finds is unchanged while it is.
// 0 where the type has none just now.
inline unsigned type_version(PyObject* type) noexcept {
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
#if PY_VERSION_HEX >= 0x030D0000  // the flag means nothing
  return cls->tp_version_tag;
#else
  return PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG) ? cls->tp_version_tag : 0;
#endif
}

// The words of memory that are unchanged while type_version() is: of the second one half is padding.
inline std::array<const void*, 2> type_version_at(PyObject* type) noexcept {
  constexpr std::size_t tag = offsetof(PyTypeObject, tp_version_tag);
  static_assert(tag % 8 == 0 && offsetof(PyTypeObject, tp_finalize) == tag + 8 && sizeof(unsigned long) == 8);
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  return {&cls->tp_flags, &cls->tp_version_tag};
}

enum class Presence : std::uint8_t {
  There,
  Missing,
  Unclear,  // only Python code of the program could decide
};

struct DictLookup {
  Presence presence;
  PyObject* value;  // borrowed
};

// Types whose objects hold nothing, can't be referenced weakly, have no finalizer, and run no Python to be compared.
inline bool is_plain(const PyTypeObject* type) noexcept {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || type == Py_TYPE(Py_None);
}

// Whether comparing this object for equality with another such one runs no Python.
bool compares_quietly(PyObject* object) noexcept;

// The dict's own lookup, whatever a subclass overrides. `quiet`: compares_quietly(key).
DictLookup dict_find(PyObject* dict, PyObject* key, Py_hash_t hash, bool quiet) noexcept;

// Whether dict_version also covers the order of the entries: not for an OrderedDict of several.
bool keeps_order(PyObject* dict) noexcept;

// An OrderedDict's list of its keys; the entries of the dict that it is as well are in the order of their first coming.
// Its own iterator hashes each key that it passes, which may run Python.
struct OrderedKey {
  PyObject* key;
  Py_hash_t hash;
  OrderedKey* next;
  OrderedKey* previous;
};

// The keys of a dict in its own order, one after the other, without running Python. Borrowed from the dict; null at the
// end.
class DictOrder {
 public:
  explicit DictOrder(PyObject* dict) noexcept;

  PyObject* next() noexcept;

 private:
  PyObject* dict_;
  const OrderedKey* node_ = nullptr;  // the next one, of an OrderedDict
  Py_ssize_t position_ = 0;
};

// The value under a key which is in the dict, found by the key's identity; borrowed, null where it is not in it.
PyObject* dict_value_of(PyObject* dict, PyObject* key) noexcept;

// The instance's __dict__, whatever its class overrides; a type's is the dict under its mappingproxy. Borrowed; null
// where it can have none. A __dict__ that exists only as inline values is made real by this, once.
PyObject* instance_dict(PyObject* object) noexcept;

// The word in the instance that points to its __dict__; null where that is kept in another way (just now).
PyObject* const* instance_dict_slot(PyObject* object) noexcept;

// The item of __dict__, without making a dict of inline values.
DictLookup instance_dict_find(PyObject* object, PyObject* name, Py_hash_t hash) noexcept;

// Where `name` is found along the MRO; borrowed, null if nowhere.
PyObject* type_find(PyObject* type, PyObject* name) noexcept;

// The number of items by the base class's own __len__ of a list, tuple, dict, set, frozenset, deque, str, bytes or a
// subclass; -1 for anything else.
Py_ssize_t own_length(PyObject* object) noexcept;

// A deque's item; a new reference, null where there is none or it is no deque. No exception is left set.
PyObject* deque_item(PyObject* object, Py_ssize_t index) noexcept;

// No garbage is collected (so that no finalizer runs) while one of these is alive.
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
