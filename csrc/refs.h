// RAII for references to Python objects. A `PyObject*` in a signature is borrowed unless the comment says otherwise.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace dynamo_lite {

// Calls a function that may run Python, from C++ frames that have destructors. While the interpreter finalizes, CPython
// ends a thread that waits for the GIL with pthread_exit(). That unwinds the stack: it would run the destructors
// without the GIL and abort the process at the first noexcept function. Such a thread hangs instead, as CPython 3.14
// does.
template <typename Call>
inline auto hang_at_exit(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

[[gnu::noinline]] inline void drop_last(PyObject* object) noexcept {
  hang_at_exit([object] { Py_DECREF(object); });
}

// Drops one reference; does nothing for null.
template <typename Object>
inline void drop(Object* object) noexcept {
  auto* dropped = reinterpret_cast<PyObject*>(object);
  if (dropped == nullptr) return;
  if (Py_REFCNT(dropped) == 1) return drop_last(dropped);
  Py_DECREF(dropped);
}

// Drops the reference that a variable owns and sets it to null.
template <typename Object>
inline void clear(Object*& place) noexcept {
  drop(std::exchange(place, nullptr));
}

// Replaces the reference that a variable owns. Takes ownership of the new one.
template <typename Object>
inline void put(Object*& place, Object* object) noexcept {
  drop(std::exchange(place, object));
}

// Owns one reference, or is empty.
class Ref {
 public:
  Ref() noexcept = default;
  // Takes ownership of a reference from the caller (a "new reference"). Empty for null.
  static Ref steal(PyObject* object) noexcept { return Ref(object); }
  // Adds a reference to a borrowed object. Empty for null.
  static Ref borrow(PyObject* object) noexcept { return Ref(Py_XNewRef(object)); }

  Ref(const Ref& other) noexcept : object_(Py_XNewRef(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  [[gnu::always_inline]] ~Ref() { drop(object_); }  // a hit destroys six; few are last references

  PyObject* get() const noexcept { return object_; }
  // Transfers the reference to the caller.
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept { Ref().swap(*this); }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* object) noexcept : object_(object) {}
  PyObject* object_ = nullptr;
};

// Saves the exception that is set, if any, and restores it on destruction.
class SavedError {
 public:
  SavedError() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~SavedError() {
    hang_at_exit([this] { PyErr_Restore(type_, value_, traceback_); });
  }
  SavedError(const SavedError&) = delete;
  SavedError& operator=(const SavedError&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

}  // namespace dynamo_lite
