#include "guards/memory.h"

#include <algorithm>
#include <utility>

#include "cpython/lookup.h"
#include "hit.h"

namespace dynamo_lite {

void Memory::resize() {
  const std::vector<LayoutNode>& nodes = layout_.nodes;
  nodes_.resize(nodes.size());
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    nodes_[at].first_child = nodes_[at].end_live = nodes_[at].end_dict = nodes[at].first_child;
  }
  owned_.resize(nodes.size());
  live_.resize(layout_.children.size());
  dicts_.resize(layout_.children.size());
  lasts_.resize(layout_.checks.size(), Lasts::Now);
}

void Memory::end() noexcept {
  frame_ = nullptr;
  for (const std::uint32_t owner : owners_) owned_[owner].reset();
  owners_.clear();
}

DL_HIT bool Memory::visit_all(Miss* miss) {
  walks_ += walks_ < UINT32_MAX;
  failed_.clear();
  const bool held = visit(0, true, miss);
  if (!held && !miss) note_failed();
  return held;
}

void Memory::note_failed() {
  for (std::uint32_t at = failing_; at != 0; at = layout_.nodes[at].parent) failed_.push_back(at);
  std::reverse(failed_.begin(), failed_.end());
}

bool Memory::fails_on_the_same_way() {
  PyObject* value = nullptr;
  std::vector<Ref> created;
  for (const std::uint32_t at : failed_) {
    Ref owned;
    const Reached reached = layout_.accessors[at].reach(value, *frame_, owned);
    if (owned) created.push_back(std::move(owned));
    const LayoutNode& node = layout_.nodes[at];
    if (!reached.value) return !(node.expects_nothing && reached.readable);
    value = reached.value;
    for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
      if (!layout_.checks[i].holds(value, nullptr)) return true;
    }
  }
  failed_.clear();
  return false;
}

inline bool Memory::remembers(const Node& node, bool is_same) noexcept {
  switch (node.kind) {
    case Kind::None:
      return false;
    case Kind::Object:
      return is_same;
    case Kind::Dict:
      return node.remembered == node.value && (is_same || PyDict_Check(node.value)) &&
             dict_version(node.value) == node.version;
    case Kind::Type:
      return node.remembered == node.value && (is_same || PyType_Check(node.value)) &&
             type_version(node.value) == node.version;
  }
  return false;
}

// `is_same`: the value is certainly the object that it was when the parent last remembered.
DL_HIT bool Memory::visit(std::uint32_t at, bool is_same, Miss* miss) {
  return !miss && remembers(nodes_[at], is_same) ? visit_remembered(at) : visit_fully(at, miss);
}

DL_HIT bool Memory::visit_remembered(std::uint32_t at) {
  const Node& node = nodes_[at];
  if (node.checks_now) {
    const LayoutNode& laid_out = layout_.nodes[at];
    for (std::uint32_t i = laid_out.first_check; i < laid_out.end_check; ++i) {
      if (lasts_[i] == Lasts::Now && !layout_.checks[i].holds(node.value, nullptr)) {
        failing_ = at;
        return false;
      }
    }
  }
  for (std::uint32_t i = node.first_child; i < node.end_dict; ++i) {
    if (dict_version(dicts_[i].dict) != dicts_[i].version && !visit_dict(dicts_[i])) return false;
  }
  for (std::uint32_t i = node.first_child; i < node.end_live; ++i) {
    const LiveChild live = live_[i];
    const bool holds = live.is_same ? visit(live.child, true, nullptr) : visit_child(at, live.child, nullptr);
    if (!holds) return false;
  }
  return true;
}

// The dict changed: what the tree needs of it is checked, and its version is remembered if that is enough.
DL_HIT bool Memory::visit_dict(DictChild& dict) {
  if (!visit(dict.child, true, nullptr)) return false;
  const Node& node = nodes_[dict.child];
  if (needs_no_visit(node, Kind::Dict)) dict.version = node.version;
  return true;
}

DL_HIT bool Memory::visit_fully(std::uint32_t at, Miss* miss) {
  Node& node = nodes_[at];
  const LayoutNode& laid_out = layout_.nodes[at];
  node.kind = Kind::None;
  node.full_visit = walks_;
  const bool is_dict = node.value && PyDict_Check(node.value);
  const bool is_type = !is_dict && node.value && PyType_Check(node.value);
  // The version is read first: it may be older than what is checked, never younger.
  if (is_dict) node.version = dict_version(node.value);
  if (is_type) node.version = type_version(node.value);
  for (std::uint32_t i = laid_out.first_check; i < laid_out.end_check; ++i) {
    const Check& check = layout_.checks[i];
    if (check.holds(node.value, miss ? &miss->found : nullptr)) continue;
    failing_ = at;
    if (miss) {
      miss->found.value = kept(node.value);
      *miss = {at, &check, std::move(miss->found)};
    }
    return false;
  }
  for (std::uint32_t i = laid_out.first_child; i < laid_out.end_child; ++i) {
    if (!visit_child(at, layout_.children[i], miss)) return false;
  }
  if (!miss && (laid_out.may_be_same || is_dict || is_type)) remember(at);
  return true;
}

DL_HIT bool Memory::visit_child(std::uint32_t parent, std::uint32_t child, Miss* miss) {
  Node& node = nodes_[child];
  Ref& owned = owned_[child];
  const Reached reached = layout_.accessors[child].reach(nodes_[parent].value, *frame_, owned);
  if (owned) owners_.push_back(child);
  if (node.value != reached.value) node.value_change = walks_;
  node.value = reached.value;
  if (!reached.value) return visit_nothing(child, reached.readable, miss);
  return visit(child, false, miss);
}

DL_HIT bool Memory::visit_nothing(std::uint32_t at, bool readable, Miss* miss) {
  Node& node = nodes_[at];
  node.end_live = node.end_dict = node.first_child;
  node.checks_now = false;
  const bool holds = layout_.nodes[at].expects_nothing && readable;
  node.kind = holds ? Kind::Object : Kind::None;
  if (!holds) failing_ = at;
  if (!holds && miss) {
    *miss = {at, nullptr, {.words = readable ? "nothing there" : "a value that cannot be read that way"}};
  }
  return holds;
}

// Whether nothing of the node and below it can change as long as it has the same object (of `kind` Dict: with the same
// version).
bool Memory::needs_no_visit(const Node& node, Kind kind) noexcept {
  return node.kind == kind && !node.checks_now && node.end_live == node.first_child &&
         node.end_dict == node.first_child;
}

void Memory::remember(std::uint32_t at) {
  Node& node = nodes_[at];
  const LayoutNode& laid_out = layout_.nodes[at];
  bool needs_version = false;
  node.checks_now = false;
  for (std::uint32_t i = laid_out.first_check; i < laid_out.end_check; ++i) {
    lasts_[i] = layout_.checks[i].lasts(node.value);
    needs_version = needs_version || lasts_[i] == Lasts::Version;
    node.checks_now = node.checks_now || lasts_[i] == Lasts::Now;
  }
  node.end_live = node.end_dict = node.first_child;
  for (std::uint32_t i = laid_out.first_child; i < laid_out.end_child; ++i) {
    const std::uint32_t number = layout_.children[i];
    const Node& child = nodes_[number];
    const AccessorKind& kind = layout_.accessors[number].kind();
    const Lasts lasts = kind.lasts ? kind.lasts(node.value) : Lasts::Now;
    needs_version = needs_version || lasts == Lasts::Version;
    const bool is_same = lasts != Lasts::Now;
    if (is_same && needs_no_visit(child, Kind::Object)) continue;
    if (is_same && needs_no_visit(child, Kind::Dict)) {
      dicts_[node.end_dict++] = {child.value, child.version, number};
    } else {
      live_[node.end_live++] = {number, is_same};
    }
  }
  node.remembered = node.value;
  node.kind = Kind::Object;
  if (!needs_version) return;
  node.kind = PyDict_Check(node.value) ? Kind::Dict : Kind::Type;
  if (node.kind == Kind::Type && node.version == 0) node.kind = Kind::None;  // it got a version during the walk
}

DL_HIT bool Values::read(const Memory& memory, bool replayed) {
  if (!replayed) {
    of.resize(nodes.size());
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = memory.value(nodes[i]);
    return true;
  }
  bool moved = false;
  for (const std::uint32_t at : may_move) {
    PyObject* before = std::exchange(of[at], memory.value(nodes[at]));
    moved = moved || of[at] != before;
  }
  return moved;
}

void Values::note_moving(const std::vector<bool>& moves) {
  may_move.clear();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (moves[nodes[i]]) may_move.push_back(i);
  }
}

}  // namespace dynamo_lite
