// What a guard reads of a tensor, straight from its TensorImpl.
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

// The facts of a tensor that a check compares, by their names in a `Difference`, with a hint for the user each.
py::dict hints_of_tensor_facts();

// The sizes of instances of torch's types whose fields guards read, by the names of the types.
py::dict sizes_of_torch_objects();

// What guards read of a tensor at the places that torch's headers named when this was built. Where the tensor itself
// is not at its place, or it has too many dimensions, nothing else is read. Throws if `object` is not a tensor.
py::dict tensor_layout(PyObject* object);

// Whether a __torch_dispatch__ written in Python may handle operators on the tensor.
bool has_python_dispatch(PyObject* tensor) noexcept;

// Whether the tensor's sizes or strides are what Python says. `object` is a tensor.
bool computes_sizes(PyObject* object) noexcept;

// Whether autograd lets an operator mutate the tensor where gradients are required: it refuses leaves, their views, and
// views that were created without gradients or by an operator with several results. False where it is no tensor.
bool accepts_writes(PyObject* object) noexcept;

// The tensor's .grad, or None; a new reference, null (no exception set) where it has no Python object and none can be
// made. `object` is a tensor.
PyObject* tensor_grad(PyObject* object) noexcept;

// The sizes and strides that a tensor has, and where in its storage it begins, in elements; good while it lasts and is
// not resized.
struct TensorShape {
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;
  std::int64_t ndim = 0;
  std::int64_t offset = -1;
};

// Of no dimension, and with the offset -1, where the object is no tensor that has them as numbers.
TensorShape shape_of(PyObject* object) noexcept;

// The facts that a graph is specialised to: dtype, device, dispatch keys, requires_grad, sizes and strides as the
// TensorImpl keeps them. What a subclass computes in Python (__torch_dispatch__ sizes) is not checked.
class TensorFacts {
 public:
  // ValueError where the tensor is one whose facts cannot be guarded (symbolic sizes, nested), TypeError where it is
  // none.
  static std::unique_ptr<TensorFacts> of(PyObject* tensor);
  // Of (tensor, dims whose sizes are free, dims whose strides are): symbolic programs say what those may be.
  // Null where it is no tuple.
  static std::unique_ptr<TensorFacts> with_free_dims(PyObject* tuple);
  // All but sizes and strides, of any tensor: what those follow from is guarded for itself. TypeError where it is none.
  static std::unique_ptr<TensorFacts> without_sizes(PyObject* tensor);

  // Whether a tensor has the same facts. Dispatch keys are compared as far as this thread's included and excluded sets
  // leave them visible. `found`, if not null, receives the differences.
  bool match(PyObject* object, Found* found) const;

  // Appends the addresses of the words that `match` depends on (and maybe of some that it does not), each in memory
  // that is alive if the words before it are what they were. False where they are unknown.
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

// Whether the first `written` of these tensors and arrays share memory with no other: neither a storage nor an
// overlapping range of addresses. Nulls and tensors without storage share with nobody. Remembers the order of
// addresses, so that it need not sort again.
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
