// RAII for references to Python objects. A `PyObject*` in this project's signatures is borrowed unless it says so.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace dynamo_lite {

// Calls what may run Python below frames with destructors. While the interpreter finalizes, CPython ends a thread that
// waits for the GIL by pthread_exit(), which unwinds: it would run the destructors without the GIL, and abort the
// process at the first noexcept function. Such a thread hangs instead, as from CPython 3.14 on.
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

// Gives up one reference, or nothing.
template <typename Object>
inline void drop(Object* object) noexcept {
  auto* dropped = reinterpret_cast<PyObject*>(object);
  if (dropped == nullptr) return;
  if (Py_REFCNT(dropped) == 1) return drop_last(dropped);
  Py_DECREF(dropped);
}

// Empties a place that owns a reference.
template <typename Object>
inline void clear(Object*& place) noexcept {
  drop(std::exchange(place, nullptr));
}

// Puts a reference, which is taken over, into a place that owns one.
template <typename Object>
inline void put(Object*& place, Object* object) noexcept {
  drop(std::exchange(place, object));
}

// Owns one reference, or nothing.
class Ref {
 public:
  Ref() noexcept = default;
  // Takes over a reference that the caller owns (a "new reference"); null stays empty.
  static Ref steal(PyObject* object) noexcept { return Ref(object); }
  // Adds a reference to a borrowed object; null stays empty.
  static Ref borrow(PyObject* object) noexcept { return Ref(Py_XNewRef(object)); }

  Ref(const Ref& other) noexcept : object_(Py_XNewRef(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  [[gnu::always_inline]] ~Ref() { drop(object_); }  // a hit destroys six; most are empty or not the last reference

  PyObject* get() const noexcept { return object_; }
  // Gives the reference to the caller.
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept { Ref().swap(*this); }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* object) noexcept : object_(object) {}
  PyObject* object_ = nullptr;
};

// Saves the exception that is set (if any) and puts it back.
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
