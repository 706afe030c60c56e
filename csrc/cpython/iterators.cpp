#include "cpython/iterators.h"

#include "cpython/objects.h"
#include "cpython/version.h"

namespace dynamo_lite {

namespace {

// Iterator over a list or tuple, or a reversed list, whose index decreases. The sequence is null once it is exhausted.
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

// Iterator over a dict's keys, values or items. The dict is null once it is exhausted.
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

// itertools.count. Beyond PY_SSIZE_T_MAX it counts with Python ints.
struct Count {
  PyObject_HEAD Py_ssize_t next;
};

struct Zip {
  PyObject_HEAD Py_ssize_t count;
  PyObject* iterators;
  PyObject* result;
  int strict;
};

struct DictView {
  PyObject_HEAD PyDictObject* dict;
};

struct MappingProxy {
  PyObject_HEAD PyObject* mapping;
};

template <typename T>
const T* as(PyObject* object) noexcept {
  return reinterpret_cast<const T*>(object);
}

Reached owned_or_unreadable(PyObject* made, Ref& owned) noexcept {
  owned = Ref::steal(made);
  if (!owned) PyErr_Clear();
  return {owned.get(), static_cast<bool>(owned)};
}

// `step`: 1, or -1 for a reversed list.
Reached next_of_sequence(PyObject* iterator, Py_ssize_t ahead, Py_ssize_t step) noexcept {
  const auto* it = as<SequenceIterator>(iterator);
  const Py_ssize_t index = it->index + step * ahead;
  if (!it->sequence || index < 0 || index >= PySequence_Fast_GET_SIZE(it->sequence)) return Reached::nothing();
  return {PySequence_Fast_GET_ITEM(it->sequence, index)};
}

Reached next_of_set(PyObject* iterator, Py_ssize_t ahead) noexcept {
  const auto* it = as<SetIterator>(iterator);
  if (!it->set) return Reached::nothing();
  if (it->used != it->set->used) return Reached::unreadable();
  Py_ssize_t position = it->position;
  PyObject* key = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t i = 0; i <= ahead; ++i) {
    if (!_PySet_NextEntry(reinterpret_cast<PyObject*>(it->set), &position, &key, &hash)) return Reached::nothing();
  }
  return {key};
}

Reached next_of_range(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept {
  const auto* it = as<RangeIterator>(iterator);
#if PY_VERSION_HEX < 0x030C0000
  ahead += it->index;
#endif
  if (ahead >= it->length) return Reached::nothing();
  const unsigned long number = static_cast<unsigned long>(it->start) + static_cast<unsigned long>(ahead) * it->step;
  return owned_or_unreadable(PyLong_FromLong(static_cast<long>(number)), owned);
}

Reached next_of_dict(PyObject* iterator, Py_ssize_t ahead, bool wants_value) noexcept {
  const auto* it = as<DictIterator>(iterator);
  if (!it->dict) return Reached::nothing();
  if (it->used != it->dict->ma_used) return Reached::unreadable();
  Py_ssize_t position = it->position;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t i = 0; i <= ahead; ++i) {
    if (!PyDict_Next(reinterpret_cast<PyObject*>(it->dict), &position, &key, &value)) return Reached::nothing();
  }
  if (ahead >= it->left) return Reached::unreadable();
  return {wants_value ? value : key};
}

}  // namespace

Reached next_item(PyObject* iterator, Py_ssize_t ahead, Ref& owned) noexcept {
  PyTypeObject* kind = Py_TYPE(iterator);
  if (kind == &PyListIter_Type || kind == &PyTupleIter_Type) return next_of_sequence(iterator, ahead, 1);
  if (kind == &PyRangeIter_Type) return next_of_range(iterator, ahead, owned);
  if (kind == &PyDictIterKey_Type || kind == &PyDictIterItem_Type) return next_of_dict(iterator, ahead, false);
  if (kind == &PyDictIterValue_Type) return next_of_dict(iterator, ahead, true);
  if (kind == &PySetIter_Type) return next_of_set(iterator, ahead);
  if (kind == &PyListRevIter_Type) return next_of_sequence(iterator, ahead, -1);
  return Reached::unreadable();
}

Reached next_value(PyObject* iterator, Py_ssize_t ahead) noexcept {
  return Py_IS_TYPE(iterator, &PyDictIterItem_Type) ? next_of_dict(iterator, ahead, true) : Reached::unreadable();
}

Reached taken_from(PyObject* object) noexcept {
  PyTypeObject* kind = Py_TYPE(object);
  if (kind == &PyListIter_Type || kind == &PyListRevIter_Type) return {as<SequenceIterator>(object)->sequence};
  if (kind == &PySetIter_Type) return {reinterpret_cast<PyObject*>(as<SetIterator>(object)->set)};
  if (kind == &PyDictIterKey_Type || kind == &PyDictIterItem_Type || kind == &PyDictIterValue_Type) {
    return {reinterpret_cast<PyObject*>(as<DictIterator>(object)->dict)};
  }
  if (Py_IS_TYPE(object, &PyEnum_Type)) return {as<Enumerate>(object)->iterator};
  if (Py_IS_TYPE(object, &PyDictProxy_Type)) return {as<MappingProxy>(object)->mapping};
  if (PyDictViewSet_Check(object) || PyDictValues_Check(object)) {
    return {reinterpret_cast<PyObject*>(as<DictView>(object)->dict)};
  }
  if (!Py_IS_TYPE(object, &PyZip_Type) || as<Zip>(object)->strict) return Reached::unreadable();
  return {as<Zip>(object)->iterators};
}

Reached next_number(PyObject* iterator, Ref& owned) noexcept {
  const bool counts = Py_IS_TYPE(iterator, standard_types().count);
  if (!counts && !Py_IS_TYPE(iterator, &PyEnum_Type)) return Reached::unreadable();
  const Py_ssize_t number = counts ? as<Count>(iterator)->next : as<Enumerate>(iterator)->index;
  if (number == PY_SSIZE_T_MAX) return Reached::unreadable();
  return owned_or_unreadable(PyLong_FromSsize_t(number), owned);
}

}  // namespace dynamo_lite
