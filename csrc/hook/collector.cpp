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

}  // namespace

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
}

}  // namespace dynamo_lite
