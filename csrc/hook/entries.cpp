#include "hook/entries.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>

#include "cpython/frames.h"
#include "guards/guards.h"

namespace dynamo_lite {

namespace {

Owner* off = nullptr;  // owned; never freed, since entries may outlive the module at shutdown
Py_ssize_t extra_index = -1;
PyTypeObject* verdict_type = nullptr;

double allowance = 0;  // seconds that the misses of one owner may cost

// The cost of a miss to the program, as a multiple of the time that was measured in the hook and its callback. The rest
// slows down the program's own code: after a miss the processor's caches are evicted (compiling a function's source
// takes up to twice as long) and delayed garbage collections run. That was 4 to 18 % in programs with thousands of
// functions, classes and named tuples that are used once. Delayed frames, and calls that go through the hook, add to
// it: 0.1 s in a program with thousands of data classes, whose code is called most often.
constexpr double kCostOfSecond = 1.4;

constexpr const char* kCapturedName = "___captured";

// Marks the entries of a slot as dropped.
void detach_entries(OwnerSlot& slot) {
  for (const Ref& entry : slot.entries) as_entry(entry)->owner = nullptr;
}

// Called while the code object is deallocated. Dropping entries may run Python, which must not reach the code object
// through an owner. So the slots are removed from all owners first.
void free_extra(void* pointer) {
  const std::unique_ptr<Extra> extra(static_cast<Extra*>(pointer));
  if (!extra) return;
  for (OwnerSlot* slot : extra->slots) {
    detach_entries(*slot);
    const auto found = slot->owner->slots.find(extra->code);
    (void)found->second.release();  // ownership moves to this function
    slot->owner->slots.erase(found);
  }
  for (OwnerSlot* slot : extra->slots) delete slot;
}

// The valid entries of one owner, or of all owners if `owner` is null.
py::list valid_entries(PyCodeObject* code, const Owner* owner) {
  py::list list;
  const Extra* extra = extra_of(code);
  if (extra == nullptr) return list;
  for (const OwnerSlot* slot : extra->slots) {
    if (owner != nullptr && slot->owner != owner) continue;
    for (const Ref& entry : slot->entries) {
      if (is_valid(guard_tree(as_entry(entry)->tree.get()))) list.append(py::handle(entry.get()));
    }
  }
  return list;
}

Extra& make_extra(PyCodeObject* code) {
  if (Extra* extra = extra_of(code)) return *extra;
  auto made = std::make_unique<Extra>(Extra{code});
  if (!set_extra(code, extra_index, made.get())) throw py::error_already_set();
  return *made.release();
}

}  // namespace

Extra* extra_of(PyCodeObject* code) noexcept { return static_cast<Extra*>(get_extra(code, extra_index)); }

OwnerSlot& make_slot(PyCodeObject* code, Owner* owner) {
  Extra& extra = make_extra(code);
  if (OwnerSlot* slot = extra.find(owner)) return *slot;
  extra.slots.reserve(extra.slots.size() + 1);
  auto made = std::make_unique<OwnerSlot>(OwnerSlot{owner, &extra});
  OwnerSlot* slot = made.get();
  owner->slots.emplace(code, std::move(made));
  extra.slots.push_back(slot);
  return *slot;
}

void move_to_front(OwnerSlot& slot, const Entry* wanted) noexcept {
  auto& entries = slot.entries;
  const auto found =
      std::find_if(entries.begin(), entries.end(), [wanted](const Ref& each) { return as_entry(each) == wanted; });
  if (found != entries.end()) std::rotate(entries.begin(), found, found + 1);
}

void drop_invalid(PyCodeObject* code, Owner* owner) noexcept {
  const auto is_invalid = [](const Ref& entry) { return !is_valid(guard_tree(as_entry(entry)->tree.get())); };
  while (Extra* extra = extra_of(code)) {
    OwnerSlot* slot = extra->find(owner);
    if (slot == nullptr) return;
    const auto at = std::find_if(slot->entries.begin(), slot->entries.end(), is_invalid);
    if (at == slot->entries.end()) return;
    const Ref dropped = std::move(*at);  // deallocated after the list is consistent again
    as_entry(dropped)->owner = nullptr;
    slot->entries.erase(at);
  }
}

Ref make_new_code(PyObject* code) { return checked(HeapType<NewCode>::make(Ref::borrow(code), Ref())); }

int NewCode::traverse(visitproc visit, void* arg) const {
  for (const Ref* each : {&code, &flat}) {
    // Code that a frame runs, or that has other references, outlives this object. The reference count is the same in
    // all visits of one collection, because the collector runs no Python between them.
    if (!*each || Py_REFCNT(each->get()) != 1) continue;
    Py_VISIT(constants_of(reinterpret_cast<PyCodeObject*>(each->get())));
  }
  return 0;
}

Ref add_entry(PyCodeObject* code, Owner* owner, Ref tree, Ref shared, bool self_contained) {
  PyObject* new_code = HeapType<NewCode>::of(shared.get()).code.get();
  const int captured_slot = local_slot(reinterpret_cast<PyCodeObject*>(new_code), kCapturedName);
  Ref made =
      checked(HeapType<Entry>::make(std::move(tree), std::move(shared), new_code, reinterpret_cast<PyObject*>(owner),
                                    std::uint64_t{0}, captured_slot, self_contained));
  auto& entries = make_slot(code, owner).entries;
  entries.insert(entries.begin(), made);
  return made;
}

bool copy_entry_from_family(const FrameSlots& slots, Owner* owner) {
  Extra* extra = extra_of(slots.code);
  if (extra == nullptr || !owner->family || owner->family.get() == Py_None) return false;
  std::vector<Ref> candidates;          // owned: a check may trigger the garbage collector, which may run Python
  std::unordered_set<PyObject*> codes;  // borrowed: a copied entry shares the code of the original
  if (const OwnerSlot* own = extra->find(owner)) {
    for (const Ref& entry : own->entries) codes.insert(as_entry(entry)->code);  // their guards didn't hold
  }
  for (const OwnerSlot* slot : extra->slots) {
    if (slot->owner == owner || slot->owner->family.get() != owner->family.get()) continue;
    for (const Ref& entry : slot->entries) {
      if (codes.insert(as_entry(entry)->code).second) candidates.push_back(entry);
    }
  }
  for (const Ref& each : candidates) {
    const Entry* entry = as_entry(each);
    Ref captured;
    if (!check(guard_tree(entry->tree.get()), slots, captured)) continue;
    add_entry(slots.code, owner, copied_tree(entry->tree.get()), entry->shared, entry->self_contained);
    return true;
  }
  return false;
}

int Owner::traverse(visitproc visit, void* arg) const {
  for (const auto& [code, slot] : slots) {
    for (const Ref& entry : slot->entries) Py_VISIT(entry.get());
  }
  return 0;
}

void Owner::clear() {
  reset();
  callback.reset();
  family.reset();
}

void Owner::reset() {
  spent = wait_of_new = 0;
  auto dropped = std::exchange(slots, {});  // deallocated last, after the tables are consistent again
  for (auto& [code, slot] : dropped) {
    detach_entries(*slot);
    if (Extra* extra = extra_of(code)) std::erase(extra->slots, slot.get());
  }
}

Owner* off_owner() noexcept { return off; }

bool has_spent_allowance(const Owner& owner) noexcept { return owner.spent * kCostOfSecond >= allowance; }

Verdict verdict_of(PyObject* object) noexcept {
  // An exact type test, because isinstance() fails at the recursion limit.
  return Py_TYPE(object) == verdict_type ? py::cast<Verdict>(py::handle(object)) : Verdict::None;
}

namespace {

void register_types(py::module_& module) {
  HeapType<Owner>(module, "dynamo_lite._C.Owner",
                  {{"callback", T_OBJECT, offsetof(Owner, callback), 0, nullptr},
                   {"name", T_OBJECT, offsetof(Owner, name), 0, nullptr},
                   {"when_observed", T_BOOL, offsetof(Owner, when_observed), 0, nullptr},
                   {"spent", T_DOUBLE, offsetof(Owner, spent), 0, nullptr},
                   {"wait_of_new", T_DOUBLE, offsetof(Owner, wait_of_new), 0, nullptr}})
      .def_new(
          [](py::handle, Ref callback, py::str name, Ref family) {
            return HeapType<Owner>::make(std::move(callback), Ref::steal(name.release().ptr()), std::move(family));
          },
          py::arg("callback"), py::arg("name") = "", py::arg("family") = py::none())
      .def("entries", [](Owner& self, const Code& code) { return valid_entries(code, &self); })
      .def("codes",
           [](Owner& self) {
             py::list list;
             for (const auto& [code, slot] : self.slots) list.append(py::handle(reinterpret_cast<PyObject*>(code)));
             return list;
           })
      .def_property("has_spent_allowance", [](Owner& self) { return has_spent_allowance(self); })
      .def("reset", &Owner::reset);
  HeapType<NewCode>(module, "dynamo_lite._C.NewCode");
  HeapType<Entry>(module, "dynamo_lite._C.Entry",
                  {{"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, nullptr},
                   {"code", T_OBJECT, offsetof(Entry, code), READONLY, nullptr},
                   {"tree", T_OBJECT, offsetof(Entry, tree), READONLY, nullptr}})
      .def_property("valid", [](Entry& self) { return self.owner != nullptr && is_valid(guard_tree(self.tree.get())); })
      .def_property("owner", [](Entry& self) { return Ref::borrow(self.owner == nullptr ? Py_None : self.owner); });
  py::enum_<Mark>(module, "Mark")
      .value("NONE", Mark::None)
      .value("SKIP", Mark::Skip)
      .value("SKIP_RECURSIVE", Mark::SkipRecursive);
  py::enum_<Verdict> verdict(module, "Verdict");
  verdict.value("PASS", Verdict::Pass)
      .value("SKIP", Verdict::Skip)
      .value("SKIP_WITHOUT_TENSORS", Verdict::SkipWithoutTensors)
      .value("FREEZE", Verdict::Freeze)
      .value("RETRY", Verdict::Retry)
      .value("PASS_RECURSIVE", Verdict::PassRecursive)
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
  module.def("set_allowance", [](double seconds) { allowance = seconds; });
  module.attr("CAPTURED_NAME") = kCapturedName;
  module.def("entries", [](const Code& code) { return valid_entries(code, nullptr); });
  module.def("mark_code", [](const Code& code, Mark mark) { make_extra(code).mark = mark; });
  module.def("get_mark", [](const Code& code) {
    const Extra* extra = extra_of(code);
    return extra == nullptr ? Mark::None : extra->mark;
  });
}

}  // namespace dynamo_lite
