#include "guards/global_state.h"

#include <ATen/Context.h>
#if __has_include(<ATen/NodeCreationHooks.h>)  // of torch 2.15
#include <ATen/NodeCreationHooks.h>
#endif
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/SafePyObject.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "guards/private_members.h"
#include "hit.h"
#include "refs.h"

namespace dynamo_lite {

namespace {

std::string show_bool(std::int64_t value) { return value ? "on" : "off"; }
std::string show_number(std::int64_t value) { return std::to_string(value); }
constexpr std::array kTorchFunction{"on", "off for subclasses", "off"};
constexpr std::array kMatmul{"highest", "high", "medium"};
constexpr std::array kPrecision{"unset", "ieee", "tf32", "bf16", "default"};
std::string show_matmul(std::int64_t value) { return kMatmul.at(static_cast<std::size_t>(value)); }
std::string show_keys(std::uint64_t value) {
  return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, value));
}

// Python objects, owned for the life of the process.
PyTypeObject* device_context = nullptr;
PyObject* device_name = nullptr;
PyObject* interpreter_stack_getter = nullptr;  // of _functorch, which torch's headers don't export

// The kinds of functorch's transforms in force, outermost first, as one number: digits base 32. -1 if unknown.
std::int64_t functorch_transforms() noexcept {
  NoCollection no_collection;
  std::int64_t code = 0;
  const Ref stack = Ref::steal(PyObject_CallNoArgs(interpreter_stack_getter));
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

constexpr std::array kAutocastDevices{
    c10::DeviceType::CPU,  c10::DeviceType::CUDA, c10::DeviceType::XPU, c10::DeviceType::MPS,
    c10::DeviceType::MTIA, c10::DeviceType::HPU,  c10::DeviceType::XLA, c10::DeviceType::PrivateUse1,
};

// The precision that float32 kernels of a backend must have.
using PrecisionSetting = std::pair<const std::pair<at::Float32Backend, at::Float32Op>, at::Float32Precision>;
constexpr std::array kPrecisionBackends{"all", "cuda", "mkldnn"};
constexpr std::array kPrecisionOps{"", " conv", " rnn", " matmul"};
constexpr int kPrecisionBits = 4;  // of each setting

// Facts of at::Context: the field of `Facts`, its type, the private member of the context, its name for users, and the
// function that shows it.
// clang-format off
#define DL_CONTEXT_FACTS(row) \
  row(deterministic, bool, _deterministic_algorithms, "deterministic algorithms", show_bool)                                       \
  row(deterministic_warns, bool, _deterministic_algorithms_warn_only, "deterministic algorithms, warn only", show_bool)            \
  row(deterministic_fill, bool, _deterministic_fill_uninitialized_memory, "deterministic fill of uninitialized memory", show_bool) \
  row(fp16_reduction, std::int8_t, allow_fp16_reduction_cublas, "fp16 reduction in cuBLAS", show_number)                           \
  row(bf16_reduction, std::int8_t, allow_bf16_reduction_cublas, "bf16 reduction in cuBLAS", show_number)                           \
  row(flash, bool, enabled_flashSDP, "flash attention", show_bool)                                                                 \
  row(memory_efficient, bool, enabled_mem_efficientSDP, "memory efficient attention", show_bool)                                   \
  row(math, bool, enabled_mathSDP, "math attention", show_bool)                                                                    \
  row(cudnn, bool, enabled_cudnnSDP, "cuDNN attention", show_bool)                                                                 \
  row(overrideable, bool, enabled_overrideable, "attention of other devices", show_bool)                                           \
  row(mkldnn_enabled, bool, enabled_mkldnn, "use of oneDNN", show_bool)                                                            \
  row(cudnn_enabled, bool, enabled_cudnn, "use of cuDNN", show_bool)                                                               \
  row(cudnn_benchmark, bool, benchmark_cudnn, "benchmarks of cuDNN", show_bool)                                                    \
  row(cudnn_deterministic, bool, deterministic_cudnn, "deterministic algorithms of cuDNN", show_bool)                               \
  row(cudnn_tf32, bool, allow_tf32_cudnn, "tf32 in cuDNN", show_bool)                                                              \
  row(matmul, std::int8_t, float32_matmul_precision, "float32 matmul precision", show_matmul)
// clang-format on

// What is read, remembered and compared. The dispatch keys in `excluded` tell which devices have autocast on.
struct Facts {
  std::uint64_t included = 0, excluded = 0;             // this thread's dispatch keys
  std::uint64_t precisions = 0;                         // of float32, kPrecisionBits each
  std::int64_t function_modes = 0, dispatch_modes = 0;  // depths of the stacks
  std::int64_t functorch = 0;
  std::int64_t threads = 0;
  std::array<c10::ScalarType, kAutocastDevices.size()> autocast_dtype{};
  c10::ScalarType default_dtype{};
  bool grad = false, inference = false, forward_grad = false;
  bool autocast_cache = false;
#define DL_FIELD(name, type, member, text, show) type name{};
  DL_CONTEXT_FACTS(DL_FIELD)
#undef DL_FIELD
  std::int8_t torch_function = 0;
  bool saved_hooks = false, node_hooks = false;

  // All bytes are compared: there is no padding.
  bool operator==(const Facts& other) const noexcept { return std::memcmp(this, &other, sizeof(Facts)) == 0; }

  static Facts read() noexcept;
};
static_assert(std::has_unique_object_representations_v<Facts>);

#define DL_REVEAL_FACT(name, type, member, text, show) DL_REVEAL(context_##name, at::Context, member);
DL_CONTEXT_FACTS(DL_REVEAL_FACT)
#undef DL_REVEAL_FACT
DL_REVEAL(Precisions, at::Context, fp32_precision);
DL_REVEAL(FunctionState, at::impl::PythonTorchFunctionTLS, disabled_state_);
DL_REVEAL(FunctionModes, at::impl::PythonTorchFunctionTLS, stack_);

// Where torch keeps this thread's state. The addresses don't change while the thread lives.
struct ThreadPlaces {
  const c10::AutogradState* autograd = nullptr;
  const at::impl::PythonTorchFunctionTLS* torch_function = nullptr;
  const at::impl::SavedTensorDefaultHooksTLS* saved = nullptr;
  const std::vector<c10::SafePyObject>* node_hooks = nullptr;
};

// This thread's hooks on the creation of autograd's nodes.
const std::vector<c10::SafePyObject>& node_creation_hooks() noexcept {
#if __has_include(<ATen/NodeCreationHooks.h>)
  return at::impl::NodeCreationHooks::get_tls_state().stack;
#else
  static const std::vector<c10::SafePyObject> none;
  return none;
#endif
}

const ThreadPlaces& thread_places() noexcept {
  static thread_local ThreadPlaces places __attribute__((tls_model("initial-exec")));
  if (!places.autograd) {
    places = {&c10::AutogradState::get_tls_state(), &at::impl::PythonTorchFunctionTLS::get_state(),
              &at::SavedTensorDefaultHooks::get_tls_state(), &node_creation_hooks()};
  }
  return places;
}

// Where torch keeps each setting. Its map has all of them from the start, and the values of a map don't move.
const auto& precision_settings() {
  static const auto found = [] {
    std::array<const PrecisionSetting*, kPrecisionBackends.size() * kPrecisionOps.size()> places{};  // null at the end
    auto place = places.begin();
    for (const PrecisionSetting& each : at::globalContext().*revealed(Precisions{})) {
      if (place != places.end()) *place++ = &each;
    }
    return places;
  }();
  return found;
}

void read_context(Facts& facts) noexcept {
  static const at::Context& context = at::globalContext();
  const auto& settings = precision_settings();
  for (std::size_t i = 0; i < settings.size() && settings[i]; ++i) {
    facts.precisions |= static_cast<std::uint64_t>(settings[i]->second) << (kPrecisionBits * i);
  }
#define DL_READ(name, type, member, text, show) facts.name = static_cast<type>(context.*revealed(context_##name{}));
  DL_CONTEXT_FACTS(DL_READ)
#undef DL_READ
}

// Whether the hook is a function of the modules whose hooks have no observable effect, which the frame compiler lists.
bool loses_nothing(PyObject* hook) noexcept {
  PyObject* module = PyFunction_Check(hook) ? PyFunction_GET_MODULE(hook) : nullptr;
  return module && PyUnicode_Check(module) &&
         (PyUnicode_CompareWithASCIIString(module, "torch.autograd.graph") == 0 ||
          PyUnicode_CompareWithASCIIString(module, "torch.utils.checkpoint") == 0);
}

// Whether the program has hooks that see the tensors that autograd saves. Compiled code saves others than eager.
bool sees_saved(const at::impl::SavedTensorDefaultHooksTLS& saved) noexcept {
  if (saved.stack.empty()) return false;
  const auto& [pack, unpack] = saved.stack.top();
  const c10::impl::PyInterpreter* interpreter = getPyInterpreter();
  return !loses_nothing(pack.ptr(interpreter)) || !loses_nothing(unpack.ptr(interpreter));
}

void read_thread(Facts& facts) noexcept {
  const ThreadPlaces& places = thread_places();
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  facts.included = keys.included_.raw_repr();
  facts.excluded = keys.excluded_.raw_repr();
  facts.grad = places.autograd->get_grad_mode();
  facts.inference = places.autograd->get_inference_mode();
  facts.forward_grad = places.autograd->get_fw_grad_mode();
  facts.torch_function = static_cast<std::int8_t>(places.torch_function->*revealed(FunctionState{}));
  facts.function_modes = static_cast<std::int64_t>((places.torch_function->*revealed(FunctionModes{})).size());
  facts.saved_hooks = sees_saved(*places.saved);
  facts.node_hooks = !places.node_hooks->empty();
  // A dispatch mode on the stack includes the key for Python; a transform includes its own front key.
  const bool has_modes = keys.included_.has(c10::DispatchKey::Python);
  facts.dispatch_modes = has_modes ? c10::impl::TorchDispatchModeTLS::stack_len() : 0;
  const bool in_functorch = keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
  facts.functorch = in_functorch ? functorch_transforms() : 0;
}

DL_HIT Facts Facts::read() noexcept {
  Facts facts;
  read_context(facts);
  read_thread(facts);
  for (std::size_t i = 0; i < kAutocastDevices.size(); ++i) {
    facts.autocast_dtype[i] = at::autocast::get_autocast_dtype(kAutocastDevices[i]);
  }
  facts.autocast_cache = at::autocast::is_autocast_cache_enabled();
  facts.default_dtype = c10::get_default_dtype_as_scalartype();
  facts.threads = at::get_num_threads();
  return facts;
}

// The name of each fact and its value in words. The last one, the dispatch keys, changes with most of the others.
std::vector<std::pair<std::string, std::string>> in_words(const Facts& facts) {
#define DL_WORDS(name, type, member, text, show) {text, show(facts.name)},
  std::vector<std::pair<std::string, std::string>> words{
      {"grad mode", show_bool(facts.grad)},
      {"inference mode", show_bool(facts.inference)},
      {"forward grad mode", show_bool(facts.forward_grad)},
      {"autocast cache", show_bool(facts.autocast_cache)},
      {"default dtype", c10::toString(facts.default_dtype)},
      DL_CONTEXT_FACTS(DL_WORDS)  //
      {"number of threads", show_number(facts.threads)},
      {"torch function", kTorchFunction.at(static_cast<std::size_t>(facts.torch_function))},
      {"depth of the torch function mode stack", show_number(facts.function_modes)},
      {"depth of the torch dispatch mode stack", show_number(facts.dispatch_modes)},
      {"the stack of functorch's transforms", show_number(facts.functorch)},
      {"hooks on what autograd saves", show_bool(facts.saved_hooks)},
      {"hooks on the nodes that autograd creates", show_bool(facts.node_hooks)},
  };
#undef DL_WORDS
  const auto& settings = precision_settings();
  for (std::size_t i = 0; i < settings.size() && settings[i]; ++i) {
    const auto [backend, op] = settings[i]->first;
    const std::string of = kPrecisionBackends.at(static_cast<std::size_t>(backend));
    words.emplace_back("float32 precision of " + of + kPrecisionOps.at(static_cast<std::size_t>(op)),
                       kPrecision.at(facts.precisions >> (kPrecisionBits * i) & 15));
  }
  const c10::DispatchKeySet excluded(c10::DispatchKeySet::RAW, facts.excluded);
  for (std::size_t i = 0; i < kAutocastDevices.size(); ++i) {
    const std::string name = "autocast on " + c10::DeviceTypeName(kAutocastDevices[i], /*lower_case=*/true);
    const auto key = at::autocast::get_autocast_dispatch_key_from_device_type(kAutocastDevices[i]);
    words.emplace_back(name, show_bool(!excluded.has(key)));
    words.emplace_back("dtype of " + name, c10::toString(facts.autocast_dtype[i]));
  }
  const std::string keys = show_keys(facts.included) + " without " + show_keys(facts.excluded);
  words.emplace_back("the set of dispatch keys", keys);
  return words;
}

// A torch function mode, held weakly. Two are equal if they are the same object, or both set a default device (`with
// torch.device(...)`, set_default_device) and it is the same one.
struct Mode {
  Ref reference;  // a weak reference
  std::optional<c10::Device> device;
};

struct Snapshot {
  Facts facts;
  std::vector<Mode> modes;  // torch function modes, outermost first; no trace depends on dispatch modes
};

struct StateObject {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Snapshot snapshot;
};

std::optional<c10::Device> default_device(PyObject* mode) noexcept {
  if (Py_TYPE(mode) != device_context) return std::nullopt;
  PyObject* device = instance_dict_find(mode, device_name, PyObject_Hash(device_name)).value;
  if (!device || !THPDevice_Check(device)) return std::nullopt;
  return reinterpret_cast<THPDevice*>(device)->device;
}

// Calls visit(mode) for each torch function mode in force, outermost first, until it returns false. Returns whether it
// returned true for all.
template <class Visit>
bool each_mode(Visit visit) {
  const auto* interpreter = getPyInterpreter();
  for (std::int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    if (!visit(at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(interpreter))) return false;
  }
  return true;
}

bool same_mode(const Mode& mode, PyObject* other) noexcept {
  if (weak_referent(mode.reference.get()) == other) return true;
  return mode.device && mode.device == default_device(other);
}

// Reads this thread's state. False with an exception set.
bool take(Snapshot& snapshot) {
  snapshot.facts = Facts::read();
  return each_mode([&](PyObject* mode) {
    Mode made{Ref::steal(PyWeakref_NewRef(mode, nullptr)), default_device(mode)};
    if (!made.reference) return false;
    snapshot.modes.push_back(std::move(made));
    return true;
  });
}

bool same_modes(const Snapshot& snapshot) {
  const std::vector<Mode>& modes = snapshot.modes;
  std::size_t at = 0;
  const auto is_next = [&](PyObject* mode) { return at < modes.size() && same_mode(modes[at++], mode); };
  return each_mode(is_next) && at == modes.size();
}

bool same_modes(const Snapshot& a, const Snapshot& b) {
  return std::ranges::equal(a.modes, b.modes, [](const Mode& one, const Mode& other) {
    return same_mode(one, weak_referent(other.reference.get()));
  });
}

// The types of torch function modes, outermost first: "[DeviceContext]".
std::string names_of(const std::vector<Mode>& modes) {
  std::string text = "[";
  for (const Mode& mode : modes) {
    if (text.size() > 1) text += ", ";
    text += Py_TYPE(weak_referent(mode.reference.get()))->tp_name;
  }
  return text += "]";
}

// In what `other` differs from `snapshot`.
std::vector<Difference> differences(const Snapshot& snapshot, const Snapshot& other) {
  const auto before = in_words(snapshot.facts), after = in_words(other.facts);
  std::vector<Difference> found;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const bool adds_something = found.empty() || i + 1 < after.size();  // the last one follows from most of the others
    if (after[i] == before[i] || !adds_something) continue;
    found.push_back({after[i].first, str_of(after[i].second), str_of(before[i].second)});
  }
  if (found.empty() && !same_modes(snapshot, other)) {
    const std::string modes = names_of(other.modes), expected = names_of(snapshot.modes);
    const std::string now = (modes == expected ? "another " : "") + modes;
    found.push_back({"the stack of torch function modes", str_of(now), str_of(expected)});
  }
  return found;
}

void prepare_types() {
  const auto find = [](const char* module, const char* name) {
    return py::object(py::module_::import(module).attr(name)).release().ptr();
  };
  device_context = reinterpret_cast<PyTypeObject*>(find("torch.utils._device", "DeviceContext"));
  interpreter_stack_getter = find("torch._C._functorch", "get_interpreter_stack");
  device_name = checked(Ref::steal(PyUnicode_InternFromString("device"))).release();
}

}  // namespace

bool state_layout_fits() noexcept {
  const at::Context& context = at::globalContext();
  const auto holds = [&context](auto member, bool setting) { return (context.*member != 0) == setting; };
  const ThreadPlaces& places = thread_places();
  return holds(revealed(context_deterministic{}), context.deterministicAlgorithms()) &&
         holds(revealed(context_deterministic_warns{}), context.deterministicAlgorithmsWarnOnly()) &&
         holds(revealed(context_deterministic_fill{}), context.deterministicFillUninitializedMemory()) &&
         holds(revealed(context_flash{}), context.userEnabledFlashSDP()) &&
         holds(revealed(context_memory_efficient{}), context.userEnabledMemEfficientSDP()) &&
         holds(revealed(context_math{}), context.userEnabledMathSDP()) &&
         holds(revealed(context_cudnn{}), context.userEnabledCuDNNSDP()) &&
         holds(revealed(context_overrideable{}), context.userEnabledOverrideableSDP()) &&
         holds(revealed(context_mkldnn_enabled{}), context.userEnabledMkldnn()) &&
         holds(revealed(context_cudnn_enabled{}), context.userEnabledCuDNN()) &&
         holds(revealed(context_cudnn_benchmark{}), context.benchmarkCuDNN()) &&
         holds(revealed(context_cudnn_deterministic{}), context.deterministicCuDNN()) &&
         places.autograd->get_grad_mode() == c10::GradMode::is_enabled() &&
         places.autograd->get_inference_mode() == c10::InferenceMode::is_enabled() &&
         places.torch_function->*revealed(FunctionState{}) == at::impl::PythonTorchFunctionTLS::get_disabled_state() &&
         static_cast<std::int64_t>((places.torch_function->*revealed(FunctionModes{})).size()) ==
             at::impl::PythonTorchFunctionTLS::stack_len();
}

bool is_global_state(PyObject* object) noexcept { return HeapType<StateObject>::is(object); }

DL_HIT bool matches_current_state(PyObject* state, Found* found) {
  const Snapshot& expected = HeapType<StateObject>::of(state).snapshot;
  if (Facts::read() == expected.facts && (expected.modes.empty() || same_modes(expected))) return true;
  if (found) {
    Snapshot now;
    if (take(now)) {
      found->differences = differences(expected, now);
    } else {
      PyErr_Clear();
      found->words = "it cannot be read";
    }
  }
  return false;
}

namespace {

// A block of inference mode. torch's own object exits the block when it is deallocated. If a graph fails in the block,
// that is after the state was restored: when the last traceback is dropped.
struct InferenceBlock {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD c10::AutogradState autograd;
  c10::impl::LocalDispatchKeySet keys;

  // Enters the block.
  static Ref enter(py::handle, bool enabled) {
    const c10::AutogradState autograd = c10::AutogradState::get_tls_state();
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    Ref block = HeapType<InferenceBlock>::make(autograd, keys);
    if (!block) return block;
    std::optional<c10::InferenceMode> mode(enabled);
    const c10::AutogradState autograd_inside = c10::AutogradState::get_tls_state();
    const c10::impl::LocalDispatchKeySet keys_inside = c10::impl::tls_local_dispatch_key_set();
    mode.reset();
    c10::AutogradState::set_tls_state(autograd_inside);
    c10::impl::_force_tls_local_dispatch_key_set(keys_inside);
    return block;
  }

  void exit() const {
    c10::AutogradState::set_tls_state(autograd);
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
};

struct Kept {
  Facts facts = Facts::read();
  c10::AutogradState autograd = c10::AutogradState::get_tls_state();
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  decltype(at::globalContext().sDPPriorityOrder()) attention_order = at::globalContext().sDPPriorityOrder();
  int nesting = autocast_nesting();

  static int autocast_nesting() {
    at::autocast::increment_nesting();  // there is no other way to read it
    return at::autocast::decrement_nesting();
  }
};

}  // namespace

KeptState::KeptState() : kept_(std::make_shared<const Kept>()) {}

void KeptState::restore_thread() const {
  const Kept& kept = *static_cast<const Kept*>(kept_.get());
  const Facts& facts = kept.facts;
  c10::AutogradState::set_tls_state(kept.autograd);
  c10::impl::_force_tls_local_dispatch_key_set(kept.keys);
  for (std::size_t i = 0; i < kAutocastDevices.size(); ++i) {
    at::autocast::set_autocast_dtype(kAutocastDevices[i], facts.autocast_dtype[i]);
  }
  at::autocast::set_autocast_cache_enabled(facts.autocast_cache);
  int nesting = Kept::autocast_nesting();
  if (nesting > kept.nesting && kept.nesting == 0) at::autocast::clear_cache();
  while (nesting > kept.nesting) nesting = at::autocast::decrement_nesting();
  while (nesting < kept.nesting) nesting = at::autocast::increment_nesting();
}

void KeptState::restore() const {
  restore_thread();
  const Kept& kept = *static_cast<const Kept*>(kept_.get());
  const Facts& facts = kept.facts;
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(facts.flash);
  context.setSDPUseMemEfficient(facts.memory_efficient);
  context.setSDPUseMath(facts.math);
  context.setSDPUseCuDNN(facts.cudnn);
  context.setSDPUseOverrideable(facts.overrideable);
  std::vector<std::int64_t> order;
  for (const auto backend : kept.attention_order) order.push_back(static_cast<std::int64_t>(backend));
  context.setSDPPriorityOrder(order);
}

void register_global_state(py::module_& module) {
  prepare_types();
  module.def("state_layout_fits", state_layout_fits);
  module.def("has_node_creation_hooks", [] { return !node_creation_hooks().empty(); });
  HeapType<StateObject>(module, "dynamo_lite._C.GlobalState")
      .def_new([](py::handle) {
        Snapshot snapshot;
        if (!take(snapshot)) throw py::error_already_set();
        return HeapType<StateObject>::make(std::move(snapshot));
      })
      .def("differences",
           [](StateObject& self, StateObject& other) { return as_tuple(differences(self.snapshot, other.snapshot)); });
  HeapType<InferenceBlock>(module, "dynamo_lite._C.InferenceBlock")
      .def_new(InferenceBlock::enter, py::arg("enabled"))
      .def("exit", [](InferenceBlock& self) { self.exit(); });
}

}  // namespace dynamo_lite
