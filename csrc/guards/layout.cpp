#include "guards/layout.h"

#include <algorithm>
#include <utility>

#include "heap_type.h"

namespace dynamo_lite {

namespace {

constexpr int kMaxDepth = 2000;  // steps from the frame; a walk recurses

}  // namespace

std::uint32_t LayoutBuilder::add_child(std::uint32_t parent, Accessor accessor) {
  const int depth = steps_[parent].depth + 1;
  if (depth > kMaxDepth) {
    raise(PyExc_ValueError, "a value nested more than %d steps deep cannot be guarded", kMaxDepth);
  }
  const auto number = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back({std::move(accessor), parent, depth});
  steps_[parent].children.push_back(number);
  return number;
}

// What an instance lacks depends on its __dict__. If that is a node too, it gets the check, because it is remembered
// together with the dict's version.
void LayoutBuilder::move_to_instance_dict(Step& step) {
  const auto is_dict = [this](std::uint32_t child) { return steps_[child].accessor.kind().is_instance_dict; };
  const auto dict = std::find_if(step.children.begin(), step.children.end(), is_dict);
  if (dict == step.children.end()) return;
  const auto stays = [](const Check& check) { return !check.kind().of_instance_dict || check.is_of_dict(); };
  const auto moved = std::stable_partition(step.checks.begin(), step.checks.end(), stays);
  auto& target = steps_[*dict].checks;
  for (auto check = moved; check != step.checks.end(); ++check) {
    check->move_to_instance_dict();
    target.push_back(std::move(*check));
  }
  step.checks.erase(moved, step.checks.end());
}

Layout LayoutBuilder::finish() {
  for (Step& step : steps_) move_to_instance_dict(step);
  Layout layout;
  for (Step& step : steps_) {
    LayoutNode node{.parent = step.parent};
    node.first_check = static_cast<std::uint32_t>(layout.checks.size());
    for (Check& check : step.checks) {
      node.expects_nothing = node.expects_nothing || check.kind().subject == Subject::NoValue;
      layout.checks.push_back(std::move(check));
    }
    node.end_check = static_cast<std::uint32_t>(layout.checks.size());
    node.first_child = static_cast<std::uint32_t>(layout.children.size());
    layout.children.insert(layout.children.end(), step.children.begin(), step.children.end());
    node.end_child = static_cast<std::uint32_t>(layout.children.size());
    node.may_be_same = layout.nodes.empty() || step.accessor.kind().lasts != nullptr;
    layout.nodes.push_back(node);
    layout.accessors.push_back(std::move(step.accessor));
  }
  return layout;
}

int LayoutBuilder::traverse(visitproc visit, void* arg) const {
  int stop = 0;
  for (const Step& step : steps_) {
    stop = stop ? stop : step.accessor.traverse(visit, arg);
    for (const Check& check : step.checks) stop = stop ? stop : check.traverse(visit, arg);
  }
  return stop;
}

int Layout::traverse(visitproc visit, void* arg) const {
  int stop = 0;
  for (const Accessor& accessor : accessors) stop = stop ? stop : accessor.traverse(visit, arg);
  for (const Check& check : checks) stop = stop ? stop : check.traverse(visit, arg);
  return stop;
}

}  // namespace dynamo_lite
