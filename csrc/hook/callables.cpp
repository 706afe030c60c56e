#include "hook/callables.h"

#include <exception>
#include <utility>

#include "cpython/frames.h"
#include "cpython/objects.h"
#include "guards/global_state.h"
#include "heap_type.h"
#include "hit.h"
#include "hook/eval_frame.h"
#include "hook/owners.h"
#include "hook/torch_hook.h"

namespace dynamo_lite {

namespace {

PyObject* call(PyObject* fn, PyObject* const* args, std::size_t count, PyObject* names) {
  return hang_at_exit([&] { return vectorcall_of(fn)(fn, args, count, names); });
}

// -- Wrapped: the callable that dl.compile and dl.disable return

struct Wrapped {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref fn;
  Ref owner;  // an Owner
  Ref dict;
  PyObject* weakrefs;

  auto references() { return std::tie(fn, owner, dict); }
  void clear() { dict.reset(); }
};

Wrapped& self_wrapped(PyObject* self) { return HeapType<Wrapped>::of(self); }

// Raises for a function that must be captured but is called so deep in the recursion that all frames run in eager.
[[gnu::cold, gnu::noinline]] PyObject* refuse(PyObject* fn) {
  const OffScope off(this_thread());
  const Ref module = Ref::steal(PyImport_ImportModule("dynamo_lite.compiler.observers"));
  return module ? PyObject_CallMethod(module.get(), "refuse", "O", fn) : nullptr;
}

// Calls a function whose frames must be captured, even inside a trace function.
DL_HIT [[gnu::noinline]] PyObject* call_to_capture(PyObject* fn, PyObject* const* args, std::size_t count,
                                                   PyObject* names) {
  PyThreadState* state = PyThreadState_Get();
  if (depth_of(state) != Depth::Shallow && !is_eager_forced()) return refuse(fn);
  Thread& thread = this_thread(state);
  const int before = std::exchange(thread.capture_depth, callback_depth(state));
  PyObject* result = call(fn, args, count, names);
  thread.capture_depth = before;
  return result;
}

// Calls `fn` while another frame hook is installed. It may be torch.compile's, active on this thread.
[[gnu::cold, gnu::noinline]] PyObject* call_beside_other_hook(PyObject* fn, Owner* owner, PyObject* const* args,
                                                              std::size_t count, PyObject* names) {
  const bool is_torchs = torch_compiles_here();
  if (is_torchs && owner != off_owner()) return call(fn, args, count, names);
  const TorchCompileOffScope out(is_torchs);
  const OwnerScope scope(owner, PyThreadState_Get());
  if (owner->when_observed) return call_to_capture(fn, args, count, names);
  return call(fn, args, count, names);
}

DL_HIT PyObject* wrapped_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  PyThreadState* const state = PyThreadState_Get();
  if (is_exhausted(state)) {
    PyErr_SetString(PyExc_RecursionError,
                    "maximum recursion depth exceeded: the C stack has no room for a compiled call");
    return nullptr;
  }
  const Wrapped& wrapped = self_wrapped(self);
  Owner* owner = &HeapType<Owner>::of(wrapped.owner.get());
  if (has_other_hook()) [[unlikely]]
    return call_beside_other_hook(wrapped.fn.get(), owner, args, count, names);
  const OwnerScope scope(owner, state);
  if (owner->when_observed) return call_to_capture(wrapped.fn.get(), args, count, names);
  return call(wrapped.fn.get(), args, count, names);
}

Ref make_wrapped(PyObject* fn, PyObject* owner) {
  return HeapType<Wrapped>::make(wrapped_call, Ref::borrow(fn), Ref::borrow(owner), Ref(), nullptr);
}

// Binds as `fn` does: a function becomes a method, a staticmethod yields its function, a builtin doesn't bind.
PyObject* wrapped_get(PyObject* self, PyObject* object, PyObject* type) {
  PyObject* fn = self_wrapped(self).fn.get();
  if (PyFunction_Check(fn)) {
    return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
  }
  const descrgetfunc get = Py_TYPE(fn)->tp_descr_get;
  if (get == nullptr) return Py_NewRef(self);
  const Ref bound = Ref::steal(get(fn, object, type));
  if (!bound) return nullptr;
  return bound.get() == fn ? Py_NewRef(self) : make_wrapped(bound.get(), self_wrapped(self).owner.get()).release();
}

// Attributes that aren't set on the object are read from `fn` (__name__, __defaults__ and so on). So are __module__ and
// __doc__, for which the generic lookup would return the values of this class.
PyObject* wrapped_getattro(PyObject* self, PyObject* name) {
  const Wrapped& wrapped = self_wrapped(self);
  const bool is_of_class = PyUnicode_CompareWithASCIIString(name, "__module__") == 0 ||
                           PyUnicode_CompareWithASCIIString(name, "__doc__") == 0;
  if (!is_of_class || (wrapped.dict && PyDict_Contains(wrapped.dict.get(), name) == 1)) {
    PyObject* found = PyObject_GenericGetAttr(self, name);
    if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
  }
  return PyObject_GetAttr(wrapped.fn.get(), name);
}

// `__class__` is FunctionType, so that isinstance() treats the object as a function. Other compilers rely on this,
// since torch.compile and torch.compiler.disable return functions.
PyObject* wrapped_class(PyObject*, void*) { return Py_NewRef(reinterpret_cast<PyObject*>(&PyFunction_Type)); }

PyObject* wrapped_repr(PyObject* self) {
  const Wrapped& wrapped = self_wrapped(self);
  const auto& owner = HeapType<Owner>::of(wrapped.owner.get());
  if (&owner == off_owner()) return PyUnicode_FromFormat("<disabled %R>", wrapped.fn.get());
  return PyUnicode_FromFormat("<compiled %R, backend %R>", wrapped.fn.get(), owner.name.get());
}

PyGetSetDef wrapped_getset[] = {
    {"__class__", wrapped_class, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// -- InstanceCall: a class's __call__ that calls the callable stored in a slot of the instance

struct InstanceCall {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref member;
  Ref function;  // the equivalent Python function, which reading the attribute from the class returns

  auto references() { return std::tie(member, function); }
};

DL_HIT PyObject* instance_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given < 1) return PyErr_Format(PyExc_TypeError, "__call__() needs an instance");
  PyObject* member = HeapType<InstanceCall>::of(self).member.get();
  const descrgetfunc get = Py_TYPE(member)->tp_descr_get;
  const Ref target = Ref::steal(get(member, args[0], reinterpret_cast<PyObject*>(Py_TYPE(args[0]))));
  if (!target) return nullptr;
  return call(target.get(), args + 1, static_cast<std::size_t>(given - 1), names);
}

PyObject* instance_call_get(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(HeapType<InstanceCall>::of(self).function.get());
  return PyMethod_New(self, object);
}

// -- GraphCall: calls the backend's callable, with compilation disabled inside

struct GraphCall {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref fn;
  PyObject* function;   // borrowed from `fn`: the function of a bound method, otherwise `fn`
  PyObject* bound;      // borrowed from `fn`: the `self` of a bound method, otherwise null
  Ref wrong;            // called with an invalid result: raises, or returns a replacement. May be empty
  Py_ssize_t captured;  // the number of items of the first argument that are passed in front of the rest
  Py_ssize_t outputs;   // the expected number of results, checked if `wrong` is set
  bool keeps_state;     // the graph changes torch's global state, which is restored if it fails

  auto references() { return std::tie(fn, wrong); }
  void clear() {
    function = Py_None;  // a later call raises TypeError: None can't be called
    bound = nullptr;
    fn = Ref::borrow(Py_None);
    wrong.reset();
  }
};

[[gnu::always_inline]] inline PyObject* call_graph(const GraphCall& graph, PyObject* const* args, std::size_t count,
                                                   PyObject* names) {
  const OffScope off(this_thread());
  if (graph.bound == nullptr || (count & PY_VECTORCALL_ARGUMENTS_OFFSET) == 0) {
    return call(graph.fn.get(), args, count, names);
  }
  PyObject*& first = const_cast<PyObject**>(args)[-1];  // ours to overwrite during the call
  PyObject* before = std::exchange(first, graph.bound);
  PyObject* result = call(graph.function, &first, PyVectorcall_NARGS(count) + 1, names);
  first = before;
  return result;
}

// The length of a tuple or list; -1 for other objects.
Py_ssize_t length_of_sequence(PyObject* result) noexcept {
  return PyTuple_Check(result) || PyList_Check(result) ? Py_SIZE(result) : -1;
}

// Passes an invalid result to `wrong`. Steals the result, which may be null.
DL_HIT PyObject* checked_result(const GraphCall& graph, PyObject* result) {
  if (result == nullptr || !graph.wrong || length_of_sequence(result) == graph.outputs) [[likely]]
    return result;
  const Ref found = Ref::steal(result);
  const Ref wrong = graph.wrong;
  return hang_at_exit([&] { return PyObject_CallOneArg(wrong.get(), found.get()); });
}

DL_HIT PyObject* graph_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const GraphCall& graph = HeapType<GraphCall>::of(self);
  if (!graph.keeps_state) return checked_result(graph, call_graph(graph, args, count, names));
  try {
    const KeptState state;
    PyObject* result = checked_result(graph, call_graph(graph, args, count, names));
    if (result == nullptr) state.restore();
    return result;
  } catch (const std::exception&) {  // raised before the graph ran, or after it failed
    set_python_error();
    return nullptr;
  }
}

DL_HIT PyObject* graph_call_captured(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Py_ssize_t captured = HeapType<GraphCall>::of(self).captured;
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given < 1 || names != nullptr || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) < captured) {
    return PyErr_Format(PyExc_TypeError, "a GraphCall with captured inputs takes their tuple as its first argument");
  }
  const Py_ssize_t total = captured + given - 1;
  constexpr Py_ssize_t few = 64;
  PyObject* small[few + 1];
  auto** room = total <= few ? small : static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * (total + 1)));
  if (room == nullptr) return PyErr_NoMemory();
  PyObject** values = room + 1;  // one free word in front, for the `self` of a bound method
  for (Py_ssize_t at = 0; at < captured; ++at) values[at] = PyTuple_GET_ITEM(args[0], at);
  for (Py_ssize_t at = 1; at < given; ++at) values[captured + at - 1] = args[at];
  PyObject* result =
      graph_call(self, values, static_cast<std::size_t>(total) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (room != small) PyMem_Free(room);
  return result;
}

// -- Resume and Continuation

struct Resume {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref code;

  auto references() { return std::tie(code); }
};

// Exists from the return of the new code until the resume function has been called.
struct Continuation {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref code;
  Ref closure;            // None or a tuple of cells
  Ref arguments;          // a tuple
  Ref globals, builtins;  // those of the frame in which the new code ran

  auto references() { return std::tie(code, closure, arguments, globals, builtins); }
};

PyObject* resume_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given < 1 || names != nullptr) return PyErr_Format(PyExc_TypeError, "a Resume is called with (closure, *values)");
  Ref arguments = Ref::steal(PyTuple_New(given - 1));
  if (!arguments) return nullptr;
  for (Py_ssize_t at = 1; at < given; ++at) PyTuple_SET_ITEM(arguments.get(), at - 1, Py_NewRef(args[at]));
  return HeapType<Continuation>::make(HeapType<Resume>::of(self).code, Ref::borrow(args[0]), std::move(arguments),
                                      Ref::borrow(PyEval_GetGlobals()), Ref::borrow(PyEval_GetBuiltins()))
      .release();
}

Ref new_graph_call(py::handle, Ref fn, Py_ssize_t captured, bool keeps_state, Py_ssize_t outputs, Ref wrong) {
  if (!PyCallable_Check(fn.get())) raise(PyExc_TypeError, "%s can't be called", Py_TYPE(fn.get())->tp_name);
  if (captured < 0) raise(PyExc_ValueError, "captured must be a non-negative number of inputs, not %zd", captured);
  const bool is_method = PyMethod_Check(fn.get());
  PyObject* function = is_method ? PyMethod_GET_FUNCTION(fn.get()) : fn.get();
  PyObject* bound = is_method ? PyMethod_GET_SELF(fn.get()) : nullptr;
  if (wrong.get() == Py_None) wrong.reset();
  return HeapType<GraphCall>::make(captured == 0 ? graph_call : graph_call_captured, std::move(fn), function, bound,
                                   std::move(wrong), captured, outputs, keeps_state);
}

Ref new_instance_call(py::handle, Ref member, Ref function) {
  if (Py_TYPE(member.get())->tp_descr_get == nullptr) {
    raise(PyExc_TypeError, "%s is not a descriptor with __get__", Py_TYPE(member.get())->tp_name);
  }
  return HeapType<InstanceCall>::make(instance_call, std::move(member), std::move(function));
}

Ref new_wrapped(py::handle, Ref fn, Owner& owner) {
  if (!PyCallable_Check(fn.get())) raise(PyExc_TypeError, "%s can't be called", Py_TYPE(fn.get())->tp_name);
  return make_wrapped(fn.get(), reinterpret_cast<PyObject*>(&owner));
}

}  // namespace

bool is_continuation(PyObject* object) noexcept { return HeapType<Continuation>::is(object); }

Ref continuation_function(PyObject* object) {
  const Continuation& continuation = HeapType<Continuation>::of(object);
  return Ref::steal(new_function(continuation.code.get(), continuation.globals.get(), continuation.builtins.get(),
                                 continuation.closure.get()));
}

ContinuationArguments continuation_arguments(PyObject* object) noexcept {
  PyObject* arguments = HeapType<Continuation>::of(object).arguments.get();
  return {tuple_items(arguments), static_cast<std::size_t>(PyTuple_GET_SIZE(arguments))};
}

void drop_arguments(PyObject* object) noexcept { HeapType<Continuation>::of(object).arguments.reset(); }

void register_callables(py::module_& module) {
  HeapType<Wrapped>(module, "dynamo_lite._C.Wrapped",
                    {{"__wrapped__", T_OBJECT, offsetof(Wrapped, fn), READONLY, nullptr},
                     {"owner", T_OBJECT, offsetof(Wrapped, owner), READONLY, nullptr}},
                    {{Py_tp_descr_get, reinterpret_cast<void*>(wrapped_get)},
                     {Py_tp_getattro, reinterpret_cast<void*>(wrapped_getattro)},
                     {Py_tp_repr, reinterpret_cast<void*>(wrapped_repr)},
                     {Py_tp_getset, wrapped_getset}})
      .def_new(new_wrapped, py::arg("fn"), py::arg("owner"));
  HeapType<InstanceCall>(module, "dynamo_lite._C.InstanceCall", {},
                         {{Py_tp_descr_get, reinterpret_cast<void*>(instance_call_get)}}, Py_TPFLAGS_METHOD_DESCRIPTOR)
      .def_new(new_instance_call, py::arg("member"), py::arg("function"));
  HeapType<GraphCall>(module, "dynamo_lite._C.GraphCall",
                      {{"fn", T_OBJECT, offsetof(GraphCall, fn), READONLY, nullptr},
                       {"captured", T_PYSSIZET, offsetof(GraphCall, captured), READONLY, nullptr},
                       {"keeps_state", T_BOOL, offsetof(GraphCall, keeps_state), READONLY, nullptr},
                       {"wrong", T_OBJECT, offsetof(GraphCall, wrong), READONLY, nullptr}})
      .def_new(new_graph_call, py::arg("fn"), py::arg("captured") = 0, py::arg("keeps_state") = false,
               py::arg("outputs") = 0, py::arg("wrong") = py::none());
  HeapType<Resume>(module, "dynamo_lite._C.Resume", {{"code", T_OBJECT, offsetof(Resume, code), READONLY, nullptr}})
      .def_new(
          [](py::handle, const Code& code) { return HeapType<Resume>::make(resume_call, Ref::borrow(code.ptr())); },
          py::arg("code"));
  HeapType<Continuation>(module, "dynamo_lite._C.Continuation");
}

}  // namespace dynamo_lite
