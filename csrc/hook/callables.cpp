#include "hook/callables.h"

#include <structmember.h>

#include <utility>

#include "prefetch.h"
#include "cpython/frames.h"
#include "cpython/objects.h"
#include "hook/eval_frame.h"
#include "guards/global_state.h"

namespace dynamo_lite {

namespace {

PyObject* call(PyObject* fn, PyObject* const* args, std::size_t count, PyObject* names) {
  return staying([&] { return vectorcall_of(fn)(fn, args, count, names); });
}

// -- Wrapped: what dl.compile and dl.disable return -----------------------------------------------------------------------

struct Wrapped {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* fn;     // owned
  PyObject* owner;  // owned; an Owner
  PyObject* dict;
  PyObject* weakrefs;
};

Wrapped* self_wrapped(PyObject* self) { return reinterpret_cast<Wrapped*>(self); }

DL_HIT PyObject* wrapped_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  Wrapped* wrapped = self_wrapped(self);
  if (is_exhausted()) {
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack has no room for a compiled call");
    return nullptr;
  }
  const OwnerScope scope(reinterpret_cast<Owner*>(wrapped->owner));
  return call(wrapped->fn, args, count, names);
}

// A new Wrapped.
PyObject* make_wrapped(PyTypeObject* type, PyObject* fn, PyObject* owner) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  self_wrapped(self)->vectorcall = wrapped_call;
  self_wrapped(self)->fn = Py_NewRef(fn);
  self_wrapped(self)->owner = Py_NewRef(owner);
  return self;
}

PyObject* wrapped_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"fn", "owner", nullptr};
  PyObject* fn = nullptr;
  PyObject* owner = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", const_cast<char**>(names), &fn, &owner)) return nullptr;
  if (!PyCallable_Check(fn)) return PyErr_Format(PyExc_TypeError, "%s can't be called", Py_TYPE(fn)->tp_name);
  if (!is_owner(owner)) return PyErr_Format(PyExc_TypeError, "owner must be an Owner, not %s", Py_TYPE(owner)->tp_name);
  return make_wrapped(type, fn, owner);
}

int wrapped_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_wrapped(self)->fn);
  Py_VISIT(self_wrapped(self)->owner);
  Py_VISIT(self_wrapped(self)->dict);
  return 0;
}

int wrapped_clear(PyObject* self) {
  clear(self_wrapped(self)->dict);
  return 0;
}

void wrapped_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (self_wrapped(self)->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  clear(self_wrapped(self)->dict);
  clear(self_wrapped(self)->fn);
  clear(self_wrapped(self)->owner);
  type->tp_free(self);
  Py_DECREF(type);
}

// Binds as `fn` does: a function becomes a method, a staticmethod what it holds, a builtin stays what it is.
PyObject* wrapped_get(PyObject* self, PyObject* object, PyObject* type) {
  PyObject* fn = self_wrapped(self)->fn;
  if (PyFunction_Check(fn)) {
    return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
  }
  const descrgetfunc get = Py_TYPE(fn)->tp_descr_get;
  if (get == nullptr) return Py_NewRef(self);
  const Ref bound = Ref::steal(get(fn, object, type));
  if (!bound) return nullptr;
  return bound.get() == fn ? Py_NewRef(self) : make_wrapped(Py_TYPE(self), bound.get(), self_wrapped(self)->owner);
}

// Attributes that are not its own are the function's: __name__, __doc__, __defaults__ and so on.
PyObject* wrapped_getattro(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(self_wrapped(self)->fn, name);
}

// The function's own attribute, unless the object was given another.
PyObject* forwarded(PyObject* self, void* name) {
  const auto* text = static_cast<const char*>(name);
  PyObject* dict = self_wrapped(self)->dict;
  PyObject* own = dict == nullptr ? nullptr : PyDict_GetItemString(dict, text);
  return own != nullptr ? Py_NewRef(own) : PyObject_GetAttrString(self_wrapped(self)->fn, text);
}

int set_forwarded(PyObject* self, PyObject* value, void* name) {
  const auto* text = static_cast<const char*>(name);
  const Ref dict = Ref::steal(PyObject_GenericGetDict(self, nullptr));
  if (!dict) return -1;
  return value == nullptr ? PyDict_DelItemString(dict.get(), text) : PyDict_SetItemString(dict.get(), text, value);
}

// Copied as a function is, by being the same; pickled by name.
PyObject* wrapped_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

PyObject* wrapped_repr(PyObject* self) {
  return PyUnicode_FromFormat("<compiled %R>", self_wrapped(self)->fn);
}

PyGetSetDef wrapped_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"__doc__", forwarded, set_forwarded, nullptr, const_cast<char*>("__doc__")},
    {"__module__", forwarded, set_forwarded, nullptr, const_cast<char*>("__module__")},
    {"__name__", forwarded, set_forwarded, nullptr, const_cast<char*>("__name__")},
    {"__qualname__", forwarded, set_forwarded, nullptr, const_cast<char*>("__qualname__")},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef wrapped_methods[] = {
    {"__reduce__", wrapped_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef wrapped_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Wrapped, fn), READONLY, nullptr},
    {"owner", T_OBJECT, offsetof(Wrapped, owner), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapped, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Wrapped, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapped, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot wrapped_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(wrapped_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(wrapped_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(wrapped_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(wrapped_dealloc)},
    {Py_tp_descr_get, reinterpret_cast<void*>(wrapped_get)},
    {Py_tp_getattro, reinterpret_cast<void*>(wrapped_getattro)},
    {Py_tp_repr, reinterpret_cast<void*>(wrapped_repr)},
    {Py_tp_methods, wrapped_methods},
    {Py_tp_getset, wrapped_getset},
    {Py_tp_members, wrapped_members},
    {0, nullptr},
};
PyType_Spec wrapped_spec = {"dynamo_lite._C.Wrapped", sizeof(Wrapped), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, wrapped_slots};

// -- InstanceCall: a class's __call__ that calls what the instance keeps in a slot -----------------------------------------

struct InstanceCall {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* member;  // owned
};

DL_HIT PyObject* instance_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given < 1) return PyErr_Format(PyExc_TypeError, "__call__() needs an instance");
  PyObject* member = reinterpret_cast<InstanceCall*>(self)->member;
  const descrgetfunc get = Py_TYPE(member)->tp_descr_get;
  const Ref target = Ref::steal(get(member, args[0], reinterpret_cast<PyObject*>(Py_TYPE(args[0]))));
  if (!target) return nullptr;
  return call(target.get(), args + 1, static_cast<std::size_t>(given - 1), names);
}

PyObject* instance_call_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* member = nullptr;
  if (!PyArg_ParseTuple(args, "O", &member)) return nullptr;
  if (Py_TYPE(member)->tp_descr_get == nullptr) {
    return PyErr_Format(PyExc_TypeError, "%s is no member descriptor", Py_TYPE(member)->tp_name);
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  reinterpret_cast<InstanceCall*>(self)->vectorcall = instance_call;
  reinterpret_cast<InstanceCall*>(self)->member = Py_NewRef(member);
  return self;
}

int instance_call_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<InstanceCall*>(self)->member);
  return 0;
}

int instance_call_clear(PyObject* self) {
  clear(reinterpret_cast<InstanceCall*>(self)->member);
  return 0;
}

void instance_call_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  instance_call_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* instance_call_get(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyMemberDef instance_call_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(InstanceCall, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot instance_call_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(instance_call_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(instance_call_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(instance_call_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(instance_call_dealloc)},
    {Py_tp_descr_get, reinterpret_cast<void*>(instance_call_get)},
    {Py_tp_members, instance_call_members},
    {0, nullptr},
};
PyType_Spec instance_call_spec = {
    "dynamo_lite._C.InstanceCall", sizeof(InstanceCall), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    instance_call_slots};

// -- GraphCall: the backend's callable, with nobody compiling below it -----------------------------------------------------

struct GraphCall {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* fn;         // owned
  PyObject* function;   // borrowed of `fn`: a bound method's function, else `fn`
  PyObject* bound;      // borrowed of `fn`: a bound method's object, else null
  PyObject* wrong;      // owned; called with a result that is none of the graph's, to raise or to give another; or null
  Py_ssize_t captured;  // how many items of the first argument go in front of the rest
  Py_ssize_t outputs;   // how many results there are to be, where `wrong` is there
  bool keeps_state;     // it changes torch's state on its way: that is put back where it fails
};

GraphCall* self_graph(PyObject* self) { return reinterpret_cast<GraphCall*>(self); }

[[gnu::always_inline]] inline PyObject* call_graph(const GraphCall* graph, PyObject* const* args, std::size_t count,
                                                   PyObject* names) {
  const OffScope off(this_thread());
  if (graph->bound == nullptr || (count & PY_VECTORCALL_ARGUMENTS_OFFSET) == 0) {
    return call(graph->fn, args, count, names);
  }
  PyObject*& first = const_cast<PyObject**>(args)[-1];  // ours to use and to leave as it was
  PyObject* before = std::exchange(first, graph->bound);
  PyObject* result = call(graph->function, &first, PyVectorcall_NARGS(count) + 1, names);
  first = before;
  return result;
}

// How many there are in a tuple or list, else -1.
Py_ssize_t count_of(PyObject* result) noexcept {
  return PyTuple_Check(result) || PyList_Check(result) ? Py_SIZE(result) : -1;
}

// Steals the result, which may be null.
DL_HIT PyObject* checked(const GraphCall* graph, PyObject* result) {
  if (result == nullptr || graph->wrong == nullptr || count_of(result) == graph->outputs) [[likely]] return result;
  const Ref found = Ref::steal(result);
  const Ref wrong = Ref::borrow(graph->wrong);
  return staying([&] { return PyObject_CallOneArg(wrong.get(), found.get()); });
}

DL_HIT PyObject* graph_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const GraphCall* graph = self_graph(self);
  if (!graph->keeps_state) return checked(graph, call_graph(graph, args, count, names));
  const KeptState state;
  PyObject* result = checked(graph, call_graph(graph, args, count, names));
  if (result == nullptr) state.restore();
  return result;
}

DL_HIT PyObject* graph_call_captured(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Py_ssize_t captured = self_graph(self)->captured;
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given < 1 || names != nullptr || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) < captured) {
    return PyErr_Format(PyExc_TypeError, "a graph with captured inputs is called with the tuple of them first");
  }
  const Py_ssize_t total = captured + given - 1;
  constexpr Py_ssize_t few = 64;
  PyObject* small[few + 1];
  auto** room = total <= few ? small : static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * (total + 1)));
  if (room == nullptr) return PyErr_NoMemory();
  PyObject** values = room + 1;  // a bound method puts its object in front
  for (Py_ssize_t at = 0; at < captured; ++at) values[at] = PyTuple_GET_ITEM(args[0], at);
  for (Py_ssize_t at = 1; at < given; ++at) values[captured + at - 1] = args[at];
  PyObject* result =
      graph_call(self, values, static_cast<std::size_t>(total) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (room != small) PyMem_Free(room);
  return result;
}

PyObject* graph_call_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"fn", "captured", "keeps_state", "outputs", "wrong", nullptr};
  PyObject* fn = nullptr;
  PyObject* wrong = nullptr;
  Py_ssize_t captured = 0;
  Py_ssize_t outputs = 0;
  int keeps_state = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|npnO", const_cast<char**>(names), &fn, &captured, &keeps_state,
                                   &outputs, &wrong)) {
    return nullptr;
  }
  if (!PyCallable_Check(fn)) return PyErr_Format(PyExc_TypeError, "%s can't be called", Py_TYPE(fn)->tp_name);
  if (captured < 0) return PyErr_Format(PyExc_ValueError, "captured is a number of inputs, not %zd", captured);
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  self_graph(self)->vectorcall = captured == 0 ? graph_call : graph_call_captured;
  self_graph(self)->fn = Py_NewRef(fn);
  self_graph(self)->function = PyMethod_Check(fn) ? PyMethod_GET_FUNCTION(fn) : fn;
  self_graph(self)->bound = PyMethod_Check(fn) ? PyMethod_GET_SELF(fn) : nullptr;
  self_graph(self)->wrong = Py_XNewRef(wrong);
  self_graph(self)->captured = captured;
  self_graph(self)->outputs = outputs;
  self_graph(self)->keeps_state = keeps_state != 0;
  return self;
}

int graph_call_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_graph(self)->fn);
  Py_VISIT(self_graph(self)->wrong);
  return 0;
}

int graph_call_clear(PyObject* self) {
  GraphCall* graph = self_graph(self);
  graph->function = Py_None;  // whoever still calls it is told that this can't be called
  graph->bound = nullptr;
  put(graph->fn, Py_NewRef(Py_None));
  clear(graph->wrong);
  return 0;
}

void graph_call_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self_graph(self)->fn);
  clear(self_graph(self)->wrong);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef graph_call_members[] = {
    {"fn", T_OBJECT, offsetof(GraphCall, fn), READONLY, nullptr},
    {"captured", T_PYSSIZET, offsetof(GraphCall, captured), READONLY, nullptr},
    {"keeps_state", T_BOOL, offsetof(GraphCall, keeps_state), READONLY, nullptr},
    {"wrong", T_OBJECT, offsetof(GraphCall, wrong), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GraphCall, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot graph_call_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(graph_call_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(graph_call_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(graph_call_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(graph_call_dealloc)},
    {Py_tp_members, graph_call_members},
    {0, nullptr},
};
PyType_Spec graph_call_spec = {"dynamo_lite._C.GraphCall", sizeof(GraphCall), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, graph_call_slots};

// -- Resume and Continuation -----------------------------------------------------------------------------------------------

struct Resume {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* code;  // owned
};

// Lives from the return of the new code to the call of the resume function.
struct Continuation {
  PyObject_VAR_HEAD
  PyObject* code;       // owned
  PyObject* closure;    // owned; None or a tuple of cells
  PyObject* values[1];  // owned, ob_size of them
};

PyTypeObject*& continuation_type() {
  static PyTypeObject* found = nullptr;
  return found;
}

Continuation* as_continuation(PyObject* object) { return reinterpret_cast<Continuation*>(object); }

PyObject* resume_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given < 1 || names != nullptr) return PyErr_Format(PyExc_TypeError, "a Resume is called with (closure, *values)");
  PyObject* made = continuation_type()->tp_alloc(continuation_type(), given - 1);
  if (made == nullptr) return nullptr;
  Continuation* continuation = as_continuation(made);
  continuation->code = Py_NewRef(reinterpret_cast<Resume*>(self)->code);
  continuation->closure = Py_NewRef(args[0]);
  for (Py_ssize_t at = 1; at < given; ++at) continuation->values[at - 1] = Py_NewRef(args[at]);
  return made;
}

PyObject* resume_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* code = nullptr;
  if (!PyArg_ParseTuple(args, "O!", &PyCode_Type, &code)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  reinterpret_cast<Resume*>(self)->vectorcall = resume_call;
  reinterpret_cast<Resume*>(self)->code = Py_NewRef(code);
  return self;
}

void resume_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  clear(reinterpret_cast<Resume*>(self)->code);
  type->tp_free(self);
  Py_DECREF(type);
}

void continuation_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Continuation* continuation = as_continuation(self);
  for (Py_ssize_t at = 0; at < Py_SIZE(self); ++at) clear(continuation->values[at]);
  clear(continuation->code);
  clear(continuation->closure);
  type->tp_free(self);
  Py_DECREF(type);
}

int continuation_traverse(PyObject* self, visitproc visit, void* arg) {
  Continuation* continuation = as_continuation(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(continuation->closure);
  for (Py_ssize_t at = 0; at < Py_SIZE(self); ++at) Py_VISIT(continuation->values[at]);
  return 0;
}

PyMemberDef resume_members[] = {
    {"code", T_OBJECT, offsetof(Resume, code), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Resume, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot resume_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(resume_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(resume_dealloc)},
    {Py_tp_members, resume_members},
    {0, nullptr},
};
PyType_Spec resume_spec = {"dynamo_lite._C.Resume", sizeof(Resume), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, resume_slots};

PyType_Slot continuation_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(continuation_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(continuation_traverse)},
    {0, nullptr},
};
PyType_Spec continuation_spec = {"dynamo_lite._C.Continuation",
                                 static_cast<int>(offsetof(Continuation, values)), sizeof(PyObject*),
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 continuation_slots};

}  // namespace

bool is_continuation(PyObject* object) noexcept { return Py_TYPE(object) == continuation_type(); }

Ref continuation_function(PyObject* object, PyObject* globals, PyObject* builtins) {
  Continuation* continuation = as_continuation(object);
  Ref function = Ref::steal(PyFunction_New(continuation->code, globals));
  if (!function) return function;
  set_function_builtins(function.get(), builtins);
  if (continuation->closure == Py_None) return function;
  if (PyFunction_SetClosure(function.get(), continuation->closure) < 0) return {};
  return function;
}

ContinuationArguments continuation_arguments(PyObject* object) noexcept {
  return {as_continuation(object)->values, static_cast<std::size_t>(Py_SIZE(object))};
}

void drop_arguments(PyObject* object) noexcept {
  for (Py_ssize_t at = 0; at < Py_SIZE(object); ++at) clear(as_continuation(object)->values[at]);
}

bool register_callables(PyObject* module) {
  for (PyType_Spec* spec : {&wrapped_spec, &instance_call_spec, &graph_call_spec, &resume_spec, &continuation_spec}) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(spec));
    if (type == nullptr || PyModule_AddType(module, type) < 0) return false;
    if (spec == &continuation_spec) continuation_type() = type;
  }
  return true;
}

}  // namespace dynamo_lite
