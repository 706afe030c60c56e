// The extension module dynamo_lite._C.
#include <pybind11/pybind11.h>

#include "guards/accessors.h"
#include "hook/callables.h"
#include "hook/entries.h"
#include "cpython/objects.h"
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
                    register_launch, register_accessors, register_deaths}) {
    if (!add(module.ptr())) throw pybind11::error_already_set();
  }
  module.def("thread_dict", [](pybind11::handle local) -> pybind11::object {
    PyObject* dict = thread_dict(local.ptr());
    return dict ? pybind11::reinterpret_borrow<pybind11::object>(dict) : pybind11::none();
  });
  module.def("take_miss_back", [](pybind11::handle cached) { take_miss_back(cached.ptr()); });
}
