// The tree behind a GuardTree object: the walk that serves check() and explain(), from its parts.
//
//   layout.h     what is checked: nodes, accessors and checks. Built once, then immutable.
//   memory.h     the walk over the nodes, and what it remembers of them.
//   relations.h  checks of several nodes.
//   replay.h     what a walk reads if nothing has changed, after two walks that found nothing changed.
//
// Owns: its parts, and a Liveness that it shares with its copies. Borrows: the object that owns it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cpython/frames.h"
#include "guards/accessors.h"
#include "guards/checks.h"
#include "guards/guarded_object.h"
#include "guards/layout.h"
#include "guards/memory.h"
#include "guards/relations.h"
#include "guards/replay.h"
#include "refs.h"

namespace dynamo_lite {

class GuardTree {
 public:
  explicit GuardTree(PyCodeObject* code);
  // The same assumptions about the same objects, with nothing remembered. Seals the other. Throws.
  explicit GuardTree(GuardTree& other);
  GuardTree(const GuardTree&) = delete;
  GuardTree& operator=(const GuardTree&) = delete;
  // `self`: the object that owns this. False with an exception set.
  bool create(PyObject* self) {
    self_ = self;
    return liveness_.create();
  }

  // These throw. Nothing can be added to a tree that was walked, tested or copied.
  Py_ssize_t add_child(Py_ssize_t parent, const char* kind, PyObject* arg);
  void add_check(Py_ssize_t node, const char* kind, PyObject* arg, PyObject* reason);
  Py_ssize_t add_capture(Py_ssize_t node);

  bool alive() const noexcept { return liveness_.alive(); }
  Py_ssize_t local_count() const noexcept { return PyTuple_GET_SIZE(frame_layout_.names.get()); }
  // Whether all holds. Either `captured` or `miss` is given. With `miss`, which receives the first failure, nothing is
  // taken from memory. Throws if there is no memory; without a `miss` the tree is invalid afterwards.
  bool walk(const FrameSlots& frame, Ref* captured, Miss* miss);

  // The checks of each node, in the order in which nodes were added; then relations and symbolic facts.
  std::vector<const Check*> all_checks();
  // The seconds that each of them takes, in this order, if nothing is taken from memory: without the way to the value.
  // Symbolic facts, which are checked together, have equal shares. Empty if one doesn't hold. Throws as `walk` does.
  std::vector<double> seconds_of_checks(const FrameSlots& frame);
  // The reason of the check that failed. If a value is missing, that of the first check that needs it; borrowed.
  PyObject* reason_of(const Miss& miss) const noexcept;
  const Accessor& accessor(std::uint32_t node) const noexcept { return layout_.accessors[node]; }

  int traverse(visitproc visit, void* arg) const;
  void clear() noexcept;

 private:
  std::size_t size() const noexcept { return builder_ ? builder_->size() : layout_.nodes.size(); }
  // Throws if there is no such node, or if the tree is sealed.
  void expect_node(Py_ssize_t node) const;
  // Finishes the layout. Throws; then the tree is invalid.
  [[gnu::cold, gnu::noinline]] void seal();
  bool walk_sealed(Ref* captured, Miss* miss);
  [[gnu::cold, gnu::noinline]] void make_replay();
  bool capture(bool replayed, Ref& captured);
  void measure();

  PyObject* self_ = nullptr;  // borrowed: owns this
  FrameLayout frame_layout_;
  Liveness liveness_;
  std::unique_ptr<LayoutBuilder> builder_;  // null once the tree is sealed
  Layout layout_;
  Memory memory_{layout_};
  Relations relations_;
  Values captures_;
  Replay replay_{layout_, memory_};
  bool is_busy_ = false;                    // a walk is under way
  std::vector<double>* seconds_ = nullptr;  // where to measure what checks cost; borrowed
};

}  // namespace dynamo_lite
