#include "hook/collector.h"

#include <utility>

namespace dynamo_lite {

namespace {

int holders = 0;  // of all threads, under the GIL: the collector is off while there are any

void hold_collector() {
  if (holders == 0 && !PyGC_IsEnabled()) return;  // the program has turned it off
  ++this_thread().collector_holds;
  ++holders;
  PyGC_Disable();
}

}  // namespace

void release_collector(Thread& thread, int kept) noexcept {
  if (thread.collector_holds <= kept) return;
  holders -= std::exchange(thread.collector_holds, kept) - kept;
  if (holders == 0) PyGC_Enable();
}

void forget_other_holders() noexcept {
  const int mine = this_thread().collector_holds;
  if (std::exchange(holders, mine) > 0 && mine == 0) PyGC_Enable();
}

void register_collector(pybind11::module_& module) {
  module.def("hold_collector", hold_collector);
  module.def("release_collector", [] {
    Thread& thread = this_thread();
    if (thread.collector_holds > 0) release_collector(thread, thread.collector_holds - 1);
  });
}

}  // namespace dynamo_lite
