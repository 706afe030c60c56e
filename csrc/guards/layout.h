// The layout of a guard tree: its nodes with their accessors and checks, in flat arrays, parents before children.
//
// A LayoutBuilder collects nodes; finish() turns it into a Layout, which never changes. What walks find and remember of
// values is in memory.h, and checks of several nodes are in relations.h.
// Owns: accessors and checks, and through them (weakly where possible) the objects to compare with. Borrows nothing.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "guards/accessors.h"
#include "guards/checks.h"

namespace dynamo_lite {

// Each node but the first, which is the frame, is one accessor away from its parent.
struct LayoutNode {
  std::uint32_t parent = 0;
  std::uint32_t first_check = 0, end_check = 0;  // in `checks`
  std::uint32_t first_child = 0, end_child = 0;  // in `children`
  bool expects_nothing = false;                  // it has a check of kind `unbound`
  bool may_be_same = false;                      // its parent can tell that its value is the same object as before
};

struct Layout {
  std::vector<LayoutNode> nodes;
  std::vector<Accessor> accessors;  // the same places as nodes; the first is empty
  std::vector<std::uint32_t> children;
  std::vector<Check> checks;

  int traverse(visitproc visit, void* arg) const;
};

// All functions throw.
class LayoutBuilder {
 public:
  std::size_t size() const noexcept { return steps_.size(); }

  std::uint32_t add_child(std::uint32_t parent, Accessor accessor);
  void add_check(std::uint32_t node, Check check) { steps_[node].checks.push_back(std::move(check)); }
  // The builder can't be used afterwards, not even if this throws.
  Layout finish();

  int traverse(visitproc visit, void* arg) const;

 private:
  struct Step {
    Accessor accessor;
    std::uint32_t parent = 0;
    int depth = 0;
    std::vector<std::uint32_t> children = {};
    std::vector<Check> checks = {};
  };

  void move_to_instance_dict(Step& step);

  std::vector<Step> steps_ = std::vector<Step>(1);
};

}  // namespace dynamo_lite
