#include "hook/torch_hook.h"

#include "hook/installation.h"

namespace dynamo_lite {

namespace {

// Calls a function of torch.compile's hook. Empty, and no exception set, where that isn't there.
Ref call_torch_hook(const char* name, PyObject* argument = nullptr) noexcept {
  const Ref path = Ref::steal(PyUnicode_InternFromString("torch._C._dynamo.eval_frame"));
  const Ref module = path ? Ref::steal(PyImport_GetModule(path.get())) : Ref();
  const Ref function = module ? Ref::steal(PyObject_GetAttrString(module.get(), name)) : Ref();
  Ref result = function ? Ref::steal(PyObject_CallFunctionObjArgs(function.get(), argument, nullptr)) : Ref();
  if (!result) PyErr_Clear();
  return result;
}

}  // namespace

bool torch_compiles_here() noexcept {
  if (is_unwatched()) [[likely]]
    return false;
  const Ref callback = call_torch_hook("get_eval_frame_callback");
  return callback && callback.get() != Py_None;
}

Ref TorchOut::exchange(PyObject* callback) noexcept {
  const SavedError error;
  return call_torch_hook("set_eval_frame", callback);
}

}  // namespace dynamo_lite
