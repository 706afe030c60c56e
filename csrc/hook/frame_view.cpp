#include "hook/frame_view.h"

#include <utility>
#include <vector>

#include "guards/guards.h"

namespace dynamo_lite {

namespace {

struct FrameView {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD const FrameSlots* shown;  // borrowed; null once the callback has returned
  Owner* compiler;                        // borrowed, valid while `shown` is set
  std::vector<Ref> releases = {};         // the `release` methods of the locks that are held

  const FrameSlots& slots() const {
    if (shown == nullptr) raise(PyExc_RuntimeError, "this FrameView is no longer valid: its callback has returned");
    return *shown;
  }
  Owner& owner() const {
    slots();
    return *compiler;
  }
  void end() noexcept {
    shown = nullptr;
    const SavedError error;
    for (; !releases.empty(); releases.pop_back()) {
      PyObject* release = releases.back().get();
      if (!Ref::steal(PyObject_CallNoArgs(release))) PyErr_WriteUnraisable(release);
    }
  }

  // Acquires the lock in C, so that no signal handler can run between the acquisition and the push to `releases`.
  bool hold(const Ref& lock, double seconds) {
    slots();
    Ref release = checked(Ref::steal(PyObject_GetAttrString(lock.get(), "release")));  // first: it may fail
    releases.reserve(releases.size() + 1);
    const Ref acquired =
        hang_at_exit([&] { return Ref::steal(PyObject_CallMethod(lock.get(), "acquire", "Od", Py_True, seconds)); });
    if (!acquired) throw py::error_already_set();
    if (acquired.get() == Py_True) releases.push_back(std::move(release));
    return acquired.get() == Py_True;
  }

  OwnerSlot* slot() const {
    Extra* extra = extra_of(slots().code);
    return extra == nullptr ? nullptr : extra->find(compiler);
  }
};

py::dict locals(FrameView& view) {
  const FrameSlots& slots = view.slots();
  py::dict found;
  for (int at = 0; at < argument_count(slots.code); ++at) {
    if (slots.value(at) == nullptr) continue;
    found[py::handle(PyTuple_GET_ITEM(slot_names(slots.code), at))] = py::handle(slots.value(at));
  }
  return found;
}

std::size_t entry_count(FrameView& view) {
  drop_invalid(view.slots().code, &view.owner());
  const OwnerSlot* slot = view.slot();
  return slot == nullptr ? 0 : slot->entries.size();
}

bool end_wait(FrameView& view) {
  OwnerSlot* slot = view.slot();
  return slot != nullptr && std::exchange(slot->was_delayed, false);
}

double cost(FrameView& view) {
  const OwnerSlot* slot = view.slot();
  return slot == nullptr ? 0 : slot->cost;
}

py::list misses(FrameView& view) {
  py::list found;
  const OwnerSlot* slot = view.slot();
  const std::vector<Ref> entries = slot == nullptr ? std::vector<Ref>() : slot->entries;
  for (const Ref& entry : entries) {
    if (const py::object failure = explain(guard_tree(as_entry(entry)->tree.get()), view.slots()))
      found.append(failure);
  }
  return found;
}

Ref closure(FrameView& view) {
  PyObject* cells = PyFunction_GET_CLOSURE(view.slots().func);
  return cells == nullptr ? Ref::steal(PyTuple_New(0)) : Ref::borrow(cells);
}

}  // namespace

FrameViewScope::FrameViewScope(const FrameSlots& slots, Owner& owner)
    : view_(checked(HeapType<FrameView>::make(&slots, &owner))) {}

FrameViewScope::~FrameViewScope() { HeapType<FrameView>::of(view_.get()).end(); }

const FrameSlots& frame_slots(py::handle view) {
  if (!HeapType<FrameView>::is(view.ptr())) {
    raise(PyExc_TypeError, "expected a FrameView, not %s", Py_TYPE(view.ptr())->tp_name);
  }
  return HeapType<FrameView>::of(view.ptr()).slots();
}

void raise_internal_error() {
  const py::object error = py::module_::import("dynamo_lite.exc").attr("InternalError");
  raise(error.ptr(), "two walks of a guard tree disagree about one frame");
}

namespace {

// Whether a threading.RLock can be acquired without waiting. In C, so that no signal handler and no asynchronous
// exception can come between the acquisition and the release.
bool is_free(const Ref& lock) {
  const Ref release = checked(Ref::steal(PyObject_GetAttrString(lock.get(), "release")));
  const Ref acquired = checked(Ref::steal(PyObject_CallMethod(lock.get(), "acquire", "O", Py_False)));
  return acquired.get() == Py_True && checked(Ref::steal(PyObject_CallNoArgs(release.get())));
}

}  // namespace

void register_frame_view(py::module_& module) {
  module.def("is_free", is_free, py::arg("lock"));
  const auto borrow = [](auto* object) { return Ref::borrow(reinterpret_cast<PyObject*>(object)); };
  HeapType<FrameView>(module, "dynamo_lite._C.FrameView")
      .def_property("code", [borrow](FrameView& view) { return borrow(view.slots().code); })
      .def_property("func", [borrow](FrameView& view) { return borrow(view.slots().func); })
      .def_property("globals", [borrow](FrameView& view) { return borrow(view.slots().globals); })
      .def_property("builtins", [borrow](FrameView& view) { return borrow(view.slots().builtins); })
      .def_property("owner", [borrow](FrameView& view) { return borrow(&view.owner()); })
      .def_property("closure", closure)
      .def_property("locals", locals)
      .def_property("entries", entry_count)
      .def_property("cost", cost)
      .def(
          "set_cost",
          [](FrameView& view, double seconds) { make_slot(view.slots().code, &view.owner()).cost = seconds; },
          py::arg("seconds"))
      .def("end_wait", end_wait)
      .def("hold", &FrameView::hold, py::arg("lock"), py::arg("seconds"))
      .def("misses", misses)
      .def("adopt", [](FrameView& view) { return copy_entry_from_family(view.slots(), &view.owner()); });
}

}  // namespace dynamo_lite
