#include "guards/constants.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/TypeInfo.h>

#include <algorithm>
#include <cstring>

#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "hit.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

constexpr int kDeepestConstant = 64;  // nesting of tuples and frozensets

template <class T>
bool same_bits(T a, T b) noexcept {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// By int's own comparison: that of the class may be the program's, and what calls either counts the recursion.
bool same_int(PyObject* a, PyObject* b) noexcept {
  return Ref::steal(PyLong_Type.tp_richcompare(a, b, Py_EQ)).get() == Py_True;
}

bool same_bytes(PyObject* a, PyObject* b) noexcept {
  const Py_ssize_t size = PyBytes_GET_SIZE(a);
  return size == PyBytes_GET_SIZE(b) && std::memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), size) == 0;
}

bool same_items(PyObject* a, PyObject* b) noexcept {
  PyObject* const* items = tuple_items(a);
  PyObject* const* others = tuple_items(b);
  return std::equal(items, items + PyTuple_GET_SIZE(a), others, others + PyTuple_GET_SIZE(b), same_constant);
}

bool holds_item(PyObject* set, PyObject* wanted, Py_hash_t wanted_hash) noexcept {
  for (SetItems items(set); items.next();) {
    if (items.hash == wanted_hash && same_constant(wanted, items.item)) return true;
  }
  return false;
}

bool same_members(PyObject* a, PyObject* b) noexcept {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
  for (SetItems items(a); items.next();) {
    if (!holds_item(b, items.item, items.hash)) return false;
  }
  return true;
}

bool is_type_info(PyTypeObject* type) noexcept { return type == &THPFInfoType || type == &THPIInfoType; }

bool is_atom(PyTypeObject* type) noexcept {
  return is_plain(type) || type == &PyRange_Type || type == &THPDtypeType || type == &THPDeviceType ||
         type == &THPLayoutType || type == &THPMemoryFormatType || is_type_info(type) || type == Py_TYPE(Py_Ellipsis) ||
         type == Py_TYPE(Py_NotImplemented);
}

bool is_constant_within(PyObject* object, int depth) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (is_atom(type)) return true;
  if (depth == 0) return false;
  const auto are_constants = [depth](PyObject* const* items, Py_ssize_t count) {
    return std::all_of(items, items + count, [depth](PyObject* each) { return is_constant_within(each, depth - 1); });
  };
  if (type == &PyTuple_Type || type == &THPSizeType)
    return are_constants(tuple_items(object), PyTuple_GET_SIZE(object));
  if (type == &PySlice_Type) return are_constants(bounds_of(object), 3);
  if (type != &PyFrozenSet_Type) return false;
  for (SetItems items(object); items.next();) {
    if (!is_constant_within(items.item, depth - 1)) return false;
  }
  return true;
}

}  // namespace

bool is_constant(PyObject* object) noexcept { return is_constant_within(object, kDeepestConstant); }

DL_HIT bool same_constant(PyObject* expected, PyObject* found) noexcept {
  if (expected == found) return true;
  PyTypeObject* type = Py_TYPE(expected);
  if (type != Py_TYPE(found)) return false;
  if (is_plain(type)) return same_payload(expected, found);
  if (type == &PyTuple_Type || type == &THPSizeType) return same_items(expected, found);
  if (type == &PyFrozenSet_Type) return same_members(expected, found);
  if (type == &PyRange_Type || type == &PySlice_Type) {
    return std::equal(bounds_of(expected), bounds_of(expected) + 3, bounds_of(found), same_constant);
  }
  if (type == &THPDeviceType) {
    return reinterpret_cast<THPDevice*>(expected)->device == reinterpret_cast<THPDevice*>(found)->device;
  }
  if (is_type_info(type)) {
    return reinterpret_cast<THPDTypeInfo*>(expected)->type == reinterpret_cast<THPDTypeInfo*>(found)->type;
  }
  return false;
}

DL_HIT bool same_payload(PyObject* expected, PyObject* found) noexcept {
  PyTypeObject* type = Py_TYPE(expected);
  if (!PyObject_TypeCheck(found, type)) return false;
  if (type == &PyUnicode_Type) return PyUnicode_Compare(expected, found) == 0;
  if (type == &PyLong_Type) return same_int(expected, found);
  if (type == &PyFloat_Type) return same_bits(PyFloat_AS_DOUBLE(expected), PyFloat_AS_DOUBLE(found));
  if (type == &PyComplex_Type) return same_bits(PyComplex_AsCComplex(expected), PyComplex_AsCComplex(found));
  return type == &PyBytes_Type && same_bytes(expected, found);
}

bool same_memory(PyObject* expected, PyObject* found) noexcept {
  if (Py_TYPE(expected) != Py_TYPE(found) || !PyObject_CheckBuffer(expected)) return false;
  const Ref memory = Ref::steal(PyBytes_FromObject(expected));
  const Ref other = memory ? Ref::steal(PyBytes_FromObject(found)) : Ref();
  if (!other) PyErr_Clear();
  return other && same_bytes(memory.get(), other.get());
}

}  // namespace dynamo_lite
