#include "launch/switch.h"

#include <tuple>
#include <utility>

#include "heap_type.h"

namespace dynamo_lite {

namespace {

struct Switch {
  static constexpr bool kIsHeapObject = true;
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weakrefs;
  Ref current;  // the target. Python may assign it at any time; running calls keep the old target

  auto references() { return std::tie(current); }
  void clear() { current = Ref::borrow(Py_None); }  // a later call raises TypeError: None can't be called
};

PyObject* switch_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Ref current = HeapType<Switch>::of(self).current;
  if (!current) return PyErr_Format(PyExc_TypeError, "the switch has no target to call");
  return hang_at_exit([&] { return PyObject_Vectorcall(current.get(), args, count, names); });
}

}  // namespace

void register_switch(py::module_& module) {
  HeapType<Switch>(module, "dynamo_lite._C.Switch", {{"current", T_OBJECT, offsetof(Switch, current), 0, nullptr}})
      .def_new([](py::handle, Ref current) { return HeapType<Switch>::make(switch_call, nullptr, std::move(current)); },
               py::arg("current"));
}

}  // namespace dynamo_lite
