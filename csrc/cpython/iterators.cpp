#include "cpython/iterators.h"

#include "cpython/version.h"

namespace dynamo_lite {

namespace {

// Of a list, tuple, string or bytes, and of a reversed list, where the index falls. The sequence is null once the end
// was met.
struct SequenceIterator {
  PyObject_HEAD Py_ssize_t index;
  PyObject* sequence;
};

struct RangeIterator {
  PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
      long index;
#endif
  long start;
  long step;
  long length;
};

// Of a dict's keys, values or items. The dict is null once the end was met.
struct DictIterator {
  PyObject_HEAD PyDictObject* dict;
  Py_ssize_t used;
  Py_ssize_t position;
  PyObject* result;
  Py_ssize_t left;
};

struct SetIterator {
  PyObject_HEAD PySetObject* set;
  Py_ssize_t used;
  Py_ssize_t position;
  Py_ssize_t left;
};

struct Enumerate {
  PyObject_HEAD Py_ssize_t index;
  PyObject* iterator;
};

// Of itertools; beyond the largest index it counts in objects.
struct Count {
  PyObject_HEAD Py_ssize_t next;
};

struct Zip {
  PyObject_HEAD Py_ssize_t count;
  PyObject* iterators;
  PyObject* result;
  int strict;
};

struct MappingProxy {
  PyObject_HEAD PyObject* mapping;
};

constexpr Peeked kNoEntry{};
constexpr Peeked kUnreadable{nullptr, false};

template <typename T>
const T* as(PyObject* object) noexcept {
  return reinterpret_cast<const T*>(object);
}

Peeked next_of_list(PyObject* iterator, Py_ssize_t ahead) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  if (!it->sequence || it->index + ahead >= PyList_GET_SIZE(it->sequence)) return kNoEntry;
  return {PyList_GET_ITEM(it->sequence, it->index + ahead)};
}

Peeked next_of_tuple(PyObject* iterator, Py_ssize_t ahead) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  if (!it->sequence || it->index + ahead >= PyTuple_GET_SIZE(it->sequence)) return kNoEntry;
  return {PyTuple_GET_ITEM(it->sequence, it->index + ahead)};
}

Peeked next_of_reversed(PyObject* iterator, Py_ssize_t ahead) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  const Py_ssize_t index = it->index - ahead;
  if (!it->sequence || index < 0 || index >= PyList_GET_SIZE(it->sequence)) return kNoEntry;
  return {PyList_GET_ITEM(it->sequence, index)};
}

Peeked owned_or_unreadable(PyObject* made, Ref& owned) noexcept {
  owned = Ref::steal(made);
  if (!owned) PyErr_Clear();
  return {owned.get(), static_cast<bool>(owned)};
}

Peeked next_of_string(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  if (!it->sequence || it->index + ahead >= PyUnicode_GET_LENGTH(it->sequence)) return kNoEntry;
  const Py_UCS4 character = PyUnicode_READ_CHAR(it->sequence, it->index + ahead);
  return owned_or_unreadable(PyUnicode_FromOrdinal(static_cast<int>(character)), owned);
}

Peeked next_of_bytes(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  if (!it->sequence || it->index + ahead >= PyBytes_GET_SIZE(it->sequence)) return kNoEntry;
  const auto byte = static_cast<unsigned char>(PyBytes_AS_STRING(it->sequence)[it->index + ahead]);
  return owned_or_unreadable(PyLong_FromLong(byte), owned);
}

Peeked next_of_set(PyObject* iterator, Py_ssize_t ahead) noexcept {
  const auto* it = as<SetIterator>(iterator);
  if (!it->set) return kNoEntry;
  if (it->used != it->set->used) return kUnreadable;
  Py_ssize_t position = it->position;
  PyObject* key = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t i = 0; i <= ahead; ++i) {
    if (!_PySet_NextEntry(reinterpret_cast<PyObject*>(it->set), &position, &key, &hash)) return kNoEntry;
  }
  return {key};
}

// Found at import, for that may run Python. Kept for the life of the process.
PyTypeObject* ascii_iterator = nullptr;  // strings have two kinds, one of which has no name in the headers
PyTypeObject* count_type = nullptr;

Peeked next_of_range(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept {
  const auto* it = as<RangeIterator>(iterator);
#if PY_VERSION_HEX < 0x030C0000
  ahead += it->index;
#endif
  if (ahead >= it->length) return kNoEntry;
  const unsigned long number = static_cast<unsigned long>(it->start) + static_cast<unsigned long>(ahead) * it->step;
  return owned_or_unreadable(PyLong_FromLong(static_cast<long>(number)), owned);
}

Peeked next_of_dict(PyObject* iterator, Py_ssize_t ahead, bool wants_value) noexcept {
  const auto* it = as<DictIterator>(iterator);
  if (!it->dict) return kNoEntry;
  if (it->used != it->dict->ma_used) return kUnreadable;
  Py_ssize_t position = it->position;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t i = 0; i <= ahead; ++i) {
    if (!PyDict_Next(reinterpret_cast<PyObject*>(it->dict), &position, &key, &value)) return kNoEntry;
  }
  if (ahead >= it->left) return kUnreadable;
  return {wants_value ? value : key};
}

}  // namespace

Peeked next_item(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept {
  PyTypeObject* kind = Py_TYPE(iterator);
  if (kind == &PyListIter_Type) return next_of_list(iterator, ahead);
  if (kind == &PyTupleIter_Type) return next_of_tuple(iterator, ahead);
  if (kind == &PyRangeIter_Type) return next_of_range(iterator, ahead, owned);
  if (kind == &PyDictIterKey_Type || kind == &PyDictIterItem_Type) return next_of_dict(iterator, ahead, false);
  if (kind == &PyDictIterValue_Type) return next_of_dict(iterator, ahead, true);
  if (kind == &PySetIter_Type) return next_of_set(iterator, ahead);
  if (kind == &PyListRevIter_Type) return next_of_reversed(iterator, ahead);
  if (kind == &PyBytesIter_Type) return next_of_bytes(iterator, ahead, owned);
  if (kind == ascii_iterator || kind == &PyUnicodeIter_Type) return next_of_string(iterator, ahead, owned);
  return kUnreadable;
}

Peeked next_value(PyObject* iterator, Py_ssize_t ahead) noexcept {
  return Py_IS_TYPE(iterator, &PyDictIterItem_Type) ? next_of_dict(iterator, ahead, true) : kUnreadable;
}

Peeked taken_from(PyObject* object) noexcept {
  PyTypeObject* kind = Py_TYPE(object);
  if (kind == &PyListIter_Type || kind == &PyListRevIter_Type) return {as<SequenceIterator>(object)->sequence};
  if (kind == &PySetIter_Type) return {reinterpret_cast<PyObject*>(as<SetIterator>(object)->set)};
  if (kind == &PyDictIterKey_Type || kind == &PyDictIterItem_Type || kind == &PyDictIterValue_Type) {
    return {reinterpret_cast<PyObject*>(as<DictIterator>(object)->dict)};
  }
  if (Py_IS_TYPE(object, &PyEnum_Type)) return {as<Enumerate>(object)->iterator};
  if (Py_IS_TYPE(object, &PyDictProxy_Type)) return {as<MappingProxy>(object)->mapping};
  if (PyDictViewSet_Check(object) || PyDictValues_Check(object)) {
    return {reinterpret_cast<PyObject*>(as<_PyDictViewObject>(object)->dv_dict)};
  }
  if (!Py_IS_TYPE(object, &PyZip_Type) || as<Zip>(object)->strict) return kUnreadable;
  return {as<Zip>(object)->iterators};
}

Peeked next_number(PyObject* iterator, Ref& owned) noexcept {
  const bool counts = Py_IS_TYPE(iterator, count_type);
  if (!counts && !Py_IS_TYPE(iterator, &PyEnum_Type)) return kUnreadable;
  const Py_ssize_t number = counts ? as<Count>(iterator)->next : as<Enumerate>(iterator)->index;
  if (number == PY_SSIZE_T_MAX) return kUnreadable;
  return owned_or_unreadable(PyLong_FromSsize_t(number), owned);
}

bool prepare_iterators() {
  const Ref text = Ref::steal(PyUnicode_FromString(""));
  const Ref iterator = Ref::steal(text ? PyObject_GetIter(text.get()) : nullptr);
  const Ref module = Ref::steal(iterator ? PyImport_ImportModule("itertools") : nullptr);
  count_type = module ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module.get(), "count")) : nullptr;
  if (count_type != nullptr) ascii_iterator = Py_TYPE(iterator.get());
  return count_type != nullptr;
}

}  // namespace dynamo_lite
