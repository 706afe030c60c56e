#include "hook/collector.h"

#include <utility>

namespace dynamo_lite {

namespace {

int hold_count = 0;  // over all threads, under the GIL; the collector is off while it is not 0

void hold_collector() {
  if (hold_count == 0 && !PyGC_IsEnabled()) return;  // the program turned the collector off
  ++this_thread().collector_holds;
  ++hold_count;
  PyGC_Disable();
}

// Calls a function of the module gc. An exception that is already set stays set.
long call_gc(const char* name) noexcept {
  const pybind11::error_scope kept;
  const Ref module = Ref::steal(PyImport_ImportModule("gc"));
  const Ref result = module ? Ref::steal(PyObject_CallMethod(module.get(), name, nullptr)) : Ref();
  if (!result) PyErr_WriteUnraisable(nullptr);
  return result && PyLong_Check(result.get()) ? PyLong_AsLong(result.get()) : 0;
}

void freeze_objects() {
  Thread& thread = this_thread();
  if (thread.froze_objects || call_gc("get_freeze_count") > 0) return;  // the program froze some, or another thread
  thread.froze_objects = true;
  call_gc("freeze");
}

}  // namespace

void unfreeze_objects(Thread& thread) noexcept {
  if (std::exchange(thread.froze_objects, false)) call_gc("unfreeze");
}

void release_collector(Thread& thread, int kept) noexcept {
  if (thread.collector_holds <= kept) return;
  hold_count -= std::exchange(thread.collector_holds, kept) - kept;
  if (hold_count == 0) PyGC_Enable();
}

void drop_other_threads_holds() noexcept {
  const int mine = this_thread().collector_holds;
  if (std::exchange(hold_count, mine) > 0 && mine == 0) PyGC_Enable();
}

void register_collector(pybind11::module_& module) {
  module.def("hold_collector", hold_collector);
  module.def("release_collector", [] {
    Thread& thread = this_thread();
    if (thread.collector_holds > 0) release_collector(thread, thread.collector_holds - 1);
  });
  module.def("freeze_objects", freeze_objects);
  module.def("unfreeze_objects", [] { unfreeze_objects(this_thread()); });
}

}  // namespace dynamo_lite
