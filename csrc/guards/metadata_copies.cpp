#include "guards/metadata_copies.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

namespace dynamo_lite {

namespace py = pybind11;

namespace {

const at::Tensor& tensor_of(py::handle object) {
  if (!THPVariable_Check(object.ptr())) throw py::type_error("not a tensor");
  return THPVariable_Unpack(object.ptr());
}

// New memory on the meta device, of as many bytes.
c10::Storage memory_like(const c10::Storage& other) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), other.sym_nbytes(),
                                                            c10::GetAllocator(c10::kMeta), /*resizable=*/true));
}

// Creates a tensor like `like`, which is a plain one on the meta device, over the memory of `base`, or over new memory
// if that is None.
py::object copy_metadata(py::handle like, py::handle base) {
  const at::Tensor& tensor = tensor_of(like);
  TORCH_CHECK(tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Python), "not a plain tensor without data");
  c10::impl::ExcludeDispatchKeyGuard without_modes(c10::python_ks);  // no operator runs
  auto copy = tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(/*version=*/0),
                                                                    /*allow_tensor_metadata_change=*/true);
  copy->set_storage_keep_dtype(base.is_none() ? memory_like(tensor.storage()) : tensor_of(base).storage());
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(at::Tensor(std::move(copy))));
}

}  // namespace

void register_metadata_copies(py::module_& module) { module.def("copy_metadata", copy_metadata); }

}  // namespace dynamo_lite
