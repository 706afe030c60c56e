#include "guards/guard_tree.h"

#include <chrono>

#include <algorithm>
#include <new>

#include "cpython/lookup.h"
#include "guards/constants.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

constexpr int kMostSteps = 2000;  // steps from the frame; a walk recurses
constexpr std::size_t kPairsBySorting = 4096;

// Sets a flag for as long as it lives.
class Flag {
 public:
  explicit Flag(bool& flag) noexcept : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
};

// A value that occurs twice; null if none does.
PyObject* duplicate_of(std::vector<PyObject*> values) {
  std::sort(values.begin(), values.end());
  const auto first = std::find_if(values.begin(), values.end(), [](PyObject* each) { return each != nullptr; });
  const auto found = std::adjacent_find(first, values.end());
  return found == values.end() ? nullptr : *found;
}

}  // namespace

GuardTree::GuardTree(PyCodeObject* code) : layout_(code), steps_(1) {}

GuardTree::GuardTree(const GuardTree& other)
    : layout_(other.layout_),
      liveness_(other.liveness_),
      steps_(other.steps_),
      facts_(other.facts_),
      all_facts_(other.all_facts_),
      fact_values_{other.fact_values_.nodes},
      captures_{other.captures_.nodes} {
  for (const Relation& each : other.relations_) relations_.push_back({each.node, each.check, {each.values.nodes}});
  for (std::size_t at = 0; at < other.nodes_.size(); ++at) {  // as they were before the other one was sealed
    const Node& node = other.nodes_[at];
    for (auto i = node.first_check; i < node.end_check; ++i) steps_[at].checks.push_back(other.checks_[i]);
    for (auto i = node.first_child; i < node.end_child; ++i) steps_[at].children.push_back(other.children_[i]);
  }
}

void GuardTree::expect_node(Py_ssize_t node) const {
  if (sealed_) raise(PyExc_RuntimeError, "a GuardTree that was tested or checked cannot be added to");
  if (node >= 0 && node < static_cast<Py_ssize_t>(steps_.size())) return;
  raise(PyExc_ValueError, "the tree has %zd nodes, there is no number %zd", steps_.size(), node);
}

Py_ssize_t GuardTree::add_child(Py_ssize_t parent, const char* kind, PyObject* arg) {
  expect_node(parent);
  Step step;
  step.parent = static_cast<std::uint32_t>(parent);
  step.depth = steps_[step.parent].depth + 1;
  if (step.depth > kMostSteps) {
    raise(PyExc_ValueError, "a value nested more than %d steps deep cannot be guarded", kMostSteps);
  }
  step.accessor = Accessor(kind, arg, layout_, liveness_);
  const From from = step.accessor.kind().from;
  if (from != From::Nothing && (from == From::Frame) != (parent == 0)) {
    raise(PyExc_ValueError, "'%s' is %s accessor of the frame", kind, parent == 0 ? "no" : "an");
  }
  const std::size_t number = steps_.size();
  steps_.push_back(std::move(step));
  steps_[static_cast<std::size_t>(parent)].children.push_back(static_cast<std::uint32_t>(number));
  return static_cast<Py_ssize_t>(number);
}

void GuardTree::add_check(Py_ssize_t node, const char* kind, PyObject* arg, PyObject* reason) {
  expect_node(node);
  Check check(kind, arg, reason, steps_.size(), liveness_);
  const auto at = static_cast<std::uint32_t>(node);
  if (check.kind().subject == Subject::Symbolic) {
    all_facts_.add(PyTuple_GET_ITEM(arg, 1), check.details().nodes);
    fact_values_.nodes = all_facts_.nodes();
    facts_.push_back(std::move(check));
    return;
  }
  if (check.relates()) {
    relations_.push_back({at, check, {check.details().nodes}});
    return;
  }
  if ((at == 0) != (check.kind().subject == Subject::Frame)) {
    raise(PyExc_ValueError, "a check of kind %s cannot be made of %s", kind, at == 0 ? "the frame" : "a value");
  }
  steps_[at].checks.push_back(std::move(check));
}

Py_ssize_t GuardTree::add_capture(Py_ssize_t node) {
  expect_node(node);
  if (node == 0) raise(PyExc_ValueError, "the frame itself cannot be captured");
  auto& nodes = captures_.nodes;
  const auto found = std::find(nodes.begin(), nodes.end(), static_cast<std::uint32_t>(node));
  const Py_ssize_t index = found - nodes.begin();
  if (found == nodes.end()) nodes.push_back(static_cast<std::uint32_t>(node));
  return index;
}

// What an instance lacks depends on its __dict__: where that is a node, the node remembers it with its version.
void GuardTree::move_to_instance_dict(Step& step) {
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

void GuardTree::seal() try {
  if (sealed_) return;
  sealed_ = true;
  for (Step& step : steps_) move_to_instance_dict(step);
  nodes_.resize(steps_.size());
  for (std::uint32_t at = 0; at < steps_.size(); ++at) {
    Step& step = steps_[at];
    Node& node = nodes_[at];
    node.first_check = static_cast<std::uint32_t>(checks_.size());
    for (Check& check : step.checks) {
      node.expects_nothing = node.expects_nothing || check.kind().subject == Subject::NoValue;
      checks_.push_back(std::move(check));
    }
    node.end_check = static_cast<std::uint32_t>(checks_.size());
    node.first_child = static_cast<std::uint32_t>(children_.size());
    children_.insert(children_.end(), step.children.begin(), step.children.end());
    node.end_child = static_cast<std::uint32_t>(children_.size());
    node.end_live = node.end_dict = node.first_child;
    node.may_stay = at == 0 || step.accessor.kind().lasts;
    step.checks.clear();
    step.children.clear();
  }
  live_.resize(children_.size());
  dicts_.resize(children_.size());
  lasts_.resize(checks_.size(), Lasts::Now);
} catch (...) {
  liveness_ = {};  // it is laid out in part
  throw;
}

DL_HIT bool GuardTree::walk(const FrameSlots& frame, Ref* captured, Miss* miss) {
  // A C getter that lets other code in must not find this tree's nodes half visited.
  if (!alive() || busy_) return false;
  const Ref self = Ref::borrow(self_);  // what is dropped below may drop the tree
  Flag busy(busy_);
  frame_ = &frame;
  bool holds = false;
  try {
    if (!sealed_) seal();
    holds = walk_sealed(captured, miss);
  } catch (...) {
    if (!miss) liveness_ = {};  // what it remembers may be half of the truth
    end_walk();
    throw;
  }
  end_walk();
  return holds;
}

void GuardTree::end_walk() noexcept {
  frame_ = nullptr;
  for (const std::uint32_t owner : owners_) steps_[owner].owned.reset();
  owners_.clear();
}

DL_HIT bool GuardTree::walk_sealed(Ref* captured, Miss* miss) {
  if (!miss && !failed_.empty() && fails_again()) return false;
  failed_.clear();
  const bool replayed = !miss && replay();
  if (!replayed) {
    replay_.ready = false;  // the nodes get the values of this walk
    walks_ += walks_ < UINT32_MAX;
    if (!visit(0, true, miss)) {
      if (!miss) note_failed();
      return false;
    }
    if (measures_) [[unlikely]]
      measure();
  }
  if (!relations_hold(replayed, miss) || !facts_hold(replayed, miss)) {
    replay_.ready = false;  // it is for values of which they hold
    return false;
  }
  if (!replayed && !miss) make_replay();
  return !captured || captures_.nodes.empty() || capture(replayed, *captured);
}

void GuardTree::note_failed() {
  for (std::uint32_t at = failing_; at != 0; at = steps_[at].parent) failed_.push_back(at);
  std::reverse(failed_.begin(), failed_.end());
}

// Leaves what the nodes remember as it is.
bool GuardTree::fails_again() {
  PyObject* value = nullptr;
  std::vector<Ref> made;
  for (const std::uint32_t at : failed_) {
    Ref owned;
    const Reached reached = steps_[at].accessor.reach(value, *frame_, owned);
    if (owned) made.push_back(std::move(owned));
    const Node& node = nodes_[at];
    if (!reached.value) return !(node.expects_nothing && reached.readable);
    value = reached.value;
    for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
      if (!checks_[i].holds(value, nullptr)) return true;
    }
  }
  return false;
}

// Whether they may be others than they were. After a replay only what it does not vouch for is read again.
DL_HIT bool GuardTree::read(Values& values, bool replayed) const {
  if (!replayed) {
    values.of.resize(values.nodes.size());
    for (std::size_t i = 0; i < values.of.size(); ++i) values.of[i] = nodes_[values.nodes[i]].value;
    return true;
  }
  bool moved = false;
  for (const std::uint32_t at : values.may_move) {
    PyObject* before = std::exchange(values.of[at], nodes_[values.nodes[at]].value);
    moved = moved || values.of[at] != before;
  }
  return moved;
}

DL_HIT bool GuardTree::relations_hold(bool replayed, Miss* miss) {
  if (replayed) {
    const auto holds = [this](Relation* relation) { return relation_holds(*relation, true, nullptr); };
    return std::all_of(replay_.relations.begin(), replay_.relations.end(), holds);
  }
  for (Relation& relation : relations_) {
    if (relation_holds(relation, false, miss ? &miss->found : nullptr)) continue;
    if (miss) *miss = {relation.node, &relation.check, std::move(miss->found)};
    return false;
  }
  return true;
}

DL_HIT bool GuardTree::facts_hold(bool replayed, Miss* miss) {
  if (all_facts_.empty()) return true;
  read(fact_values_, replayed);
  const std::ptrdiff_t wrong = all_facts_.wrong(fact_values_.of, miss ? &miss->found : nullptr);
  if (wrong >= 0 && miss) *miss = {0, &facts_[static_cast<std::size_t>(wrong)], std::move(miss->found)};
  return wrong < 0;
}

inline bool GuardTree::remembers(const Node& node, bool same) noexcept {
  switch (node.memory) {
    case Memory::None:
      return false;
    case Memory::Object:
      return same;
    case Memory::Dict:
      return node.container == node.value && (same || PyDict_Check(node.value)) &&
             dict_version(node.value) == node.version;
    case Memory::Type:
      return node.container == node.value && (same || PyType_Check(node.value)) &&
             type_version(node.value) == node.version;
  }
  return false;
}

// `same`: the value is, for sure, the object that it was when the parent last remembered.
DL_HIT bool GuardTree::visit(std::uint32_t at, bool same, Miss* miss) {
  const Node& node = nodes_[at];
  return !miss && remembers(node, same) ? visit_known(node) : visit_anew(at, miss);
}

DL_HIT bool GuardTree::visit_known(const Node& node) {
  if (node.checks_now) {
    for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
      if (lasts_[i] == Lasts::Now && !checks_[i].holds(node.value, nullptr)) {
        failing_ = static_cast<std::uint32_t>(&node - nodes_.data());
        return false;
      }
    }
  }
  for (std::uint32_t i = node.first_child; i < node.end_dict; ++i) {
    if (dict_version(dicts_[i].dict) != dicts_[i].version && !visit_dict(dicts_[i])) return false;
  }
  for (std::uint32_t i = node.first_child; i < node.end_live; ++i) {
    const Live live = live_[i];
    const bool holds = live.same ? visit(live.child, true, nullptr) : visit_child(node, live.child, nullptr);
    if (!holds) return false;
  }
  return true;
}

// The dict changed: it is looked into, and remembered again where nothing but its version needs to be.
DL_HIT bool GuardTree::visit_dict(DictChild& dict) {
  if (!visit(dict.child, true, nullptr)) return false;
  const Node& node = nodes_[dict.child];
  if (needs_no_visit(node, Memory::Dict)) dict.version = node.version;
  return true;
}

DL_HIT bool GuardTree::visit_anew(std::uint32_t at, Miss* miss) {
  Node& node = nodes_[at];
  node.memory = Memory::None;
  node.anew = walks_;
  const bool is_dict = node.value && PyDict_Check(node.value);
  const bool is_type = !is_dict && node.value && PyType_Check(node.value);
  // Read before the rest: what is remembered may be older than the dict or type, never younger.
  if (is_dict) node.version = dict_version(node.value);
  if (is_type) node.version = type_version(node.value);
  for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
    if (checks_[i].holds(node.value, miss ? &miss->found : nullptr)) continue;
    failing_ = at;
    if (miss) {
      miss->found.value = kept(node.value);
      *miss = {at, &checks_[i], std::move(miss->found)};
    }
    return false;
  }
  for (std::uint32_t i = node.first_child; i < node.end_child; ++i) {
    if (!visit_child(node, children_[i], miss)) return false;
  }
  if (!miss && (node.may_stay || is_dict || is_type)) remember(node);
  return true;
}

DL_HIT bool GuardTree::visit_child(const Node& parent, std::uint32_t child, Miss* miss) {
  Step& step = steps_[child];
  Node& node = nodes_[child];
  const Reached reached = step.accessor.reach(parent.value, *frame_, step.owned);
  if (step.owned) owners_.push_back(child);
  if (node.value != reached.value) node.moved = walks_;
  node.value = reached.value;
  if (!reached.value) return visit_nothing(child, reached.readable, miss);
  return visit(child, false, miss);
}

DL_HIT bool GuardTree::visit_nothing(std::uint32_t at, bool readable, Miss* miss) {
  Node& node = nodes_[at];
  node.end_live = node.end_dict = node.first_child;
  node.checks_now = false;
  const bool holds = node.expects_nothing && readable;
  node.memory = holds ? Memory::Object : Memory::None;
  if (!holds) failing_ = at;
  if (!holds && miss) {
    *miss = {at, nullptr, {.words = readable ? "nothing there" : "a value that cannot be read that way"}};
  }
  return holds;
}

// Nothing of it and below it can change as long as it is the same object (or, of a dict, has the same version).
bool GuardTree::needs_no_visit(const Node& node, Memory memory) noexcept {
  return node.memory == memory && !node.checks_now && node.end_live == node.first_child &&
         node.end_dict == node.first_child;
}

void GuardTree::remember(Node& node) {
  bool needs_version = false;
  node.checks_now = false;
  for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
    lasts_[i] = checks_[i].lasts(node.value);
    needs_version = needs_version || lasts_[i] == Lasts::Version;
    node.checks_now = node.checks_now || lasts_[i] == Lasts::Now;
  }
  node.end_live = node.end_dict = node.first_child;
  for (std::uint32_t i = node.first_child; i < node.end_child; ++i) {
    const std::uint32_t at = children_[i];
    const Node& child = nodes_[at];
    const AccessorKind& kind = steps_[at].accessor.kind();
    const Lasts lasts = kind.lasts ? kind.lasts(node.value) : Lasts::Now;
    needs_version = needs_version || lasts == Lasts::Version;
    const bool same = lasts != Lasts::Now;
    if (same && needs_no_visit(child, Memory::Object)) continue;
    if (same && needs_no_visit(child, Memory::Dict)) {
      dicts_[node.end_dict++] = {child.value, child.version, at};
    } else {
      live_[node.end_live++] = {at, same};
    }
  }
  node.container = node.value;
  node.memory = Memory::Object;
  if (!needs_version) return;
  node.memory = PyDict_Check(node.value) ? Memory::Dict : Memory::Type;
  if (node.memory == Memory::Type && node.version == 0) node.memory = Memory::None;  // it was given one meanwhile
}

DL_HIT bool GuardTree::relation_holds(Relation& relation, bool replayed, Found* found) {
  const bool moved = read(relation.values, replayed) || relation.node_may_move;
  const auto& values = relation.values.of;
  const Subject subject = relation.check.kind().subject;
  // The relation held of these identities before.
  if (!moved && !relation.reads_storages()) return true;
  if (subject == Subject::Same) {
    PyObject* const value = nodes_[relation.node].value;
    if (value == values.front()) return true;
    if (found) found->value = kept(value);
    return false;
  }
  if (subject == Subject::Distinct) return are_distinct(relation, found);
  return relation.storages.holds(values, relation.check.details().written);
}

// That pointers differ is a fact about the pointers: only those that changed since it held last are compared.
bool GuardTree::are_distinct(Relation& relation, Found* found) {
  const auto& values = relation.values.of;
  auto& before = relation.before;
  before.resize(values.size());
  if (relation.node != 0 && std::find(values.begin(), values.end(), nodes_[relation.node].value) != values.end()) {
    if (found) found->value = kept(nodes_[relation.node].value);
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

DL_HIT bool GuardTree::capture(bool replayed, Ref& captured) {
  NoCollection no_collection;
  read(captures_, replayed);
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(captures_.of.size())));
  if (!tuple) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  for (std::size_t i = 0; i < captures_.of.size(); ++i) {
    PyObject* value = captures_.of[i];
    // With no references it is being deallocated: another dict watcher's callback was called before ours.
    if (!value || Py_REFCNT(value) == 0) return false;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(value));
  }
  captured = std::move(tuple);
  return true;
}

std::vector<const Check*> GuardTree::all_checks() {
  seal();
  std::vector<const Check*> ordered;
  for (const Check& check : checks_) ordered.push_back(&check);
  for (const Relation& relation : relations_) ordered.push_back(&relation.check);
  for (const Check& fact : facts_) ordered.push_back(&fact);
  return ordered;
}

std::vector<double> GuardTree::seconds_of_checks(const FrameSlots& frame) {
  const Flag measures(measures_);
  seconds_.clear();
  Miss miss;
  walk(frame, nullptr, &miss);
  return std::move(seconds_);
}

void GuardTree::measure() {
  constexpr int kRepeats = 200;
  const auto timed = [this](std::size_t checks, const auto& run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRepeats; ++i) run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds_.insert(seconds_.end(), checks, took.count() / kRepeats / static_cast<double>(checks));
  };
  for (const Node& node : nodes_) {
    const bool has_subject = node.value || &node == &nodes_.front();  // the frame is no value
    for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
      timed(1, [&] { return !has_subject || checks_[i].holds(node.value, nullptr); });
    }
  }
  for (Relation& relation : relations_) timed(1, [&] { return relation_holds(relation, false, nullptr); });
  if (!facts_.empty()) timed(facts_.size(), [&] { return facts_hold(false, nullptr); });
}

PyObject* GuardTree::reason_of(const Miss& miss) const noexcept {
  if (miss.check) return miss.check->reason();
  const Node* node = &nodes_[miss.node];
  while (node->first_check == node->end_check) {
    if (node->first_child == node->end_child) return Py_None;
    node = &nodes_[children_[node->first_child]];
  }
  return checks_[node->first_check].reason();
}

int GuardTree::traverse(visitproc visit, void* arg) const {
  int stop = 0;
  const auto each = [&](const auto& part) { stop = stop ? stop : part.traverse(visit, arg); };
  for (const Step& step : steps_) {
    each(step.accessor);
    for (const Check& check : step.checks) each(check);
  }
  for (const Check& check : checks_) each(check);
  for (const Relation& relation : relations_) each(relation.check);
  for (const Check& fact : facts_) each(fact);
  return stop;
}

void GuardTree::clear() noexcept {
  liveness_ = {};     // a copy's goes on
  if (busy_) return;  // the walk that goes on needs its nodes; nothing after it will
  // Taken out first: dropping a reference may run code that looks at this tree.
  const auto steps = std::exchange(steps_, {});
  const auto relations = std::exchange(relations_, {});
  const auto facts = std::exchange(facts_, {});
  const auto checks = std::exchange(checks_, {});
  const auto replay = std::exchange(replay_, {});
  replayed_dicts_.clear();
  nodes_.clear();
}

}  // namespace dynamo_lite
