#include "guards/tensors.h"

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/TypeInfo.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "cpython/objects.h"
#include "guards/private_members.h"
#include "heap_type.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

// TensorImpl's virtual accessors would call Python for some subclasses.
DL_REVEAL(AutogradMeta, c10::TensorImpl, autograd_meta_);
DL_REVEAL(Device, c10::TensorImpl, device_opt_);
DL_REVEAL(SizesAndStrides, c10::TensorImpl, sizes_and_strides_);
DL_REVEAL(StorageOffset, c10::TensorImpl, storage_offset_);
DL_REVEAL(DataType, c10::TensorImpl, data_type_);
DL_REVEAL(KeySet, c10::TensorImpl, key_set_);
DL_REVEAL(MatchesPython, c10::TensorImpl, matches_python_custom);

const c10::TensorImpl& impl_of(PyObject* tensor) noexcept { return *THPVariable_Unpack(tensor).unsafeGetTensorImpl(); }

bool is_strided(c10::DispatchKeySet keys) noexcept {
  return !keys.has_any(c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks);
}

const torch::autograd::AutogradMeta* autograd_of(const c10::TensorImpl& impl) noexcept {
  return static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
}

// Whether gradients of a view depend on its base: the view was created without gradients.
bool may_inherit_gradients(const torch::autograd::AutogradMeta* meta) noexcept {
  return meta && !meta->requires_grad_ && !meta->grad_fn_ && meta->is_view_;
}

// What TensorImpl::requires_grad() returns, mostly without its calls.
bool requires_grad(const c10::TensorImpl& impl) noexcept {
  const auto* meta = autograd_of(impl);
  if (may_inherit_gradients(meta)) [[unlikely]]
    return meta->requires_grad();
  return meta && (meta->requires_grad_ || meta->grad_fn_);
}

c10::DispatchKeySet visible_difference(c10::DispatchKeySet a, c10::DispatchKeySet b) noexcept {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  return (a ^ b) - local.included_ - local.excluded_;
}

// A tuple of sizes or strides, with None for those that may be any.
Ref tuple_of(c10::IntArrayRef values) {
  Ref tuple = checked(Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size()))));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Ref value = values[i] < 0 ? Ref::borrow(Py_None) : int_of(static_cast<Py_ssize_t>(values[i]));
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), value.release());
  }
  return tuple;
}

Ref dtype_of(c10::ScalarType dtype) { return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))); }
Ref bool_of(bool value) { return Ref::borrow(value ? Py_True : Py_False); }

std::string device_text(const std::optional<c10::Device>& device) { return device ? device->str() : "no device"; }

// A fact of a tensor that may differ: its name, and what a user can do about it.
struct TensorFact {
  const char* name;
  const char* hint;
};
constexpr const char* kLayoutHint = "each memory layout is compiled separately: call .contiguous() before";
constexpr TensorFact kDtype{"dtype", "each dtype is compiled separately: convert the inputs before the call"};
constexpr TensorFact kDevice{"device", "each device is compiled separately: move the inputs before the call"};
constexpr TensorFact kRequiresGrad{"requires_grad", "inputs that require gradients and others have a version each"};
constexpr TensorFact kSize{"size", kLayoutHint};
constexpr TensorFact kStrides{"strides", kLayoutHint};
constexpr TensorFact kDispatchKeys{"dispatch keys", kLayoutHint};

}  // namespace

py::dict hints_of_tensor_facts() {
  py::dict hints;
  for (const TensorFact& fact : {kDtype, kDevice, kRequiresGrad, kSize, kStrides, kDispatchKeys}) {
    hints[fact.name] = fact.hint;
  }
  return hints;
}

py::dict sizes_of_torch_objects() {
  py::dict sizes;
  sizes["TensorBase"] = sizeof(THPVariable);
  sizes["device"] = sizeof(THPDevice);
  sizes["finfo"] = sizeof(THPDTypeInfo);
  sizes["iinfo"] = sizeof(THPDTypeInfo);
  return sizes;
}

py::dict tensor_layout(PyObject* object) {
  if (!is_tensor(object)) raise(PyExc_TypeError, "a %.100s is not a tensor", Py_TYPE(object)->tp_name);
  const c10::TensorImpl& impl = impl_of(object);
  py::dict read;
  read["address"] = reinterpret_cast<std::uintptr_t>(&impl);
  const py::int_ address = py::handle(object).attr("_cdata");
  if (!address.equal(read["address"])) return read;
  const auto& shape = impl.*revealed(SizesAndStrides{});
  const auto ints = [](c10::IntArrayRef values) {
    py::tuple numbers(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) numbers[i] = values[i];
    return numbers;
  };
  read["keys"] = (impl.*revealed(KeySet{})).raw_repr();
  read["dtype"] = std::string(c10::toString(c10::typeMetaToScalarType(impl.*revealed(DataType{}))));
  read["device"] = device_text(impl.*revealed(Device{}));
  if (shape.size() > 64) return read;  // what follows would be garbage
  read["sizes"] = ints(shape.sizes_arrayref());
  read["strides"] = ints(shape.strides_arrayref());
  read["offset"] = impl.*revealed(StorageOffset{});
  read["version"] = impl.version_counter().current_version();
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  read["memory"] = reinterpret_cast<std::uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
  read["bytes"] = storage->sym_nbytes().as_int_unchecked();
  const auto* meta = autograd_of(impl);
  read["requires_grad"] = meta && meta->requires_grad_;
  read["has_node"] = meta && meta->grad_fn_;
  read["is_view"] = meta && meta->is_view_;
  return read;
}

DL_HIT bool is_tensor(PyObject* object) noexcept {
  auto* tensor = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  return THPVariable_CheckExact(object) || PyType_IsSubtype(Py_TYPE(object), tensor);
}

bool has_python_dispatch(PyObject* tensor) noexcept { return impl_of(tensor).is_python_dispatch(); }

bool computes_sizes(PyObject* object) noexcept {
  return (impl_of(object).*revealed(MatchesPython{}))(c10::TensorImpl::SizesStridesPolicy::CustomStrides);
}

bool accepts_writes(PyObject* object) noexcept {
  if (!is_tensor(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  try {
    const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
    const bool is_view = meta && meta->has_bw_view();
    if (is_view && meta->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT) return false;
    if (!tensor.requires_grad()) return true;
    return !tensor.is_leaf() && !(is_view && meta->get_backward_view().base_.is_leaf());
  } catch (const std::exception&) {
    return false;
  }
}

PyObject* tensor_grad(PyObject* object) noexcept {
  try {
    return THPVariable_Wrap(impl_of(object).grad());  // at::Tensor::grad() warns if the tensor isn't a leaf
  } catch (const std::exception&) {
    PyErr_Clear();
    return nullptr;
  }
}

TensorShape shape_of(PyObject* object) noexcept {
  if (!is_tensor(object)) return {};
  const c10::TensorImpl& impl = impl_of(object);
  if (impl.has_symbolic_sizes_strides()) return {};
  const c10::impl::SizesAndStrides& numbers = impl.*revealed(SizesAndStrides{});
  return {numbers.sizes_data(), numbers.strides_data(), static_cast<std::int64_t>(numbers.size()),
          impl.*revealed(StorageOffset{})};
}

bool TensorFacts::fits(const c10::DimVector& wanted, c10::IntArrayRef found) noexcept {
  if (wanted.size() != found.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (wanted[i] != found[i] && wanted[i] != kFree) return false;
  }
  return true;
}

TensorFacts TensorFacts::read(const c10::TensorImpl& impl) {
  TensorFacts facts;
  facts.keys_ = impl.key_set();
  facts.dtype_ = c10::typeMetaToScalarType(impl.dtype());
  facts.device_ = impl.*revealed(Device{});
  facts.requires_grad_ = requires_grad(impl);
  facts.strided_ = is_strided(facts.keys_);
  const auto& shape = impl.*revealed(SizesAndStrides{});
  facts.sizes_ = shape.sizes_arrayref();
  if (facts.strided_) facts.strides_ = shape.strides_arrayref();
  return facts;
}

std::unique_ptr<TensorFacts> TensorFacts::of(PyObject* tensor) {
  auto facts = without_sizes(tensor);
  if (impl_of(tensor).has_symbolic_sizes_strides() || impl_of(tensor).is_nested()) {
    raise(PyExc_ValueError,
          "a tensor check cannot be made of a nested tensor or one with symbolic sizes; guard what it is made of");
  }
  facts->sized_ = true;
  return facts;
}

std::unique_ptr<TensorFacts> TensorFacts::without_sizes(PyObject* tensor) {
  if (!is_tensor(tensor)) {
    raise(PyExc_TypeError, "a tensor check needs an example tensor, not a %.100s", Py_TYPE(tensor)->tp_name);
  }
  auto facts = std::make_unique<TensorFacts>(read(impl_of(tensor)));
  facts->sized_ = false;
  return facts;
}

std::unique_ptr<TensorFacts> TensorFacts::with_free_dims(PyObject* tuple) {
  PyObject* tensor;
  PyObject* sizes;
  PyObject* strides;
  if (!PyTuple_Check(tuple)) return nullptr;
  if (!PyArg_ParseTuple(tuple, "OO!O!", &tensor, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) {
    throw py::error_already_set();
  }
  auto facts = of(tensor);
  const auto free = [](PyObject* dims, c10::DimVector& numbers) {
    for (const py::handle each : py::reinterpret_borrow<py::tuple>(dims)) {
      const std::size_t dim = PyLong_AsSize_t(each.ptr());
      if (PyErr_Occurred()) throw py::error_already_set();
      if (dim >= numbers.size()) raise(PyExc_ValueError, "the tensor has no dimension %zu", dim);
      numbers[dim] = kFree;
    }
  };
  free(sizes, facts->sizes_);
  free(strides, facts->strides_);
  return facts;
}

DL_HIT bool TensorFacts::fits_shape(const c10::TensorImpl& impl) const noexcept {
  const auto& shape = impl.*revealed(SizesAndStrides{});
  return !impl.has_symbolic_sizes_strides() && fits(sizes_, shape.sizes_arrayref()) &&
         (!strided_ || fits(strides_, shape.strides_arrayref()));
}

DL_HIT bool TensorFacts::match(PyObject* object, Found* found) const {
  if (!is_tensor(object)) {
    if (found) found->words = "it is not a tensor";
    return false;
  }
  const c10::TensorImpl& impl = impl_of(object);
  const bool matches = visible_difference(keys_, impl.key_set()).empty() &&
                       dtype_ == c10::typeMetaToScalarType(impl.dtype()) && device_ == impl.*revealed(Device{}) &&
                       requires_grad_ == requires_grad(impl) && (!sized_ || fits_shape(impl));
  if (!matches && found) {
    const bool is_symbolic = sized_ && impl.has_symbolic_sizes_strides();
    if (is_symbolic) found->words = "it has symbolic sizes";
    if (!is_symbolic) found->differences = differences(read(impl));
  }
  return matches;
}

bool TensorFacts::words(PyObject* object, std::vector<const void*>& words) {
  const auto add = [&words](const void* first, const void* last) {
    auto at = reinterpret_cast<std::uintptr_t>(first) & ~std::uintptr_t{7};
    for (; at <= reinterpret_cast<std::uintptr_t>(last); at += 8) words.push_back(reinterpret_cast<const void*>(at));
  };
  const auto* start = reinterpret_cast<const char*>(object);
  const auto* tensor = reinterpret_cast<const char*>(&THPVariable_Unpack(object));
  const c10::TensorImpl& impl = impl_of(object);
  if (tensor < start || tensor >= start + sizeof(THPVariable) || may_inherit_gradients(autograd_of(impl))) return false;
  add(type_word(object), tensor);
  add(&(impl.*revealed(DataType{})), &(impl.*revealed(KeySet{})));  // dtype, device, flags and dispatch keys
  const auto& shape = impl.*revealed(SizesAndStrides{});
  // First comes their count, then the address of those that are stored elsewhere.
  const auto* numbers = reinterpret_cast<const std::int64_t*>(&shape);
  add(numbers, numbers + 1);
  if (shape.size() != 0) {
    add(shape.sizes_data(), shape.sizes_data() + shape.size() - 1);
    add(shape.strides_data(), shape.strides_data() + shape.size() - 1);
  }
  const auto& autograd = impl.*revealed(AutogradMeta{});
  add(&autograd, &autograd);
  if (const auto* meta = autograd_of(impl)) {
    add(&meta->requires_grad_, &meta->requires_grad_);
    if (!meta->requires_grad_) add(&meta->grad_fn_, &meta->grad_fn_);  // either is enough
  }
  return true;
}

std::vector<Difference> TensorFacts::differences(const TensorFacts& other) const {
  std::vector<Difference> found;
  const auto add = [&found](bool differs, const TensorFact& fact, const auto& show, const auto& now, const auto& was) {
    if (differs) found.push_back({fact.name, show(now), show(was)});
  };
  const auto show_device = [](const auto& device) { return str_of(device_text(device)); };
  const auto show_keys = [](c10::DispatchKeySet keys) { return str_of(c10::toString(keys)); };
  const auto keys = visible_difference(keys_, other.keys_);
  add(dtype_ != other.dtype_, kDtype, dtype_of, other.dtype_, dtype_);
  add(device_ != other.device_, kDevice, show_device, other.device_, device_);
  add(requires_grad_ != other.requires_grad_, kRequiresGrad, bool_of, other.requires_grad_, requires_grad_);
  add(sized_ && !fits(sizes_, other.sizes_), kSize, tuple_of, other.sizes_, sizes_);
  add(sized_ && !fits(strides_, other.strides_), kStrides, tuple_of, other.strides_, strides_);
  add(!keys.empty(), kDispatchKeys, show_keys, other.keys_, keys_);
  return found;
}

namespace {

// The addresses of an object's buffer, as arrays have one. If it refuses access, all addresses.
bool buffer_range(PyObject* object, const char*& begin, const char*& end) noexcept {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO) != 0) {
    PyErr_Clear();
    begin = nullptr;
    end = reinterpret_cast<const char*>(UINTPTR_MAX);
    return true;
  }
  begin = end = static_cast<const char*>(view.buf);
  bool empty = view.itemsize == 0;
  for (int i = 0; i < view.ndim; ++i) {
    empty = empty || view.shape[i] == 0;
    const Py_ssize_t reach = view.strides[i] * (view.shape[i] - 1);
    (reach < 0 ? begin : end) += reach;
  }
  end += view.itemsize;
  PyBuffer_Release(&view);
  return !empty;
}

// The addresses of the tensor's storage. If it has no memory (meta), those of the storage's record.
bool storage_range(PyObject* object, const char*& begin, const char*& end) noexcept {
  if (object && !is_tensor(object)) return PyObject_CheckBuffer(object) && buffer_range(object, begin, end);
  if (!object) return false;
  const c10::Storage& storage = impl_of(object).unsafe_storage();
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (!impl) return false;
  begin = static_cast<const char*>(impl->_mutable_data_ptr_no_checks().get());
  const bool sized = begin && !impl->sym_nbytes().is_symbolic() && impl->sym_nbytes().as_int_unchecked() > 0;
  if (!sized) {
    begin = reinterpret_cast<const char*>(impl);
    end = begin + 1;
    return true;
  }
  end = begin + impl->sym_nbytes().as_int_unchecked();
  return true;
}

}  // namespace

bool StoragesDistinct::holds(const std::vector<PyObject*>& tensors, std::size_t written) {
  ranges_.clear();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Range range{nullptr, nullptr, i};
    if (storage_range(tensors[i], range.begin, range.end)) ranges_.push_back(range);
  }
  if (order_.size() != ranges_.size()) {
    order_.resize(ranges_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
  }
  const auto all_apart = [this] {
    for (std::size_t i = 1; i < order_.size(); ++i) {
      if (ranges_[order_[i - 1]].end > ranges_[order_[i]].begin) return false;
    }
    return true;
  };
  if (all_apart()) return true;
  std::sort(order_.begin(), order_.end(), [this](auto a, auto b) { return ranges_[a].begin < ranges_[b].begin; });
  // The ranges with the highest end so far: of all, and of those that are written to.
  const Range* any = nullptr;
  const Range* changed = nullptr;
  for (const std::size_t at : order_) {
    const Range& range = ranges_[at];
    const bool writes = range.which < written;
    const Range* before = writes ? any : changed;
    if (before && before->end > range.begin) return false;
    if (!any || range.end > any->end) any = &range;
    if (writes && (!changed || range.end > changed->end)) changed = &range;
  }
  return true;
}

}  // namespace dynamo_lite
