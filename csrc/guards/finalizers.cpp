#include "guards/finalizers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "prefetch.h"
#include "cpython/frames.h"
#include "cpython/objects.h"
#include "refs.h"
#include "guards/tensors.h"

namespace dynamo_lite {

namespace {

constexpr std::size_t kMost = 10000;  // values that are looked into

// A tuple of classes whose instances' parts are held by others too; kept for the life of the process.
PyObject*& held_elsewhere() {
  static PyObject* classes = nullptr;
  return classes;
}

// Of types that hold nothing, can't be weakly referenced and have no finalizer.
bool is_atom(PyObject* value) noexcept {
  const PyTypeObject* type = Py_TYPE(value);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
         type == Py_TYPE(Py_None) || type == &PyBytes_Type || type == &PyComplex_Type;
}

// A generator that waits nowhere has nothing to leave.
bool is_finalized(PyObject* value) noexcept {
  const PyTypeObject* type = Py_TYPE(value);
  if (type->tp_finalize == nullptr && type->tp_del == nullptr) return false;
  return type != &PyGen_Type || is_suspended(value);
}

// Whether a name of a module is of the standard library or torch's.
bool is_of_library(PyObject* name) noexcept {
  PyObject* library = PySys_GetObject("stdlib_module_names");
  if (!PyUnicode_Check(name) || library == nullptr || !PyAnySet_Check(library)) return false;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(name);
  const Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, length, 1);
  const Ref root = Ref::steal(PyUnicode_Substring(name, 0, dot < 0 ? length : dot));
  const bool trusted =
      root && (PyUnicode_CompareWithASCIIString(root.get(), "torch") == 0 || PySet_Contains(library, root.get()) == 1);
  PyErr_Clear();
  return trusted;
}

// The same. The names last found so are known again by identity, and kept for the life of the process.
bool is_trusted(PyObject* name) noexcept {
  static std::array<PyObject*, 8> known{};
  static std::size_t next = 0;
  if (std::find(known.begin(), known.end(), name) != known.end()) return true;
  if (!is_of_library(name)) return false;
  Py_XSETREF(known[next++ % known.size()], Py_NewRef(name));
  return true;
}

// Whether a callback may be the program's. Weak containers tidy up by functions of their modules, guards by objects.
bool is_heard(PyObject* callback) noexcept {
  if (callback == nullptr || std::strncmp(Py_TYPE(callback)->tp_name, "dynamo_lite._C.", 15) == 0) return false;
  PyObject* module = PyFunction_Check(callback) ? PyFunction_GET_MODULE(callback) : nullptr;
  return module == nullptr || !is_trusted(module);
}

// Classes, of which the interpreter has weak references, modules and functions in C are watched by libraries.
bool is_watched(PyObject* value) noexcept {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(value))) return false;
  if (PyType_Check(value) || PyModule_Check(value) || PyCFunction_Check(value)) return false;
  for (WeakCallbacks each(value); each.next();) {
    if (is_heard(each.callback)) return true;
  }
  return false;
}

// What a value may alone hold is looked through, breadth first.
class Search {
 public:
  bool finds(PyObject* value) noexcept {
    found_ = false;
    come_to(value);
    for (std::size_t at = 0; at < waiting_.size() && !found_; ++at) look_into(waiting_[at]);
    return found_;
  }

 private:
  static int visit(PyObject* value, void* self) noexcept {
    static_cast<Search*>(self)->come_to(value);
    return static_cast<Search*>(self)->found_;
  }

  void come_to(PyObject* value) noexcept {
    if (value == nullptr || is_atom(value)) return;
    if (is_finalized(value) || is_watched(value)) {
      found_ = true;
    } else if (may_alone_hold(value) && seen_.insert(value).second) {
      found_ = waiting_.size() >= kMost;
      waiting_.push_back(value);
    }
  }

  static bool may_alone_hold(PyObject* value) noexcept {
    if (!PyObject_IS_GC(value) || PyType_Check(value) || PyModule_Check(value) || is_tensor(value)) return false;
    PyObject* classes = held_elsewhere();
    for (Py_ssize_t i = 0; classes != nullptr && i < PyTuple_GET_SIZE(classes); ++i) {
      if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, i)))) return false;
    }
    return true;
  }

  // Of a function not its globals: they are its module's.
  void look_into(PyObject* value) noexcept {
    if (!PyFunction_Check(value)) {
      Py_TYPE(value)->tp_traverse(value, visit, this);
      return;
    }
    const auto* function = reinterpret_cast<PyFunctionObject*>(value);
    for (PyObject* each : {function->func_defaults, function->func_kwdefaults, function->func_closure, function->func_dict}) {
      come_to(each);
    }
  }

  std::vector<PyObject*> waiting_;  // borrowed, and all that were looked into before
  std::unordered_set<PyObject*> seen_;
  bool found_ = false;
};

PyObject* seen_to_die(PyObject*, PyObject* value) { return PyBool_FromLong(is_seen_to_die(value)); }

PyObject* set_held_elsewhere(PyObject*, PyObject* classes) {
  if (!PyTuple_Check(classes)) return PyErr_Format(PyExc_TypeError, "a tuple of classes is wanted, not %R", classes);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) {
    if (!PyType_Check(PyTuple_GET_ITEM(classes, i))) return PyErr_Format(PyExc_TypeError, "%R has no class", classes);
  }
  Py_XSETREF(held_elsewhere(), Py_NewRef(classes));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"is_seen_to_die", seen_to_die, METH_O, "Whether the program could see when a value dies."},
    {"set_held_elsewhere", set_held_elsewhere, METH_O, "Classes whose instances' parts are held by others too."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

DL_HIT bool is_seen_to_die(PyObject* value) noexcept {
  if (is_atom(value)) return false;
  if (is_tensor(value)) return is_finalized(value) || is_watched(value);
  return Search().finds(value);
}

bool register_deaths(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace dynamo_lite
