// What a guard demands of one value it reached.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guards/accessors.h"
#include "prefetch.h"
#include "cpython/lookup.h"
#include "guards/guarded_object.h"
#include "refs.h"
#include "guards/symbolic.h"
#include "guards/tensors.h"

namespace dynamo_lite {

enum class CheckKind : std::uint8_t {
  Type,
  Id,
  Equals,
  Length,
  DictKeys,
  DictHas,
  DictLacks,
  TypeLacks,
  Derives,
  DerivesNot,
  LacksInstanceDictItem,
  DiesUnseen,
  DictItemDiesUnseen,
  InstanceItemDiesUnseen,
  SetItems,
  SetOrder,
  Payload,
  Tensor,
  TensorOfAnySize,
  TensorWithoutSize,
  StorageOffset,
  Present,
  Unbound,
  GlobalState,
  Registrations,
  SameAs,
  Distinct,
  StoragesDistinct,
  Symbolic,
};

// How long a check that held of a value goes on holding.
enum class Lasts : std::uint8_t {
  Now,      // it must be made each time
  Version,  // while the dict's, or type's, version is the same
  Forever,  // of that same object
};

// The parts of a check that its common kinds do without; defined in checks.cpp.
struct CheckDetails;

class Check {
 public:
  Check();
  Check(const Check& other);
  Check(Check&&) noexcept;
  Check& operator=(const Check& other);
  Check& operator=(Check&&) noexcept;
  ~Check();

  // ValueError for a kind that is not there, TypeError for an argument that does not suit it; false with an exception
  // set. `node_count`: how many nodes the tree has, for the kinds that name others.
  bool set(const char* kind, PyObject* arg, PyObject* reason, Py_ssize_t node_count, const Liveness& liveness);

  // Whether a value meets the check (not for the kinds that relate several nodes). `found`: where not null, receives
  // what is there instead, in words. Runs no Python, leaves no exception set.
  bool holds(PyObject* value, std::string* found) const noexcept {
    const bool is_common = kind_ == CheckKind::Type && reinterpret_cast<PyObject*>(Py_TYPE(value)) == object_;
    return is_common || holds_of(value, found);
  }

  // From now on a lacks_instance_dict_item is asked of the instance's __dict__ itself.
  void ask_the_dict() noexcept { of_dict_ = true; }

  // How long the fact lasts that `value` meets the check.
  Lasts lasts(PyObject* value) const noexcept;

  // Whether the check relates several nodes: it is made after all others.
  bool relates() const noexcept { return kind_ >= CheckKind::SameAs; }
  // The other nodes' numbers.
  const std::vector<std::uint32_t>& nodes() const noexcept;
  // storages_distinct: how many of those, the first ones, are of tensors that are written to.
  std::size_t written() const noexcept;
  // symbolic: what is to be true of their values.
  const SymbolicProgram& program() const noexcept;

  CheckKind kind() const noexcept { return kind_; }
  const char* kind_name() const noexcept;
  PyObject* reason() const noexcept { return reason_.get(); }
  // The check's argument, None for what has died; a tensor's facts as text. New; empty with an exception set.
  Ref argument() const;
  int traverse(visitproc visit, void* arg) const;
  // The memory that `holds` reads of the check itself.
  void add_ahead(LinesAhead& ahead) const;

 private:
  bool set_keys(PyObject* arg, const Liveness& liveness);
  bool set_set(PyObject* arg, const Liveness& liveness);
  bool set_nodes(PyObject* arg, Py_ssize_t node_count);
  bool set_program(PyObject* arg, Py_ssize_t node_count);
  bool add_nodes(PyObject* sequence, Py_ssize_t node_count);
  bool set_argument(PyObject* arg, Py_ssize_t node_count, const Liveness& liveness);
  bool keys_match(PyObject* dict) const noexcept;
  bool set_matches(PyObject* set) const noexcept;
  bool order_matches(PyObject* set) const noexcept;
  bool holds_of(PyObject* value, std::string* found) const noexcept;
  bool is_met_by(PyObject* value, std::string* found) const noexcept;
  bool holds_of_container(PyObject* value) const noexcept;
  DictLookup item_of(PyObject* container) const noexcept;
  bool lets_go_unseen(PyObject* container) const noexcept;
  [[gnu::cold, gnu::noinline]] std::string instead(PyObject* value) const;  // what there is, in words

  CheckKind kind_ = CheckKind::Present;
  bool of_dict_ = false;
  PyObject* object_ = nullptr;  // type, id, equals, registrations: borrowed from held_
  Py_ssize_t number_ = 0;       // length, storage_offset
  std::unique_ptr<TensorFacts> facts_;  // tensor, tensor_of_any_size, tensor_without_size
  std::unique_ptr<CheckDetails> details_;
  Held held_;
  Ref reason_;
};

}  // namespace dynamo_lite
