#include "hook/entries.h"

#include <algorithm>
#include <new>
#include <unordered_set>
#include <utility>

#include "cpython/frames.h"
#include "guards/guards.h"

namespace dynamo_lite {

namespace {

// Of the module; never freed (entries may outlive it at shutdown).
Owner* off = nullptr;
Py_ssize_t extra_index = -1;
PyTypeObject* verdict_type = nullptr;

constexpr const char* kCapturedName = "___captured";

void forget(OwnerSlot& slot) {
  for (const Ref& entry : slot.entries) as_entry(entry)->owner = nullptr;
}

// Dropping entries may run Python, which finds the tables consistent.
void free_extra(void* pointer) {
  auto* extra = static_cast<Extra*>(pointer);
  if (extra == nullptr) return;
  while (!extra->slots.empty()) {
    OwnerSlot* slot = extra->slots.back();
    extra->slots.pop_back();
    forget(*slot);
    const auto dropped = slot->owner->slots.extract(extra->code);
  }
  delete extra;
}

// The valid entries of one owner, or of all.
py::list valid_entries(const Ref& code, const Owner* owner) {
  if (!PyCode_Check(code.get())) raise(PyExc_TypeError, "entries() takes a code object");
  py::list list;
  const Extra* extra = extra_of(reinterpret_cast<PyCodeObject*>(code.get()));
  if (extra == nullptr) return list;
  for (const OwnerSlot* slot : extra->slots) {
    if (owner != nullptr && slot->owner != owner) continue;
    for (const Ref& entry : slot->entries) {
      if (is_valid(guard_tree(as_entry(entry)->tree.get()))) list.append(py::handle(entry.get()));
    }
  }
  return list;
}

void mark_code(const Ref& code, int mark) {
  if (!PyCode_Check(code.get())) raise(PyExc_TypeError, "mark_code() takes a code object");
  if (mark < 0 || mark > 2) raise(PyExc_ValueError, "no mark %d: take one of the MARK_ constants", mark);
  Extra* extra = make_extra(reinterpret_cast<PyCodeObject*>(code.get()));
  if (extra == nullptr) throw py::error_already_set();
  extra->mark = static_cast<Mark>(mark);
}

int mark_of(const Ref& code) {
  if (!PyCode_Check(code.get())) raise(PyExc_TypeError, "get_mark() takes a code object");
  const Extra* extra = extra_of(reinterpret_cast<PyCodeObject*>(code.get()));
  return extra == nullptr ? 0 : static_cast<int>(extra->mark);
}

}  // namespace

Extra* extra_of(PyCodeObject* code) noexcept { return static_cast<Extra*>(get_extra(code, extra_index)); }

Extra* make_extra(PyCodeObject* code) {
  Extra* extra = extra_of(code);
  if (extra != nullptr) return extra;
  extra = new (std::nothrow) Extra{code};
  if (extra == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  if (!set_extra(code, extra_index, extra)) {
    delete extra;
    return nullptr;
  }
  return extra;
}

OwnerSlot* make_slot(PyCodeObject* code, Owner* owner) {
  Extra* extra = make_extra(code);
  if (extra == nullptr) return nullptr;
  if (OwnerSlot* slot = extra->find(owner)) return slot;
  try {
    OwnerSlot& made = owner->slots.emplace(code, OwnerSlot{owner}).first->second;
    extra->slots.push_back(&made);
    return &made;
  } catch (const std::bad_alloc&) {
    owner->slots.erase(code);
    PyErr_NoMemory();
    return nullptr;
  }
}

void move_to_front(OwnerSlot& slot, const Entry* wanted) noexcept {
  auto& entries = slot.entries;
  const auto found =
      std::find_if(entries.begin(), entries.end(), [wanted](const Ref& each) { return as_entry(each) == wanted; });
  if (found != entries.end()) std::rotate(entries.begin(), found, found + 1);
}

void drop_invalid(PyCodeObject* code, Owner* owner) noexcept {
  Extra* extra = extra_of(code);
  OwnerSlot* slot = extra == nullptr ? nullptr : extra->find(owner);
  if (slot == nullptr) return;
  std::vector<Ref> dropped;  // deallocated last, when the list is consistent again
  auto& entries = slot->entries;
  try {
    dropped.reserve(entries.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (auto at = entries.begin(); at != entries.end();) {
    if (is_valid(guard_tree(as_entry(*at)->tree.get()))) {
      ++at;
    } else {
      as_entry(*at)->owner = nullptr;
      dropped.push_back(std::move(*at));
      at = entries.erase(at);
    }
  }
}

Ref add_entry(PyCodeObject* code, Owner* owner, PyObject* tree, PyObject* new_code, bool self_contained) {
  const int captured_slot = local_slot(reinterpret_cast<PyCodeObject*>(new_code), kCapturedName);
  Ref made = HeapType<Entry>::make(Ref::borrow(tree), Ref::borrow(new_code), Ref(), reinterpret_cast<PyObject*>(owner),
                                   std::uint64_t{0}, captured_slot, self_contained);
  OwnerSlot* slot = made ? make_slot(code, owner) : nullptr;
  if (slot == nullptr) return {};
  slot->entries.insert(slot->entries.begin(), made);
  return made;
}

bool adopt_entry(const FrameSlots& slots, Owner* owner) {
  Extra* extra = extra_of(slots.code);
  if (extra == nullptr || !owner->family || owner->family.get() == Py_None) return false;
  std::vector<Ref> candidates;          // owned: a check may run the garbage collector, and that any Python
  std::unordered_set<PyObject*> codes;  // borrowed: an adopted entry shares the code of the first one
  if (const OwnerSlot* own = extra->find(owner)) {
    for (const Ref& entry : own->entries) codes.insert(as_entry(entry)->code.get());  // they did not hold
  }
  for (const OwnerSlot* slot : extra->slots) {
    if (slot->owner == owner || slot->owner->family.get() != owner->family.get()) continue;
    for (const Ref& entry : slot->entries) {
      if (codes.insert(as_entry(entry)->code.get()).second) candidates.push_back(entry);
    }
  }
  for (const Ref& each : candidates) {
    const Entry* entry = as_entry(each);
    Ref captured;
    if (!check(guard_tree(entry->tree.get()), slots, captured)) continue;
    const Ref tree = copied_tree(entry->tree.get());
    return tree && add_entry(slots.code, owner, tree.get(), entry->code.get(), entry->self_contained);
  }
  return false;
}

int Owner::traverse(visitproc visit, void* arg) const {
  for (const auto& [code, slot] : slots) {
    for (const Ref& entry : slot.entries) Py_VISIT(entry.get());
  }
  return 0;
}

void Owner::clear() {
  reset();
  callback.reset();
  family.reset();
}

void Owner::reset() {
  auto dropped = std::exchange(slots, {});  // deallocated last, when the tables are consistent again
  for (auto& [code, slot] : dropped) {
    forget(slot);
    if (Extra* extra = extra_of(code)) std::erase(extra->slots, &slot);
  }
}

Owner* off_owner() noexcept { return off; }

Verdict verdict_of(PyObject* object) noexcept {
  // Not by isinstance(), which fails at the recursion limit.
  return Py_TYPE(object) == verdict_type ? py::cast<Verdict>(py::handle(object)) : Verdict::None;
}

namespace {

void register_types(py::module_& module) {
  HeapType<Owner>(module, "dynamo_lite._C.Owner",
                  {{"callback", T_OBJECT, offsetof(Owner, callback), 0, nullptr},
                   {"name", T_OBJECT, offsetof(Owner, name), 0, nullptr},
                   {"when_observed", T_BOOL, offsetof(Owner, when_observed), 0, nullptr}})
      .def_new(
          [](py::handle, Ref callback, py::str name, Ref family) {
            return HeapType<Owner>::make(std::move(callback), Ref::steal(name.release().ptr()), std::move(family));
          },
          py::arg("callback"), py::arg("name") = "", py::arg("family") = py::none())
      .def("entries", [](Owner& self, Ref code) { return valid_entries(code, &self); })
      .def("codes",
           [](Owner& self) {
             py::list list;
             for (const auto& [code, slot] : self.slots) list.append(py::handle(reinterpret_cast<PyObject*>(code)));
             return list;
           })
      .def("reset", &Owner::reset);
  HeapType<Entry>(module, "dynamo_lite._C.Entry",
                  {{"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, nullptr},
                   {"code", T_OBJECT, offsetof(Entry, code), READONLY, nullptr},
                   {"tree", T_OBJECT, offsetof(Entry, tree), READONLY, nullptr}})
      .def_property("valid", [](Entry& self) { return self.owner != nullptr && is_valid(guard_tree(self.tree.get())); })
      .def_property("owner", [](Entry& self) { return Ref::borrow(self.owner == nullptr ? Py_None : self.owner); });
  py::enum_<Verdict> verdict(module, "Verdict");
  verdict.value("PASS", Verdict::Pass)
      .value("SKIP", Verdict::Skip)
      .value("SKIP_WITHOUT_TENSORS", Verdict::SkipWithoutTensors)
      .value("FREEZE", Verdict::Freeze)
      .value("RETRY", Verdict::Retry)
      .export_values();
  verdict_type = reinterpret_cast<PyTypeObject*>(verdict.inc_ref().ptr());
}

}  // namespace

void register_entries(py::module_& module) {
  if (extra_index < 0) extra_index = request_extra(free_extra);
  if (extra_index < 0) throw py::import_error("dynamo_lite: CPython has no index left for data on code objects");
  register_types(module);
  const Ref made = checked(HeapType<Owner>::make(Ref::borrow(Py_None), Ref::steal(PyUnicode_FromString("off")), Ref()));
  module.attr("OFF") = py::handle(made.get());
  off = &HeapType<Owner>::of(Ref(made).release());
  module.attr("CAPTURED_NAME") = kCapturedName;
  module.attr("MARK_NONE") = static_cast<int>(Mark::None);
  module.attr("MARK_SKIP") = static_cast<int>(Mark::Skip);
  module.attr("MARK_SKIP_RECURSIVE") = static_cast<int>(Mark::SkipRecursive);
  module.def("entries", [](Ref code) { return valid_entries(code, nullptr); });
  module.def("mark_code", mark_code);
  module.def("get_mark", mark_of);
}

}  // namespace dynamo_lite
