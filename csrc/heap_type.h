// Python types for the hot path: C++ reads and calls their objects without pybind11.
//
// An object is an aggregate T that begins with PyObject_HEAD and owns its references as `Ref`s. `T::references()`
// returns these as a tuple, which the garbage collector visits and clears. If T defines `clear()`, it is called
// instead; if T defines `traverse(visit, arg)`, it is called in addition. Members named `vectorcall`, `dict` and
// `weakrefs` become the type's slots of the same purpose. Methods are called through pybind11, which converts arguments
// (T& accepts an object of this type) and translates exceptions.
#pragma once

#include <pybind11/pybind11.h>
#include <structmember.h>

#include <cstddef>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "refs.h"

namespace dynamo_lite {

namespace py = pybind11;

// Throws a Python exception. `format` and the arguments are those of PyErr_Format.
template <typename... Arguments>
[[noreturn, gnu::cold]] void raise(PyObject* type, const char* format, Arguments... arguments) {
  PyErr_Format(type, format, arguments...);
  throw py::error_already_set();
}

// Sets the Python exception that corresponds to the C++ exception being handled. C++ exceptions must not unwind
// CPython's frames.
[[gnu::cold]] inline void set_python_error() noexcept {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

// Returns the reference. If it is empty, throws the Python exception that is set.
inline Ref checked(Ref made) {
  if (!made) throw py::error_already_set();
  return made;
}

// An argument that is a code object.
class Code : public py::object {
 public:
  PYBIND11_OBJECT(Code, py::object, PyCode_Check)
  operator PyCodeObject*() const noexcept { return reinterpret_cast<PyCodeObject*>(ptr()); }
};

template <typename T>
class HeapType {
 public:
  static inline PyTypeObject* type = nullptr;  // owned for the life of the process

  static bool is(PyObject* object) noexcept { return Py_TYPE(object) == type; }
  static T& of(PyObject* object) noexcept { return *reinterpret_cast<T*>(object); }

  // Creates an object with these members after the header. Empty with an exception set on failure.
  template <typename... Members>
  static Ref make(Members&&... members) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) return {};
    const PyObject header = *self;
    new (self) T{header, std::forward<Members>(members)...};
    return Ref::steal(self);
  }

  // Creates the type and adds it to the module. `members` and `slots` are added to those derived from T.
  HeapType(py::module_& module, const char* name, std::vector<PyMemberDef> members = {},
           std::vector<PyType_Slot> slots = {}, unsigned long flags = 0) {
    flags |= Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    slots.push_back({Py_tp_dealloc, reinterpret_cast<void*>(dealloc)});
    if constexpr (kIsCollected) {
      flags |= Py_TPFLAGS_HAVE_GC;
      slots.push_back({Py_tp_traverse, reinterpret_cast<void*>(traverse)});
      slots.push_back({Py_tp_clear, reinterpret_cast<void*>(clear)});
    }
    if constexpr (requires { &T::vectorcall; }) {
      flags |= Py_TPFLAGS_HAVE_VECTORCALL;
      members.push_back({"__vectorcalloffset__", T_PYSSIZET, offsetof(T, vectorcall), READONLY, nullptr});
      slots.push_back({Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)});
    }
    if constexpr (requires { &T::dict; }) {
      members.push_back({"__dictoffset__", T_PYSSIZET, offsetof(T, dict), READONLY, nullptr});
    }
    if constexpr (requires { &T::weakrefs; }) {
      members.push_back({"__weaklistoffset__", T_PYSSIZET, offsetof(T, weakrefs), READONLY, nullptr});
    }
    members.push_back({nullptr, 0, 0, 0, nullptr});
    slots.push_back({Py_tp_members, members.data()});
    slots.push_back({0, nullptr});
    PyType_Spec spec = {name, sizeof(T), 0, static_cast<unsigned>(flags), slots.data()};
    type = reinterpret_cast<PyTypeObject*>(checked(Ref::steal(PyType_FromSpec(&spec))).release());
    if (PyModule_AddType(module.ptr(), type) < 0) throw py::error_already_set();
  }

  // Defines `__new__`. `make` takes the class, which it may ignore, and the constructor's arguments. It returns a Ref.
  template <typename Make, typename... Extra>
  HeapType& def_new(Make&& make, const Extra&... extra) {
    const py::cpp_function function(std::forward<Make>(make), py::name("__new__"), py::arg("cls"), extra...);
    type->tp_flags &= ~static_cast<unsigned long>(Py_TPFLAGS_DISALLOW_INSTANTIATION);
    self().attr("__new__") = py::staticmethod(function);
    return *this;
  }

  template <typename Function, typename... Extra>
  HeapType& def(const char* name, Function&& function, const Extra&... extra) {
    self().attr(name) =
        py::cpp_function(std::forward<Function>(function), py::name(name), py::is_method(self()), extra...);
    return *this;
  }

  template <typename Getter>
  HeapType& def_property(const char* name, Getter&& getter) {
    const py::object property = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyProperty_Type));
    self().attr(name) = property(py::cpp_function(std::forward<Getter>(getter), py::is_method(self())));
    return *this;
  }

 private:
  static constexpr bool kIsCollected = requires(T& object) { object.references(); };

  static py::handle self() noexcept { return reinterpret_cast<PyObject*>(type); }

  static int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    int stop = 0;
    const auto each = [&](const Ref& ref) { return stop == 0 && ref ? visit(ref.get(), arg) : stop; };
    std::apply([&](auto&... refs) { ((stop = each(refs)), ...); }, of(object).references());
    if constexpr (requires { of(object).traverse(visit, arg); }) stop = stop ? stop : of(object).traverse(visit, arg);
    return stop;
  }

  static int clear(PyObject* object) {
    if constexpr (requires { of(object).clear(); }) {
      of(object).clear();
    } else {
      std::apply([](auto&... refs) { (refs.reset(), ...); }, of(object).references());
    }
    return 0;
  }

  static void dealloc(PyObject* object) {
    if constexpr (kIsCollected) PyObject_GC_UnTrack(object);
    if constexpr (requires { &T::weakrefs; }) {
      if (of(object).weakrefs != nullptr) PyObject_ClearWeakRefs(object);
    }
    of(object).~T();
    type->tp_free(object);
    Py_DECREF(type);
  }
};

}  // namespace dynamo_lite

namespace pybind11::detail {

// Converts arguments that are objects of a HeapType. None converts to a null pointer.
template <typename T>
class type_caster<T, std::enable_if_t<T::kIsHeapObject>> {
 public:
  static constexpr auto name = const_name("object");
  bool load(handle source, bool) {
    object_ = dynamo_lite::HeapType<T>::is(source.ptr()) ? &dynamo_lite::HeapType<T>::of(source.ptr()) : nullptr;
    return object_ != nullptr || source.is_none();
  }
  operator T&() {
    if (object_ == nullptr) throw reference_cast_error();
    return *object_;
  }
  operator T*() { return object_; }
  template <typename Wanted>
  using cast_op_type = pybind11::detail::cast_op_type<Wanted>;

 private:
  T* object_ = nullptr;
};

// Converts Refs. An empty Ref as a result means that a Python exception is set.
template <>
class type_caster<dynamo_lite::Ref> {
 public:
  PYBIND11_TYPE_CASTER(dynamo_lite::Ref, const_name("object"));
  bool load(handle source, bool) {
    value = dynamo_lite::Ref::borrow(source.ptr());
    return true;
  }
  static handle cast(dynamo_lite::Ref made, return_value_policy, handle) {
    return dynamo_lite::checked(std::move(made)).release();
  }
};

}  // namespace pybind11::detail
