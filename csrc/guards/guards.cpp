// The Python faces of guard trees: GuardTree and Failure.
#include "guards/guards.h"

#include <structmember.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <new>

#include "guards/constants.h"
#include "cpython/dict_watchers.h"
#include "cpython/objects.h"
#include "guards/global_state.h"
#include "guards/guard_tree.h"
#include "guards/guarded_object.h"
#include "cpython/lookup.h"

namespace dynamo_lite {

namespace {

struct TreeObject {
  PyObject_HEAD
  GuardTree* tree;  // owned
};

struct FailureObject {
  PyObject_HEAD
  PyObject* reason;    // each owned
  PyObject* kind;
  PyObject* expected;
  PyObject* found;
};

struct Types {
  PyTypeObject* tree = nullptr;  // each owned for the life of the process
  PyTypeObject* failure = nullptr;
};

Types& types() noexcept {
  static Types made;
  return made;
}

FrameReader read_frame = nullptr;

Ref text(const std::string& words) {
  return Ref::steal(PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace"));
}

// A new Failure; empty with an exception set on failure.
Ref new_failure(PyObject* why, const char* kind_name, Ref expected, const std::string& words) {
  Ref reason = Ref::borrow(why);
  Ref kind = text(kind_name);
  Ref found = text(words);
  if (!kind || !expected || !found) return {};
  auto* failure = PyObject_GC_New(FailureObject, types().failure);
  if (!failure) return {};
  failure->reason = reason.release();
  failure->kind = kind.release();
  failure->expected = expected.release();
  failure->found = found.release();
  PyObject_GC_Track(failure);
  return Ref::steal(reinterpret_cast<PyObject*>(failure));
}

// -- GuardTree ----------------------------------------------------------------------------------------------------

// An object that owns the tree; empty with an exception set.
Ref object_of(PyTypeObject* type, std::unique_ptr<GuardTree> tree) {
  Ref self = Ref::steal(type->tp_alloc(type, 0));
  if (!self || !tree->create(self.get())) return {};
  reinterpret_cast<TreeObject*>(self.get())->tree = tree.release();
  return self;
}

PyObject* tree_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"code", nullptr};
  PyObject* code;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:GuardTree", const_cast<char**>(names), &PyCode_Type, &code)) {
    return nullptr;
  }
  return object_of(type, std::make_unique<GuardTree>(reinterpret_cast<PyCodeObject*>(code))).release();
}

int tree_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const GuardTree* tree = reinterpret_cast<TreeObject*>(self)->tree;
  return tree ? tree->traverse(visit, arg) : 0;
}

int tree_clear(PyObject* self) {
  if (GuardTree* tree = reinterpret_cast<TreeObject*>(self)->tree) tree->clear();
  return 0;
}

void tree_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<TreeObject*>(self)->tree;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* tree_child(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"parent", "kind", "arg", nullptr};
  Py_ssize_t parent;
  const char* kind;
  PyObject* arg = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ns|O:child", const_cast<char**>(names), &parent, &kind, &arg)) {
    return nullptr;
  }
  const Py_ssize_t node = guard_tree(self).add_child(parent, kind, arg);
  return node < 0 ? nullptr : PyLong_FromSsize_t(node);
}

PyObject* tree_check(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"node", "kind", "arg", "reason", nullptr};
  Py_ssize_t node;
  const char* kind;
  PyObject* arg;
  PyObject* reason;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nsOO:check", const_cast<char**>(names), &node, &kind, &arg,
                                   &reason)) {
    return nullptr;
  }
  if (!guard_tree(self).add_check(node, kind, arg, reason)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* tree_capture(PyObject* self, PyObject* node_number) {
  const Py_ssize_t node = PyLong_AsSsize_t(node_number);
  if (node == -1 && PyErr_Occurred()) return nullptr;
  const Py_ssize_t index = guard_tree(self).add_capture(node);
  return index < 0 ? nullptr : PyLong_FromSsize_t(index);
}

PyObject* tree_checks(PyObject* self, PyObject*) {
  Ref list = Ref::steal(PyList_New(0));
  if (!list) return nullptr;
  for (const Check* check : guard_tree(self).checks_in_order()) {
    const Ref argument = check->argument();
    if (!argument) return nullptr;
    const Ref row = Ref::steal(Py_BuildValue("OsO", check->reason(), check->kind_name(), argument.get()));
    if (!row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

// What a tree is asked about: a frame that a FrameView shows, or one of which there are its locals and nothing else.
class Asked {
 public:
  // A TypeError or ValueError is set where this is false afterwards.
  Asked(const GuardTree& tree, PyObject* frame) : slots_(PyTuple_CheckExact(frame) ? nullptr : read_frame(frame)) {
    if (slots_ || PyErr_Occurred()) return;
    if (PyTuple_GET_SIZE(frame) == tree.local_count()) {
      locals_.values = tuple_items(frame);
      slots_ = &locals_;
    } else {
      PyErr_Format(PyExc_ValueError, "the code has %zd locals, not %zd", tree.local_count(), PyTuple_GET_SIZE(frame));
    }
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  explicit operator bool() const noexcept { return slots_ != nullptr; }
  const FrameSlots& operator*() const noexcept { return *slots_; }

 private:
  FrameSlots locals_{};
  const FrameSlots* slots_;  // borrowed from the FrameView, or `locals_`
};

PyObject* tree_test(PyObject* self, PyObject* frame) {
  const Asked slots(guard_tree(self), frame);
  if (!slots) return nullptr;
  Ref failure = explain(guard_tree(self), *slots);
  if (failure) return failure.release();
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* tree_lookup(PyObject* self, PyObject* frame) {
  const Asked slots(guard_tree(self), frame);
  if (!slots) return nullptr;
  Ref captured;
  if (!check(guard_tree(self), *slots, captured)) Py_RETURN_NONE;
  return captured ? captured.release() : PyTuple_New(0);
}

PyObject* tree_cost(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"frame", "repeats", nullptr};
  PyObject* frame;
  int repeats = 1000;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:cost", const_cast<char**>(names), &frame, &repeats)) {
    return nullptr;
  }
  const FrameSlots* slots = read_frame(frame);
  if (!slots) return nullptr;
  if (repeats < 1) return PyErr_Format(PyExc_ValueError, "cost() needs at least one repeat, not %d", repeats);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    Ref captured;
    check(guard_tree(self), *slots, captured);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return PyFloat_FromDouble(took.count() / repeats);
}

PyCFunction with_keywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef tree_methods[] = {
    {"child", with_keywords(tree_child), METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("child(parent, kind, arg=None)\n--\n\nThe number of a new node, one accessor from its parent. "
               "ValueError for a kind that is not there.")},
    {"check", with_keywords(tree_check), METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("check(node, kind, arg, reason)\n--\n\nDemand something of a node's value; a Failure has the reason.")},
    {"capture", tree_capture, METH_O,
     PyDoc_STR("capture(node)\n--\n\nThe index of the node's value in the tuple that a hit captures.")},
    {"checks", tree_checks, METH_NOARGS,
     PyDoc_STR("checks()\n--\n\n(reason, kind, arg) in the order they are made.")},
    {"test", tree_test, METH_O,
     PyDoc_STR("test(frame)\n--\n\nThe first Failure of a FrameView, or of a tuple of all locals, or None. "
               "Remembers nothing.")},
    {"lookup", tree_lookup, METH_O,
     PyDoc_STR("lookup(frame)\n--\n\nWhat the hook does: the captured values where all holds, else None.")},
    {"cost", with_keywords(tree_cost), METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("cost(frame, repeats=1000)\n--\n\nSeconds that one lookup takes.")},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* tree_valid(PyObject* self, void*) { return PyBool_FromLong(guard_tree(self).alive()); }

PyGetSetDef tree_getters[] = {
    {"valid", tree_valid, nullptr, PyDoc_STR("False once something that the tree holds weakly has died."), nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// -- Failure ------------------------------------------------------------------------------------------------------

int failure_traverse(PyObject* self, visitproc visit, void* arg) {
  const auto* failure = reinterpret_cast<FailureObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(failure->reason);
  Py_VISIT(failure->expected);
  return 0;
}

int failure_clear(PyObject* self) {
  auto* failure = reinterpret_cast<FailureObject*>(self);
  clear(failure->reason);
  clear(failure->kind);
  clear(failure->expected);
  clear(failure->found);
  return 0;
}

void failure_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  failure_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* failure_repr(PyObject* self) {
  const auto* failure = reinterpret_cast<FailureObject*>(self);
  return PyUnicode_FromFormat("<Failure of '%V': %V>", failure->kind, "?", failure->found, "?");
}

PyMemberDef failure_members[] = {
    {"reason", T_OBJECT, offsetof(FailureObject, reason), READONLY, PyDoc_STR("What was passed to check().")},
    {"kind", T_OBJECT, offsetof(FailureObject, kind), READONLY, PyDoc_STR("The kind of check.")},
    {"expected", T_OBJECT, offsetof(FailureObject, expected), READONLY, PyDoc_STR("The check's argument.")},
    {"found", T_OBJECT, offsetof(FailureObject, found), READONLY, PyDoc_STR("What is there instead, in words.")},
    {nullptr, 0, 0, 0, nullptr},
};

bool make_types() {
  PyType_Slot tree_slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(tree_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tree_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(tree_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tree_clear)},
      {Py_tp_methods, tree_methods},
      {Py_tp_getset, tree_getters},
      {Py_tp_doc, const_cast<char*>("Assumptions about a frame that has not begun, as a tree.")},
      {0, nullptr},
  };
  PyType_Spec tree_spec = {"dynamo_lite._C.GuardTree", sizeof(TreeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           tree_slots};
  PyType_Slot failure_slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(failure_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(failure_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(failure_clear)},
      {Py_tp_repr, reinterpret_cast<void*>(failure_repr)},
      {Py_tp_members, failure_members},
      {Py_tp_doc, const_cast<char*>("The first check of a tree that did not hold.")},
      {0, nullptr},
  };
  PyType_Spec failure_spec = {"dynamo_lite._C.Failure", sizeof(FailureObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              failure_slots};
  if (!types().tree) types().tree = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&tree_spec));
  if (!types().failure) types().failure = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&failure_spec));
  return types().tree && types().failure;
}

}  // namespace

bool register_guards(PyObject* module) {
  return prepare_lookups() && prepare_watch() && prepare_objects() && prepare_held() && make_types() &&
         PyModule_AddObjectRef(module, "GuardTree", reinterpret_cast<PyObject*>(types().tree)) == 0 &&
         PyModule_AddObjectRef(module, "Failure", reinterpret_cast<PyObject*>(types().failure)) == 0 &&
         register_global_state(module);
}

void set_frame_reader(FrameReader reader) noexcept { read_frame = reader; }

bool is_guard_tree(PyObject* object) noexcept { return Py_TYPE(object) == types().tree; }

GuardTree& guard_tree(PyObject* object) noexcept { return *reinterpret_cast<TreeObject*>(object)->tree; }

Ref copied_tree(PyObject* object) {
  return object_of(types().tree, std::make_unique<GuardTree>(guard_tree(object)));
}

bool is_valid(const GuardTree& tree) noexcept { return tree.alive(); }

bool check(GuardTree& tree, const FrameSlots& frame, Ref& captured) noexcept {
  return tree.walk(frame, &captured, nullptr);
}

Ref explain(GuardTree& tree, const FrameSlots& frame) {
  Miss miss;
  if (tree.walk(frame, nullptr, &miss)) return {};
  if (!tree.alive()) return new_failure(Py_None, "present", Ref::borrow(Py_None), "an object of the guards has died");
  Ref expected = miss.check ? miss.check->argument() : text(tree.accessor(miss.node).in_words());
  const char* kind = miss.check ? miss.check->kind_name() : "present";
  return new_failure(tree.reason_of(miss), kind, std::move(expected), miss.found);
}

}  // namespace dynamo_lite
