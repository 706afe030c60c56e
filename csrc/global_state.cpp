#include "global_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "refs.h"
#include "versions.h"

namespace dynamo_lite {

namespace {

std::string show_bool(std::int64_t value) { return value ? "on" : "off"; }
std::string show_number(std::int64_t value) { return std::to_string(value); }
std::string show_dtype(std::int64_t value) { return c10::toString(static_cast<c10::ScalarType>(value)); }
std::string show_precision(std::int64_t value) {
  constexpr std::array<const char*, 3> kNames{"highest", "high", "medium"};
  return value >= 0 && value < 3 ? kNames[static_cast<std::size_t>(value)] : "set in two conflicting ways";
}
std::string show_keys(std::int64_t value) {
  return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, static_cast<std::uint64_t>(value)));
}

// One thing that is read, remembered and compared.
struct Fact {
  const char* name;
  std::int64_t (*read)();
  std::string (*show)(std::int64_t);
};

at::Context& context() { return at::globalContext(); }

// torch refuses to read precisions that were set through its old and its new names at once.
template <class Read>
std::int64_t or_conflict(Read read) {
  try {
    return static_cast<std::int64_t>(read());
  } catch (const c10::Error&) {
    return -1;
  }
}

template <c10::DeviceType device>
std::int64_t autocast_on() {
  return at::autocast::is_autocast_enabled(device);
}

template <c10::DeviceType device>
std::int64_t autocast_dtype() {
  return static_cast<std::int64_t>(at::autocast::get_autocast_dtype(device));
}

// Of _functorch, which torch's own headers do not let be used from C++; owned for the life of the process.
PyObject*& interpreter_stack_getter() {
  static PyObject* function = nullptr;
  return function;
}

bool in_functorch() {
  return c10::impl::tls_local_dispatch_key_set().included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

// The kinds of the transforms in force, outermost first, as one number: digits base 32. 0 outside all, -1 if unknown.
std::int64_t functorch_transforms() {
  if (!in_functorch()) return 0;
  NoCollection no_collection;
  std::int64_t code = 0;
  const Ref stack = Ref::steal(PyObject_CallNoArgs(interpreter_stack_getter()));
  for (Py_ssize_t i = 0; stack && PyList_Check(stack.get()) && i < PyList_GET_SIZE(stack.get()); ++i) {
    const Ref key = Ref::steal(PyObject_CallMethod(PyList_GET_ITEM(stack.get(), i), "key", nullptr));
    const Ref number = Ref::steal(key ? PyNumber_Long(key.get()) : nullptr);
    if (!number) break;
    code = code * 32 + PyLong_AsLong(number.get()) + 1;
  }
  if (!PyErr_Occurred()) return code;
  PyErr_Clear();
  return -1;
}

#define DYNAMO_LITE_AUTOCAST(device, name) \
  Fact{"autocast on " name, autocast_on<c10::DeviceType::device>, show_bool}, \
      Fact { "autocast dtype on " name, autocast_dtype<c10::DeviceType::device>, show_dtype }

const std::array kFacts{
    Fact{"grad mode", [] { return std::int64_t{c10::AutogradState::get_tls_state().get_grad_mode()}; }, show_bool},
    Fact{"inference mode", [] { return std::int64_t{c10::AutogradState::get_tls_state().get_inference_mode()}; },
         show_bool},
    Fact{"forward grad mode", [] { return std::int64_t{c10::AutogradState::get_tls_state().get_fw_grad_mode()}; },
         show_bool},
    DYNAMO_LITE_AUTOCAST(CPU, "cpu"),
    DYNAMO_LITE_AUTOCAST(CUDA, "cuda"),
    DYNAMO_LITE_AUTOCAST(XPU, "xpu"),
    DYNAMO_LITE_AUTOCAST(MPS, "mps"),
    DYNAMO_LITE_AUTOCAST(MTIA, "mtia"),
    DYNAMO_LITE_AUTOCAST(HPU, "hpu"),
    DYNAMO_LITE_AUTOCAST(XLA, "xla"),
    DYNAMO_LITE_AUTOCAST(PrivateUse1, "the private backend"),
    Fact{"autocast cache", [] { return std::int64_t{at::autocast::is_autocast_cache_enabled()}; }, show_bool},
    Fact{"default dtype", [] { return static_cast<std::int64_t>(c10::get_default_dtype_as_scalartype()); }, show_dtype},
    Fact{"deterministic algorithms", [] { return std::int64_t{context().deterministicAlgorithms()}; }, show_bool},
    Fact{"deterministic algorithms, warn only",
         [] { return std::int64_t{context().deterministicAlgorithmsWarnOnly()}; }, show_bool},
    Fact{"deterministic fill of uninitialized memory",
         [] { return std::int64_t{context().deterministicFillUninitializedMemory()}; }, show_bool},
    Fact{"float32 matmul precision", [] { return or_conflict([] { return context().float32MatmulPrecision(); }); },
         show_precision},
    Fact{"tf32 in cuBLAS", [] { return or_conflict([] { return context().allowTF32CuBLAS(); }); }, show_bool},
    Fact{"tf32 in cuDNN", [] { return or_conflict([] { return context().allowTF32CuDNN(); }); }, show_bool},
    Fact{"fp16 reduction in cuBLAS", [] { return static_cast<std::int64_t>(context().allowFP16ReductionCuBLAS()); },
         show_number},
    Fact{"bf16 reduction in cuBLAS", [] { return static_cast<std::int64_t>(context().allowBF16ReductionCuBLAS()); },
         show_number},
    Fact{"flash attention", [] { return std::int64_t{context().userEnabledFlashSDP()}; }, show_bool},
    Fact{"memory efficient attention", [] { return std::int64_t{context().userEnabledMemEfficientSDP()}; }, show_bool},
    Fact{"math attention", [] { return std::int64_t{context().userEnabledMathSDP()}; }, show_bool},
    Fact{"cuDNN attention", [] { return std::int64_t{context().userEnabledCuDNNSDP()}; }, show_bool},
    Fact{"number of threads", [] { return std::int64_t{at::get_num_threads()}; }, show_number},
    Fact{"torch function",
         [] { return static_cast<std::int64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()); }, show_number},
    Fact{"depth of the torch function mode stack", [] { return at::impl::PythonTorchFunctionTLS::stack_len(); },
         show_number},
    Fact{"depth of the torch dispatch mode stack", [] { return c10::impl::TorchDispatchModeTLS::stack_len(); },
         show_number},
    Fact{"functorch's transforms", functorch_transforms, show_number},
    Fact{"dispatch keys included",
         [] { return static_cast<std::int64_t>(c10::impl::tls_local_dispatch_key_set().included_.raw_repr()); },
         show_keys},
    Fact{"dispatch keys excluded",
         [] { return static_cast<std::int64_t>(c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr()); },
         show_keys},
};
#undef DYNAMO_LITE_AUTOCAST

using Values = std::array<std::int64_t, kFacts.size()>;

// A mode on one of the stacks: the same one is meant, or, for the mode that `torch.device` used as a context and
// set_default_device put there, one of the same device. Held weakly: a dead mode is no mode.
struct Mode {
  Ref reference;  // a weak reference
  std::optional<c10::Device> device;
};

struct Snapshot {
  Values values{};
  std::vector<Mode> modes;  // torch function modes, then torch dispatch modes, outermost first
};

struct StateObject {
  PyObject_HEAD
  Snapshot* snapshot;  // owned
};

struct Types {
  PyTypeObject* state = nullptr;           // owned for the life of the process
  PyTypeObject* device_context = nullptr;  // likewise
  Ref device_name;
};

Types& types() {
  static auto* made = new Types;  // outlives the interpreter: its references are never given back
  return *made;
}

std::optional<c10::Device> default_device(PyObject* mode) noexcept {
  if (Py_TYPE(mode) != types().device_context) return std::nullopt;
  PyObject* name = types().device_name.get();
  PyObject* device = instance_dict_find(mode, name, PyObject_Hash(name)).value;
  if (!device || !THPDevice_Check(device)) return std::nullopt;
  return reinterpret_cast<THPDevice*>(device)->device;
}

// Calls visit(mode) for each mode in force, outermost first, until it returns false; whether it never did.
template <class Visit>
bool each_mode(Visit visit) {
  const auto* interpreter = getPyInterpreter();
  for (std::int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    if (!visit(at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(interpreter))) return false;
  }
  for (std::int64_t i = 0; i < c10::impl::TorchDispatchModeTLS::stack_len(); ++i) {
    if (!visit(c10::impl::TorchDispatchModeTLS::get_stack_at(i)->ptr(interpreter))) return false;
  }
  return true;
}

bool same_mode(const Mode& mode, PyObject* other) noexcept {
  if (PyWeakref_GET_OBJECT(mode.reference.get()) == other) return true;
  return mode.device && mode.device == default_device(other);
}

// Reads this thread's state. False with an exception set.
bool take(Snapshot& snapshot) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) snapshot.values[i] = kFacts[i].read();
  return each_mode([&](PyObject* mode) {
    Mode made{Ref::steal(PyWeakref_NewRef(mode, nullptr)), default_device(mode)};
    if (!made.reference) return false;
    snapshot.modes.push_back(std::move(made));
    return true;
  });
}

bool same_modes(const Snapshot& snapshot) {
  std::size_t at = 0;
  return each_mode([&](PyObject* mode) { return same_mode(snapshot.modes[at++], mode); });
}

bool same_modes(const Snapshot& a, const Snapshot& b) {
  if (a.modes.size() != b.modes.size()) return false;
  for (std::size_t i = 0; i < a.modes.size(); ++i) {
    if (!same_mode(a.modes[i], PyWeakref_GET_OBJECT(b.modes[i].reference.get()))) return false;
  }
  return true;
}

// What `other` has where that is not what `snapshot` has.
std::string difference(const Snapshot& snapshot, const Snapshot& other) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    const bool is_consequence = kFacts[i].show == show_keys && !text.empty();
    if (snapshot.values[i] == other.values[i] || is_consequence) continue;
    add(std::string(kFacts[i].name) + " is " + kFacts[i].show(other.values[i]) + ", was " +
        kFacts[i].show(snapshot.values[i]));
  }
  if (text.empty() && !same_modes(snapshot, other)) add("other modes are on the torch function or dispatch stack");
  return text;
}

Snapshot& snapshot_of(PyObject* state) noexcept { return *reinterpret_cast<StateObject*>(state)->snapshot; }

PyObject* state_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs))) {
    PyErr_SetString(PyExc_TypeError, "GlobalState() takes no arguments: it reads this thread's state");
    return nullptr;
  }
  Ref self = Ref::steal(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  reinterpret_cast<StateObject*>(self.get())->snapshot = new Snapshot;
  return take(snapshot_of(self.get())) ? self.release() : nullptr;
}

void state_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<StateObject*>(self)->snapshot;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* state_compare(PyObject* self, PyObject* other, int operation) {
  if (!is_global_state(other) || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  const bool equal = difference(snapshot_of(self), snapshot_of(other)).empty();
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

PyObject* state_difference(PyObject* self, PyObject* other) {
  if (!is_global_state(other)) {
    return PyErr_Format(PyExc_TypeError, "difference() needs a GlobalState, not a %.100s", Py_TYPE(other)->tp_name);
  }
  return PyUnicode_FromString(difference(snapshot_of(self), snapshot_of(other)).c_str());
}

PyMethodDef state_methods[] = {
    {"difference", state_difference, METH_O,
     PyDoc_STR("difference(other)\n--\n\nWhat the other has that this has not, in words; '' if nothing.")},
    {nullptr, nullptr, 0, nullptr},
};

bool prepare_types() {
  if (types().state) return true;
  const Ref devices = Ref::steal(PyImport_ImportModule("torch.utils._device"));
  if (!devices) return false;
  types().device_context =
      reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(devices.get(), "DeviceContext"));
  const Ref functorch = Ref::steal(PyImport_ImportModule("torch._C._functorch"));
  if (!functorch) return false;
  interpreter_stack_getter() = PyObject_GetAttrString(functorch.get(), "get_interpreter_stack");
  if (!interpreter_stack_getter()) return false;
  types().device_name = Ref::steal(PyUnicode_InternFromString("device"));
  if (!types().device_context || !types().device_name) return false;
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(state_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(state_dealloc)},
      {Py_tp_richcompare, reinterpret_cast<void*>(state_compare)},
      {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
      {Py_tp_methods, state_methods},
      {Py_tp_doc, const_cast<char*>("A snapshot of torch's state of this thread that is not on any tensor.")},
      {0, nullptr},
  };
  PyType_Spec spec = {"dynamo_lite._C.GlobalState", sizeof(StateObject), 0, Py_TPFLAGS_DEFAULT, slots};
  types().state = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return types().state != nullptr;
}

}  // namespace

bool is_global_state(PyObject* object) noexcept { return Py_TYPE(object) == types().state; }

bool matches_current_state(PyObject* state, std::string* found) noexcept {
  const Snapshot& expected = snapshot_of(state);
  bool matches = true;
  for (std::size_t i = 0; i < kFacts.size() && matches; ++i) matches = kFacts[i].read() == expected.values[i];
  if (matches && same_modes(expected)) return true;
  if (found) {
    Snapshot now;
    *found = take(now) ? difference(expected, now) : "a state that cannot be read";
    PyErr_Clear();
  }
  return false;
}

bool register_global_state(PyObject* module) {
  return prepare_types() && PyModule_AddObjectRef(module, "GlobalState", reinterpret_cast<PyObject*>(types().state)) == 0;
}

}  // namespace dynamo_lite
