#include "guards/constants.h"

#include <structmember.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/TypeInfo.h>

#include <array>
#include <cstring>

#include "prefetch.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

constexpr int kDeepest = 64;  // nesting of tuples and frozensets
constexpr std::size_t kLine = 100;

struct RangeParts {
  std::array<PyMemberDef*, 3> members{};  // start, stop, step; of static storage
};

RangeParts& range_parts() noexcept {
  static RangeParts parts;
  return parts;
}

template <class T>
bool same_bits(T a, T b) noexcept {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

bool same_int(PyObject* a, PyObject* b) noexcept {
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;  // of exact ints this can neither fail nor allocate
}

bool same_bytes(PyObject* a, PyObject* b) noexcept {
  const Py_ssize_t size = PyBytes_GET_SIZE(a);
  return size == PyBytes_GET_SIZE(b) && std::memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), size) == 0;
}

bool same_items(PyObject* a, PyObject* b) noexcept {
  const Py_ssize_t size = PyTuple_GET_SIZE(a);
  if (size != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  }
  return true;
}

bool holds_item(PyObject* set, PyObject* wanted, Py_hash_t wanted_hash) noexcept {
  Py_ssize_t position = 0;
  PyObject* item;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (hash == wanted_hash && same_constant(wanted, item)) return true;
  }
  return false;
}

bool same_members(PyObject* a, PyObject* b) noexcept {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
  Py_ssize_t position = 0;
  PyObject* item;
  Py_hash_t hash;
  while (_PySet_NextEntry(a, &position, &item, &hash)) {
    if (!holds_item(b, item, hash)) return false;
  }
  return true;
}

PyObject* range_part(PyObject* range, std::size_t which) noexcept {
  const char* place = reinterpret_cast<const char*>(range) + range_parts().members[which]->offset;
  return *reinterpret_cast<PyObject* const*>(place);
}

bool same_range(PyObject* a, PyObject* b) noexcept {
  for (std::size_t i = 0; i < 3; ++i) {
    if (!same_constant(range_part(a, i), range_part(b, i))) return false;
  }
  return true;
}

bool same_slice(PyObject* a, PyObject* b) noexcept {
  const auto* one = reinterpret_cast<PySliceObject*>(a);
  const auto* other = reinterpret_cast<PySliceObject*>(b);
  return same_constant(one->start, other->start) && same_constant(one->stop, other->stop) &&
         same_constant(one->step, other->step);
}

bool is_type_info(PyTypeObject* type) noexcept { return type == &THPFInfoType || type == &THPIInfoType; }

bool is_atom(PyTypeObject* type) noexcept {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == Py_TYPE(Py_None) || type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type ||
         type == &THPDtypeType || type == &THPDeviceType || type == &THPLayoutType || type == &THPMemoryFormatType ||
         is_type_info(type) || type == Py_TYPE(Py_Ellipsis) || type == Py_TYPE(Py_NotImplemented);
}

bool is_constant_within(PyObject* object, int depth) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (is_atom(type)) return true;
  if (depth == 0) return false;
  if (type == &PyTuple_Type || type == &THPSizeType) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!is_constant_within(PyTuple_GET_ITEM(object, i), depth - 1)) return false;
    }
    return true;
  }
  if (type == &PySlice_Type) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_constant_within(slice->start, depth - 1) && is_constant_within(slice->stop, depth - 1) &&
           is_constant_within(slice->step, depth - 1);
  }
  if (type != &PyFrozenSet_Type) return false;
  Py_ssize_t position = 0;
  PyObject* item;
  Py_hash_t hash;
  while (_PySet_NextEntry(object, &position, &item, &hash)) {
    if (!is_constant_within(item, depth - 1)) return false;
  }
  return true;
}

std::string shortened(std::string text) {
  if (text.size() > kLine) {
    text.resize(kLine);
    text += "...";
  }
  return text;
}

std::string as_text(PyObject* string) {  // steals
  if (!string) {
    PyErr_Clear();
    return "?";
  }
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(string, &size);
  if (!text) PyErr_Clear();
  std::string copied = text ? std::string(text, size) : "?";
  drop(string);
  return copied;
}

}  // namespace

bool is_constant(PyObject* object) noexcept { return is_constant_within(object, kDeepest); }

DL_HIT bool same_constant(PyObject* expected, PyObject* found) noexcept {
  if (expected == found) return true;
  PyTypeObject* type = Py_TYPE(expected);
  if (type != Py_TYPE(found)) return false;
  if (type == &PyUnicode_Type) return PyUnicode_Compare(expected, found) == 0;
  if (type == &PyLong_Type) return same_int(expected, found);
  if (type == &PyFloat_Type) return same_bits(PyFloat_AS_DOUBLE(expected), PyFloat_AS_DOUBLE(found));
  if (type == &PyComplex_Type) {
    return same_bits(reinterpret_cast<PyComplexObject*>(expected)->cval,
                     reinterpret_cast<PyComplexObject*>(found)->cval);
  }
  if (type == &PyBytes_Type) return same_bytes(expected, found);
  if (type == &PyTuple_Type || type == &THPSizeType) return same_items(expected, found);
  if (type == &PyFrozenSet_Type) return same_members(expected, found);
  if (type == &PyRange_Type) return same_range(expected, found);
  if (type == &PySlice_Type) return same_slice(expected, found);
  if (type == &THPDeviceType) {
    return reinterpret_cast<THPDevice*>(expected)->device == reinterpret_cast<THPDevice*>(found)->device;
  }
  if (is_type_info(type)) {
    return reinterpret_cast<THPDTypeInfo*>(expected)->type == reinterpret_cast<THPDTypeInfo*>(found)->type;
  }
  return false;
}

bool same_payload(PyObject* expected, PyObject* found) noexcept {
  PyTypeObject* type = Py_TYPE(expected);
  if (!PyObject_TypeCheck(found, type)) return false;
  if (type == &PyUnicode_Type) return PyUnicode_Compare(expected, found) == 0;
  if (type == &PyLong_Type) {  // int's own comparison, not the one of the class
    return Ref::steal(PyLong_Type.tp_richcompare(expected, found, Py_EQ)).get() == Py_True;
  }
  if (type == &PyFloat_Type) return same_bits(PyFloat_AS_DOUBLE(expected), PyFloat_AS_DOUBLE(found));
  if (type == &PyComplex_Type) {
    return same_bits(reinterpret_cast<PyComplexObject*>(expected)->cval,
                     reinterpret_cast<PyComplexObject*>(found)->cval);
  }
  return type == &PyBytes_Type && same_bytes(expected, found);
}

std::string in_words(PyObject* object) {
  if (!object) return "nothing";
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object)) return std::string("the class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyFunction_Check(object)) {
    return "the function " + as_text(Py_NewRef(reinterpret_cast<PyFunctionObject*>(object)->func_qualname));
  }
  if (type == Py_TYPE(Py_None)) return "None";
  const bool is_collection = type == &PyFrozenSet_Type || type == &PyTuple_Type;
  if (is_constant(object) && (!is_collection || PyObject_Size(object) <= 16)) {
    return shortened(std::string(type->tp_name) + " " + as_text(PyObject_Repr(object)));
  }
  return std::string("an object of type ") + type->tp_name;
}

bool prepare_constants() {
  constexpr std::array<const char*, 3> kNames{"start", "stop", "step"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    PyObject* descriptor = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyRange_Type), kNames[i]);
    if (!descriptor) return false;
    const bool is_member = Py_IS_TYPE(descriptor, &PyMemberDescr_Type);
    if (is_member) range_parts().members[i] = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    drop(descriptor);  // range keeps it
    if (!is_member) {
      PyErr_SetString(PyExc_ImportError, "this interpreter's range keeps its start, stop and step in an unknown way");
      return false;
    }
  }
  return true;
}

}  // namespace dynamo_lite
