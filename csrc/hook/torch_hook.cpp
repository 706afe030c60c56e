#include "hook/torch_hook.h"

#include "hook/installation.h"

namespace dynamo_lite {

namespace {

// Calls a function of torch.compile's hook. Empty, without an exception set, if the hook isn't loaded or the call
// fails.
Ref call_torch_compile(const char* name, PyObject* argument = nullptr) noexcept {
  const Ref path = Ref::steal(PyUnicode_InternFromString("torch._C._dynamo.eval_frame"));
  const Ref module = path ? Ref::steal(PyImport_GetModule(path.get())) : Ref();
  const Ref function = module ? Ref::steal(PyObject_GetAttrString(module.get(), name)) : Ref();
  Ref result = function ? Ref::steal(PyObject_CallFunctionObjArgs(function.get(), argument, nullptr)) : Ref();
  if (!result) PyErr_Clear();
  return result;
}

}  // namespace

bool torch_compiles_here() noexcept {
  if (!has_other_hook()) [[likely]]
    return false;
  const Ref callback = call_torch_compile("get_eval_frame_callback");
  return callback && callback.get() != Py_None;
}

Ref TorchCompileOffScope::exchange(PyObject* callback) noexcept {
  const SavedError error;
  return call_torch_compile("set_eval_frame", callback);
}

}  // namespace dynamo_lite
