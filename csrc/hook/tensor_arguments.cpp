#include "hook/tensor_arguments.h"

#include <algorithm>
#include <cstring>

#include "guards/tensors.h"

namespace dynamo_lite {

namespace {

constexpr Py_ssize_t kItemsLookedAt = 4;

bool is_array(PyTypeObject* kind) noexcept { return std::strcmp(kind->tp_name, "numpy.ndarray") == 0; }

[[gnu::noinline]] bool has_tensor_item(PyObject* container, int depth) noexcept;

// As below, for containers nested up to `depth` levels.
inline bool holds_tensor(PyObject* value, int depth) noexcept {
  PyTypeObject* kind = Py_TYPE(value);
  if (kind->tp_flags & (Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_UNICODE_SUBCLASS)) return false;
  if (kind->tp_flags & (Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS)) {
    return depth != 0 && has_tensor_item(value, depth - 1);
  }
  if (kind->tp_flags & Py_TPFLAGS_HEAPTYPE) return is_tensor(value);
  return value != Py_None && kind != &PyFloat_Type && is_array(kind);
}

bool has_tensor_item(PyObject* container, int depth) noexcept {
  if (!PyDict_Check(container)) {
    PyObject* const* items = PySequence_Fast_ITEMS(container);
    const Py_ssize_t count = std::min(PySequence_Fast_GET_SIZE(container), kItemsLookedAt);
    return std::any_of(items, items + count, [&](PyObject* item) { return holds_tensor(item, depth); });
  }
  PyObject* item = nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t seen = 0; seen < kItemsLookedAt && PyDict_Next(container, &at, nullptr, &item); ++seen) {
    if (holds_tensor(item, depth)) return true;
  }
  return false;
}

}  // namespace

bool holds_tensor(PyObject* value) noexcept { return holds_tensor(value, 2); }

}  // namespace dynamo_lite
