// What Python sees of guard trees: GuardTree and Failure.
#include "guards/guards.h"

#include <pybind11/stl.h>

#include <chrono>
#include <memory>

#include "cpython/dict_watchers.h"
#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "guards/global_state.h"
#include "guards/guard_tree.h"
#include "guards/guarded_object.h"
#include "heap_type.h"

namespace dynamo_lite {

namespace {

struct TreeObject {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD std::unique_ptr<GuardTree> tree;

  auto references() { return std::tie(); }
  int traverse(visitproc visit, void* arg) const { return tree->traverse(visit, arg); }
  void clear() { tree->clear(); }
};

// The first check of a tree that did not hold.
struct Failure {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD Ref reason;  // what was passed to check()
  Ref kind;                  // of check
  Ref expected;              // what the check is made with, as checks() has it; of `present` the kind of accessor
  Ref value;                 // what the check was made of, or None
  Ref differences;           // a tuple of tuples (what, now, was)
  Ref words;                 // why, if neither of these tells

  auto references() { return std::tie(reason, kind, expected, value, differences, words); }
};

FrameReader read_frame = nullptr;

py::object new_failure(PyObject* reason, const char* kind, Ref expected, Found found) {
  Ref value = found.value ? std::move(found.value) : Ref::borrow(Py_None);
  return py::cast(HeapType<Failure>::make(Ref::borrow(reason), str_of(kind), std::move(expected), std::move(value),
                                          as_tuple(found.differences), str_of(found.words)));
}

Ref new_tree(std::unique_ptr<GuardTree> tree) {
  GuardTree* made = tree.get();
  Ref self = checked(HeapType<TreeObject>::make(std::move(tree)));
  if (!made->create(self.get())) throw py::error_already_set();
  return self;
}

// The frame to test a tree on: that of a FrameView, or one that has the locals of a tuple and nothing else.
class TriedFrame {
 public:
  TriedFrame(const GuardTree& tree, py::handle frame) {
    if (!PyTuple_CheckExact(frame.ptr())) {
      slots_ = &read_frame(frame);
      return;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(frame.ptr());
    if (count != tree.local_count()) {
      raise(PyExc_ValueError, "the code has %zd locals, not %zd", tree.local_count(), count);
    }
    locals_.slots = as_slots(tuple_items(frame.ptr()));
  }
  TriedFrame(const TriedFrame&) = delete;
  TriedFrame& operator=(const TriedFrame&) = delete;
  const FrameSlots& operator*() const noexcept { return *slots_; }

 private:
  FrameSlots locals_{};
  const FrameSlots* slots_ = &locals_;  // else borrowed from the FrameView
};

py::object test(TreeObject& self, py::handle frame) {
  py::object failure = explain(*self.tree, *TriedFrame(*self.tree, frame));
  return failure ? failure : py::none();
}

Ref lookup(TreeObject& self, py::handle frame) {
  Ref captured;
  if (!check(*self.tree, *TriedFrame(*self.tree, frame), captured)) return Ref::borrow(Py_None);
  return captured ? captured : Ref::steal(PyTuple_New(0));
}

double cost(TreeObject& self, py::handle frame, int repeats) {
  const FrameSlots& slots = read_frame(frame);
  if (repeats < 1) raise(PyExc_ValueError, "cost() needs at least one repeat, not %d", repeats);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    Ref captured;
    check(*self.tree, slots, captured);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / repeats;
}

py::list checks(TreeObject& self) {
  py::list list;
  for (const Check* check : self.tree->all_checks()) {
    list.append(py::make_tuple(py::handle(check->reason()), check->kind().name, check->object()));
  }
  return list;
}

}  // namespace

void register_guards(py::module_& module, FrameReader reader) {
  if (!prepare_standard_types()) throw py::error_already_set();
  prepare_watch();
  read_frame = reader;
  register_guarded_object(module);
  register_global_state(module);
  register_accessors(module);
  register_checks(module);
  HeapType<Failure>(module, "dynamo_lite._C.Failure",
                    {{"reason", T_OBJECT, offsetof(Failure, reason), READONLY, nullptr},
                     {"kind", T_OBJECT, offsetof(Failure, kind), READONLY, nullptr},
                     {"expected", T_OBJECT, offsetof(Failure, expected), READONLY, nullptr},
                     {"value", T_OBJECT, offsetof(Failure, value), READONLY, nullptr},
                     {"differences", T_OBJECT, offsetof(Failure, differences), READONLY, nullptr},
                     {"words", T_OBJECT, offsetof(Failure, words), READONLY, nullptr}});
  HeapType<TreeObject>(module, "dynamo_lite._C.GuardTree")
      .def_new([](py::handle, const Code& code) { return new_tree(std::make_unique<GuardTree>(code)); },
               py::arg("code"))
      .def(
          "child",
          [](TreeObject& self, Py_ssize_t parent, const char* kind, py::handle arg) {
            return self.tree->add_child(parent, kind, arg.ptr());
          },
          py::arg("parent"), py::arg("kind"), py::arg("arg") = py::none())
      .def(
          "check",
          [](TreeObject& self, Py_ssize_t node, const char* kind, py::handle arg, py::handle reason) {
            self.tree->add_check(node, kind, arg.ptr(), reason.ptr());
          },
          py::arg("node"), py::arg("kind"), py::arg("arg"), py::arg("reason"))
      .def("capture", [](TreeObject& self, Py_ssize_t node) { return self.tree->add_capture(node); })
      .def("checks", checks)
      .def(
          "seconds_of_checks",
          [](TreeObject& self, py::handle frame) { return self.tree->seconds_of_checks(read_frame(frame)); },
          py::arg("frame"))
      .def("test", test)
      .def("lookup", lookup)
      .def("cost", cost, py::arg("frame"), py::arg("repeats") = 1000)
      .def_property("valid", [](TreeObject& self) { return self.tree->alive(); });
}

bool is_guard_tree(PyObject* object) noexcept { return HeapType<TreeObject>::is(object); }

GuardTree& guard_tree(PyObject* object) noexcept { return *HeapType<TreeObject>::of(object).tree; }

Ref copied_tree(PyObject* object) { return new_tree(std::make_unique<GuardTree>(guard_tree(object))); }

bool is_valid(const GuardTree& tree) noexcept { return tree.alive(); }

bool check(GuardTree& tree, const FrameSlots& frame, Ref& captured) noexcept {
  try {
    return tree.walk(frame, &captured, nullptr);
  } catch (const std::exception&) {
    return false;
  }
}

py::object explain(GuardTree& tree, const FrameSlots& frame) {
  Miss miss;
  if (tree.walk(frame, nullptr, &miss)) return {};
  if (!miss.check && miss.node == 0) {  // it wasn't walked
    const char* why = tree.alive() ? "the guards are at work" : "an object was deallocated, or memory was short";
    return new_failure(Py_None, "present", Ref::borrow(Py_None), {.words = why});
  }
  PyObject* reason = tree.reason_of(miss);
  if (!miss.check) {
    return new_failure(reason, "present", str_of(tree.accessor(miss.node).kind().name), std::move(miss.found));
  }
  return new_failure(reason, miss.check->kind().name, miss.check->object(), std::move(miss.found));
}

}  // namespace dynamo_lite
