#include "cpython/objects.h"

#include <structmember.h>

#include <array>
#include <cstddef>

#include "refs.h"

namespace dynamo_lite {

namespace {

// The common first fields of ranges (Objects/rangeobject.c) and slices.
struct Bounds {
  PyObject_HEAD PyObject* bounds[3];  // start, stop, step
};
static_assert(offsetof(PySliceObject, start) == offsetof(Bounds, bounds) &&
              offsetof(PySliceObject, step) == offsetof(Bounds, bounds) + 2 * sizeof(PyObject*));

// A threading.local (Modules/_threadmodule.c).
#if PY_VERSION_HEX >= 0x030D0000
struct ThreadLocal {
  PyObject_HEAD PyObject* args;
  PyObject* kwargs;
  PyObject* weak_references;
  PyObject* dicts;  // keyed by thread
  PyObject* watchdogs;
};

PyObject* own_thread_dict(PyObject* object) noexcept {
  PyObject* key = PyThreadState_Get()->threading_local_key;
  PyObject* dicts = reinterpret_cast<ThreadLocal*>(object)->dicts;
  return key == nullptr || dicts == nullptr ? nullptr : PyDict_GetItemWithError(dicts, key);
}
#else
// The first fields. `key` is the key of the object's entry in a thread's dict.
struct ThreadLocal {
  PyObject_HEAD PyObject* key;
};

struct ThreadLocalPart {
  PyObject_HEAD PyObject* dict;
};

PyObject* own_thread_dict(PyObject* object) noexcept {
  PyObject* parts = PyThreadState_GetDict();
  if (parts == nullptr) return nullptr;
  PyObject* part = PyDict_GetItemWithError(parts, reinterpret_cast<ThreadLocal*>(object)->key);
  return part == nullptr ? nullptr : reinterpret_cast<ThreadLocalPart*>(part)->dict;
}
#endif

// Attributes whose getters return a pointer in the object's struct. `__name__` is one of functions and of heap types.
struct FieldPlace {
  const char* name;
  PyTypeObject* type;  // its instances have the field at `offset`; null if only heap types have the field
  std::ptrdiff_t offset;
  std::ptrdiff_t heap_type_offset = 0;  // 0 if heap types don't have the field
};
const std::array kFields{
    FieldPlace{"__name__", &PyFunction_Type, offsetof(PyFunctionObject, func_name),
               offsetof(PyHeapTypeObject, ht_name)},
    FieldPlace{"__mro__", nullptr, 0, offsetof(PyTypeObject, tp_mro)},
    FieldPlace{"__code__", &PyFunction_Type, offsetof(PyFunctionObject, func_code)},
    FieldPlace{"__defaults__", &PyFunction_Type, offsetof(PyFunctionObject, func_defaults)},
    FieldPlace{"__kwdefaults__", &PyFunction_Type, offsetof(PyFunctionObject, func_kwdefaults)},
    FieldPlace{"__closure__", &PyFunction_Type, offsetof(PyFunctionObject, func_closure)},
    FieldPlace{"__globals__", &PyFunction_Type, offsetof(PyFunctionObject, func_globals)},
    FieldPlace{"__func__", &PyMethod_Type, offsetof(PyMethodObject, im_func)},
    FieldPlace{"__self__", &PyMethod_Type, offsetof(PyMethodObject, im_self)},
};

PyObject* const* word_at(PyObject* object, std::ptrdiff_t offset) noexcept {
  return reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(object) + offset);
}

// The word of a heap type's field. Null if there is no such field, or if the metaclass overrides `type`'s descriptor.
PyObject* const* heap_type_word(PyObject* type, Field field, PyObject* name) noexcept {
  const bool is_field = field < kFields.size() && kFields[field].heap_type_offset != 0;
  if (!is_field || !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE)) return nullptr;
  const bool is_inherited = _PyType_Lookup(Py_TYPE(type), name) == _PyType_Lookup(&PyType_Type, name);
  return is_inherited ? word_at(type, kFields[field].heap_type_offset) : nullptr;
}

// The word of a member of an object whose type is immutable.
PyObject* const* member_word(PyObject* object, PyObject* name) noexcept {
  if (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE)) return nullptr;
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(object), name);
  if (!descriptor || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return nullptr;
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  if (member->type != T_OBJECT || (member->flags & READ_RESTRICTED)) return nullptr;
  return word_at(object, member->offset);
}

}  // namespace

Field field_named(PyObject* name) noexcept {
  Field at = 0;
  while (at < kFields.size() && PyUnicode_CompareWithASCIIString(name, kFields[at].name) != 0) ++at;
  return at;
}

PyObject* const* field_word(PyObject* object, Field field, PyObject* name) noexcept {
  PyObject* const* in_type = PyType_Check(object) ? heap_type_word(object, field, name) : nullptr;
  if (in_type) return in_type;
  const bool is_field = field < kFields.size() && Py_IS_TYPE(object, kFields[field].type);
  return is_field ? word_at(object, kFields[field].offset) : member_word(object, name);
}

PyObject* const* slot_word(PyObject* object, PyObject* descriptor) noexcept {
  const auto* member = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  const bool is_word = member->d_member->type == T_OBJECT_EX && PyObject_TypeCheck(object, member->d_common.d_type);
  return is_word ? word_at(object, member->d_member->offset) : nullptr;
}

PyObject* read_slot(PyObject* object, PyObject* descriptor, bool& applies) noexcept {
  auto* member = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  applies = PyObject_TypeCheck(object, member->d_common.d_type);
  return applies ? PyMember_GetOne(reinterpret_cast<char*>(object), member->d_member) : nullptr;
}

PyObject* new_function(PyObject* code, PyObject* globals, PyObject* builtins, PyObject* closure) noexcept {
  Ref function = Ref::steal(PyFunction_New(code, globals));
  if (!function) return nullptr;
  auto* made = reinterpret_cast<PyFunctionObject*>(function.get());
  if (made->func_builtins != builtins) put(made->func_builtins, Py_NewRef(builtins));
  const bool has_closure = closure != nullptr && closure != Py_None;
  if (has_closure && PyFunction_SetClosure(function.get(), closure) < 0) return nullptr;
  return function.release();
}

PyObject* const* bounds_of(PyObject* range_or_slice) noexcept {
  return reinterpret_cast<Bounds*>(range_or_slice)->bounds;
}

bool SetItems::next() noexcept { return _PySet_NextEntry(set_, &position_, &item, &hash); }

PyObject* thread_dict(PyObject* object) noexcept {
  if (!PyObject_TypeCheck(object, standard_types().local)) return nullptr;
  PyObject* dict = own_thread_dict(object);
  if (dict == nullptr) PyErr_Clear();
  return dict;
}

StandardTypes& standard_types() noexcept {
  static StandardTypes types;
  return types;
}

bool prepare_standard_types() {
  const auto find = [](const char* module, const char* name) {
    const Ref found = Ref::steal(PyImport_ImportModule(module));
    return found ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(found.get(), name)) : nullptr;
  };
  StandardTypes& types = standard_types();
  if (types.deque == nullptr)
    types = {find("collections", "deque"), find("itertools", "count"), find("_thread", "_local")};
  return types.deque != nullptr && types.count != nullptr && types.local != nullptr;
}

}  // namespace dynamo_lite
