// The extension module dynamo_lite._C.
#include <pybind11/pybind11.h>

#include "guards/accessors.h"
#include "hook/callables.h"
#include "hook/entries.h"
#include "cpython/lru_caches.h"
#include "cpython/thread_locals.h"
#include "guards/finalizers.h"
#include "hook/eval_frame.h"
#include "hook/frame_view.h"
#include "guards/guards.h"
#include "launch/launch.h"

PYBIND11_MODULE(_C, module) {
  using namespace dynamo_lite;
  module.attr("TORCH_VERSION") = DL_TORCH_VERSION;
  module.attr("PYTHON_VERSION") = std::to_string(PY_MAJOR_VERSION) + "." + std::to_string(PY_MINOR_VERSION);
  module.attr("CAPTURED_NAME") = "___captured";
  set_frame_reader(frame_slots);
  for (auto* add : {register_cache, register_callables, register_frame_view, register_eval_frame, register_guards,
                    register_launch, register_cpython_caches, register_cpython_locals, register_accessors, register_deaths}) {
    if (!add(module.ptr())) throw pybind11::error_already_set();
  }
}
