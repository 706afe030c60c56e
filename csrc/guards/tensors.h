// Facts of tensors, read from the fields of their TensorImpl.
//
// Owns nothing but numbers. Borrows tensors for the time of a call.
#pragma once

#include <pybind11/pybind11.h>

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guards/found.h"

namespace c10 {
struct TensorImpl;
}

namespace dynamo_lite {

namespace py = pybind11;

// Whether the object is a tensor; no __instancecheck__ is run.
bool is_tensor(PyObject* object) noexcept;

// The names of the facts that a check compares, as in a `Difference`, each with a hint for the user.
py::dict hints_of_tensor_facts();

// For torch's types whose fields guards read: the sizes of their instances, by the names of the types.
py::dict sizes_of_torch_objects();

// What guards read from a tensor at the offsets that torch's headers had when this was built. If that isn't where the
// tensor is, or if it has too many dimensions, nothing else is read. Throws if `object` is not a tensor.
py::dict tensor_layout(PyObject* object);

// Whether a __torch_dispatch__ written in Python may handle operators on the tensor.
bool has_python_dispatch(PyObject* tensor) noexcept;

// Whether Python code computes the tensor's sizes or strides. `object` is a tensor.
bool computes_sizes(PyObject* object) noexcept;

// Whether autograd lets an operator mutate the tensor where gradients are required: it refuses leaves, their views, and
// views that were created without gradients or by an operator with several results. False for other objects.
bool accepts_writes(PyObject* object) noexcept;

// The tensor's .grad, or None; a new reference. Null, with no exception set, if it has no Python object and none can be
// created. `object` is a tensor.
PyObject* tensor_grad(PyObject* object) noexcept;

// A tensor's sizes and strides, and its offset in the storage, in elements. Valid until the tensor is resized or
// deallocated.
struct TensorShape {
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;
  std::int64_t ndim = 0;
  std::int64_t offset = -1;
};

// Without dimensions, and with the offset -1, if the object is not a tensor or has symbolic sizes.
TensorShape shape_of(PyObject* object) noexcept;

// The facts that a graph is specialized for: dtype, device, dispatch keys, requires_grad, sizes and strides as the
// TensorImpl has them. Sizes that a subclass computes in Python (__torch_dispatch__) are not checked.
class TensorFacts {
 public:
  // Throws ValueError if the tensor can't be guarded (symbolic sizes, nested), TypeError for other objects.
  static std::unique_ptr<TensorFacts> of(PyObject* tensor);
  // Of a tuple (tensor, dims with any size, dims with any stride), which symbolic programs restrict. Null for other
  // objects.
  static std::unique_ptr<TensorFacts> with_free_dims(PyObject* tuple);
  // All facts but sizes and strides, of any tensor: the inner tensors from which these follow have guards of their own.
  // Throws TypeError for other objects.
  static std::unique_ptr<TensorFacts> without_sizes(PyObject* tensor);

  // Whether a tensor has the same facts. Dispatch keys are compared as far as this thread's included and excluded sets
  // leave them visible. `found`, if not null, receives the differences.
  bool match(PyObject* object, Found* found) const;

  // Appends the addresses of the words that `match` depends on (and maybe of others). Each is in memory that is alive
  // if the words before it are unchanged. False if the addresses are unknown.
  static bool words(PyObject* tensor, std::vector<const void*>& words);

 private:
  static constexpr std::int64_t kFree = -1;  // in place of a size or a stride

  [[gnu::cold, gnu::noinline]] static TensorFacts read(const c10::TensorImpl& impl);
  static bool fits(const c10::DimVector& wanted, c10::IntArrayRef found) noexcept;
  bool fits_shape(const c10::TensorImpl& impl) const noexcept;
  [[gnu::cold, gnu::noinline]] std::vector<Difference> differences(const TensorFacts& other) const;

  c10::DispatchKeySet keys_;
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
  std::optional<c10::Device> device_;
  bool requires_grad_ = false;
  bool strided_ = true;
  bool sized_ = true;
  c10::DimVector sizes_;    // elements
  c10::DimVector strides_;  // elements; empty where the layout has none
};

// Whether none of the first `written` of these tensors and arrays shares memory with another one: a storage, or a range
// of addresses. Nulls and tensors without storage share none. Remembers the order of addresses, so that it is rarely
// sorted again.
class StoragesDistinct {
 public:
  [[gnu::noinline]] bool holds(const std::vector<PyObject*>& tensors, std::size_t written);

 private:
  struct Range {
    const char* begin;
    const char* end;
    std::size_t which;
  };
  std::vector<Range> ranges_;
  std::vector<std::size_t> order_;
};

}  // namespace dynamo_lite
