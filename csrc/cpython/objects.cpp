#include "cpython/objects.h"

#include <structmember.h>

#include <array>
#include <cstddef>

#include "refs.h"

namespace dynamo_lite {

namespace {

// The head that ranges (Objects/rangeobject.c) and slices have in common.
struct Bounds {
  PyObject_HEAD PyObject* bounds[3];  // start, stop, step
};
static_assert(offsetof(PySliceObject, start) == offsetof(Bounds, bounds) &&
              offsetof(PySliceObject, step) == offsetof(Bounds, bounds) + 2 * sizeof(PyObject*));

// A threading.local (Modules/_threadmodule.c), as far as the key of its part in the dict of a thread.
struct ThreadLocal {
  PyObject_HEAD PyObject* key;
};

struct ThreadLocalPart {
  PyObject_HEAD PyObject* dict;
};

// The head of a function of functools.lru_cache (Modules/_functoolsmodule.c), which is a link of its own list.
struct LruCache {
  PyObject_HEAD void* previous;
  void* next;
  Py_hash_t hash;
  PyObject* key;
  PyObject* result;
  void* wrapper;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;
  Py_ssize_t misses;
};

// The type _thread._local, kept for the life of the process.
PyTypeObject*& local_type() noexcept {
  static PyTypeObject* type = nullptr;
  return type;
}

PyObject* const* function_word(PyObject* object, Field field) noexcept {
  const auto* function = reinterpret_cast<PyFunctionObject*>(object);
  switch (field) {
    case Field::Code:
      return &function->func_code;
    case Field::Defaults:
      return &function->func_defaults;
    case Field::KwDefaults:
      return &function->func_kwdefaults;
    case Field::Closure:
      return &function->func_closure;
    case Field::Globals:
      return &function->func_globals;
    default:
      return nullptr;
  }
}

PyObject* const* method_word(PyObject* object, Field field) noexcept {
  const auto* method = reinterpret_cast<PyMethodObject*>(object);
  return field == Field::Func ? &method->im_func : field == Field::Self ? &method->im_self : nullptr;
}

// Where an object of a type that nobody can change keeps a member.
PyObject* const* member_word(PyObject* object, PyObject* name) noexcept {
  if (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE)) return nullptr;
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(object), name);
  if (!descriptor || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return nullptr;
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  if (member->type != T_OBJECT || (member->flags & READ_RESTRICTED)) return nullptr;
  return reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(object) + member->offset);
}

}  // namespace

Field field_named(PyObject* name) noexcept {
  constexpr std::array kNames{"__code__",    "__defaults__", "__kwdefaults__", "__closure__",
                              "__globals__", "__func__",     "__self__"};
  std::size_t at = 0;
  while (at < kNames.size() && PyUnicode_CompareWithASCIIString(name, kNames[at]) != 0) ++at;
  return static_cast<Field>(at);
}

PyObject* const* field_word(PyObject* object, Field field, PyObject* name) noexcept {
  PyObject* const* word = nullptr;
  if (PyFunction_Check(object)) {
    word = function_word(object, field);
  } else if (PyMethod_Check(object)) {
    word = method_word(object, field);
  }
  return word ? word : member_word(object, name);
}

PyObject* const* slot_word(PyObject* object, PyObject* descriptor) noexcept {
  const auto* member = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  const bool is_word = member->d_member->type == T_OBJECT_EX && PyObject_TypeCheck(object, member->d_common.d_type);
  const char* at = reinterpret_cast<const char*>(object) + member->d_member->offset;
  return is_word ? reinterpret_cast<PyObject* const*>(at) : nullptr;
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

WeakCallbacks::WeakCallbacks(PyObject* object) noexcept
    : next_(reinterpret_cast<const PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(object))) {}

bool WeakCallbacks::next() noexcept {
  if (next_ == nullptr) return false;
  callback = next_->wr_callback;
  next_ = next_->wr_next;
  return true;
}

PyObject* thread_dict(PyObject* object) noexcept {
  PyObject* parts = PyObject_TypeCheck(object, local_type()) ? PyThreadState_GetDict() : nullptr;
  if (parts == nullptr) return nullptr;
  PyObject* part = PyDict_GetItemWithError(parts, reinterpret_cast<ThreadLocal*>(object)->key);
  if (part == nullptr) PyErr_Clear();
  return part == nullptr ? nullptr : reinterpret_cast<ThreadLocalPart*>(part)->dict;
}

void take_miss_back(PyObject* cached) noexcept {
  auto* cache = reinterpret_cast<LruCache*>(cached);
  if (cache->misses > 0) --cache->misses;  // none is left where the cache was cleared since
}

bool prepare_objects() {
  const Ref threads = Ref::steal(PyImport_ImportModule("_thread"));
  if (threads) local_type() = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(threads.get(), "_local"));
  return local_type() != nullptr;
}

}  // namespace dynamo_lite
