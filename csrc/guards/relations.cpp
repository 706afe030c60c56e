#include "guards/relations.h"

#include <algorithm>
#include <utility>

#include "hit.h"

namespace dynamo_lite {

namespace {

constexpr std::size_t kPairsBySorting = 4096;

// A value that occurs twice; null if none does.
PyObject* duplicate_of(std::vector<PyObject*> values) {
  std::sort(values.begin(), values.end());
  const auto first = std::find_if(values.begin(), values.end(), [](PyObject* each) { return each != nullptr; });
  const auto found = std::adjacent_find(first, values.end());
  return found == values.end() ? nullptr : *found;
}

}  // namespace

Relations::Relations(const Relations& other)
    : facts_(other.facts_), programs_(other.programs_), fact_values_{other.fact_values_.nodes} {
  for (const Relation& each : other.relations_) relations_.push_back({each.node, each.check, {each.values.nodes}});
}

void Relations::add(std::uint32_t node, Check check) {
  const std::vector<std::uint32_t> nodes = check.details().nodes;
  relations_.push_back({node, std::move(check), {nodes}});
}

void Relations::add_fact(Check check, PyObject* instructions) {
  programs_.add(instructions, check.details().nodes);
  fact_values_.nodes = programs_.nodes();
  facts_.push_back(std::move(check));
}

DL_HIT bool Relations::hold(const Memory& memory, bool replayed, Miss* miss) {
  if (replayed) {
    const auto still_holds = [&](std::uint32_t at) { return holds(relations_[at], memory, true, nullptr); };
    if (!std::all_of(after_replay_.begin(), after_replay_.end(), still_holds)) return false;
  } else {
    for (Relation& relation : relations_) {
      if (holds(relation, memory, false, miss ? &miss->found : nullptr)) continue;
      if (miss) *miss = {relation.node, &relation.check, std::move(miss->found)};
      return false;
    }
  }
  return facts_hold(memory, replayed, miss);
}

DL_HIT bool Relations::facts_hold(const Memory& memory, bool replayed, Miss* miss) {
  if (programs_.empty()) return true;
  fact_values_.read(memory, replayed);
  const std::ptrdiff_t wrong = programs_.wrong(fact_values_.of, miss ? &miss->found : nullptr);
  if (wrong >= 0 && miss) *miss = {0, &facts_[static_cast<std::size_t>(wrong)], std::move(miss->found)};
  return wrong < 0;
}

DL_HIT bool Relations::holds(Relation& relation, const Memory& memory, bool replayed, Found* found) {
  const bool moved = relation.values.read(memory, replayed) || relation.node_may_move;
  const auto& values = relation.values.of;
  // The relation held for these identities before.
  if (!moved && !relation.reads_storages()) return true;
  if (relation.reads_storages()) return relation.storages.holds(values, relation.check.details().written);
  PyObject* const value = memory.value(relation.node);
  if (relation.check.kind().subject == Subject::Distinct) return are_distinct(relation, value, found);
  if (value == values.front()) return true;
  if (found) found->value = kept(value);
  return false;
}

// Whether two pointers differ depends on nothing else: only those that changed since it held last are compared.
bool Relations::are_distinct(Relation& relation, PyObject* node_value, Found* found) {
  const auto& values = relation.values.of;
  auto& before = relation.before;
  before.resize(values.size());
  if (relation.node != 0 && std::find(values.begin(), values.end(), node_value) != values.end()) {
    if (found) found->value = kept(node_value);
    return false;
  }
  std::size_t changed = 0;
  for (std::size_t i = 0; i < values.size(); ++i) changed += values[i] != before[i];
  if (changed == 0) return true;
  PyObject* twice = nullptr;
  const bool by_sorting = changed * values.size() > kPairsBySorting;
  if (by_sorting) twice = duplicate_of(values);
  for (std::size_t i = 0; !by_sorting && !twice && i < values.size(); ++i) {
    const bool is_new = values[i] && values[i] != before[i];
    if (is_new && std::count(values.begin(), values.end(), values[i]) > 1) twice = values[i];
  }
  if (!twice) before = values;
  if (twice && found) found->value = kept(twice);
  return !twice;
}

void Relations::note_moving(const std::vector<bool>& moves) {
  fact_values_.note_moving(moves);
  after_replay_.clear();
  for (std::uint32_t at = 0; at < relations_.size(); ++at) {
    Relation& relation = relations_[at];
    relation.values.note_moving(moves);
    relation.node_may_move = moves[relation.node];
    if (relation.reads_storages() || relation.node_may_move || !relation.values.may_move.empty()) {
      after_replay_.push_back(at);
    }
  }
}

int Relations::traverse(visitproc visit, void* arg) const {
  int stop = 0;
  for (const Relation& relation : relations_) stop = stop ? stop : relation.check.traverse(visit, arg);
  for (const Check& fact : facts_) stop = stop ? stop : fact.traverse(visit, arg);
  return stop;
}

}  // namespace dynamo_lite
