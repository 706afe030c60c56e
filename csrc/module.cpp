// The extension module dynamo_lite._C.
#include <pybind11/pybind11.h>

#include "cpython/iterators.h"
#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "guards/guards.h"
#include "guards/metadata_copies.h"
#include "guards/tensors.h"
#include "hook/callables.h"
#include "hook/entries.h"
#include "hook/eval_frame.h"
#include "hook/frame_view.h"
#include "launch/launch.h"
#include "launch/sequence.h"
#include "launch/switch.h"

PYBIND11_MODULE(_C, module) {
  using namespace dynamo_lite;
  module.attr("TORCH_VERSION") = DL_TORCH_VERSION;
  register_entries(module);
  register_callables(module);
  register_frame_view(module);
  register_eval_frame(module);
  register_guards(module, frame_slots);
  register_metadata_copies(module);
  register_launch(module);
  register_sequence(module);
  register_switch(module);
  module.def("sizes_of_torch_objects", sizes_of_torch_objects);
  module.def("tensor_layout", [](py::handle tensor) { return tensor_layout(tensor.ptr()); });
  module.def("looks_up_quietly", [](const py::dict& dict, py::handle name) {
    return dict_find(dict.ptr(), name.ptr(), py::hash(name), compares_quietly(name.ptr())).presence !=
           Presence::Unclear;
  });
  module.def("stored_hashes", [](py::handle container) {
    py::list found;
    if (PyAnySet_Check(container.ptr())) {
      for (SetItems items(container.ptr()); items.next();) found.append(items.hash);
    } else {
      for (DictOrder order(container.ptr()); order.next();) found.append(order.hash());
    }
    return py::tuple(found);
  });
  module.def("next_number", [](py::handle iterator) {
    Ref number;
    next_number(iterator.ptr(), number);
    return number ? number : Ref::borrow(Py_None);
  });
  module.def("thread_dict", [](py::handle local) {
    PyObject* dict = thread_dict(local.ptr());
    return Ref::borrow(dict ? dict : Py_None);
  });
}
