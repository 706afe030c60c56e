// The replay of a walk: what it reads where nothing has changed, as words of memory one after the other.
//
// A walk goes from node to node; of a large model most of what it reads are pointers to types and dicts and the version
// numbers of dicts. The replay has the addresses of those and what was there. It is compared in the walk's order: a
// word lies in an object that is alive if the words before it are what they were. Where the interpreter reports
// changes to dicts, one flag replaces all their version numbers, and is read first. What is not a word (values that an
// accessor computes, and the like) is checked afterwards, as the walk does. If anything differs the walk is made.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "guards/guard_tree.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

constexpr std::uint32_t kMostPatience = 1024;
// How many words ahead to prefetch: running a graph evicts them from the caches.
constexpr std::size_t kAhead = 64;

std::uint64_t word_at(const void* at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

DL_HIT bool GuardTree::replay() {
  if (!replay_.ready) return false;
  const auto holds = [this] {
    if (!replayed_dicts_.unchanged()) return false;
    for (const auto& [child, value] : replay_.roots) {
      Step& step = steps_[child];
      if (step.accessor.reach(nullptr, *frame_, step.owned).value != value) return false;
    }
    if (!words_hold()) return false;
    for (const auto& [parent, child] : replay_.visits) {
      const bool held =
          child.same ? visit(child.child, true, nullptr) : visit_child(nodes_[parent], child.child, nullptr);
      if (!held) return false;
    }
    for (const auto& [check, value] : replay_.checks) {
      if (!check->holds(value, nullptr)) return false;
    }
    return true;
  };
  if (holds()) {
    patience_ -= patience_ > 1;
    return true;
  }
  replay_.ready = false;
  no_replay_before_ = walks_ > UINT32_MAX - kMostPatience - 2 ? UINT32_MAX : walks_ + 1 + patience_;
  patience_ = std::min(2 * patience_, kMostPatience);
  return false;
}

DL_HIT bool GuardTree::words_hold() const noexcept {
  const Replay::Word* word = replay_.words.data();
  const Replay::Word* const end = word + replay_.words.size();
  if (word == end) return true;
  for (const Replay::Word* ahead = word + kAhead; ahead != end; ++word, ++ahead) {
    __builtin_prefetch(ahead->at);
    if (word_at(word->at) != word->was) return false;
  }
  return true;
}

void GuardTree::make_replay() {
  if (walks_ < no_replay_before_ || walks_ == UINT32_MAX) return;
  replay_ = {};
  replayed_dicts_.clear();
  const Node& frame = nodes_[0];
  add_checks(frame, true);
  for (std::uint32_t i = frame.first_child; i < frame.end_child; ++i) add_root(children_[i]);
  if (!replay_.words.empty()) replay_.words.insert(replay_.words.end(), kAhead, Replay::Word(replay_.words.back()));
  note_moving();
  replay_.ready = !replay_.misses_changes;
  added_.clear();
}

// Notes which values a replay may find to be other objects (those that it visits, and all below them), and the
// relations that it must check again.
void GuardTree::note_moving() {
  std::vector<bool> moves(nodes_.size());
  for (const auto& [parent, child] : replay_.visits) moves[child.child] = true;
  for (std::size_t at = 1; at < nodes_.size(); ++at) moves[at] = moves[at] || moves[steps_[at].parent];
  const auto note = [&moves](Values& values) {
    values.may_move.clear();
    for (std::uint32_t i = 0; i < values.nodes.size(); ++i) {
      if (moves[values.nodes[i]]) values.may_move.push_back(i);
    }
  };
  note(captures_);
  note(fact_values_);
  for (Relation& relation : relations_) {
    note(relation.values);
    relation.node_may_move = moves[relation.node];
    if (relation.reads_storages() || relation.node_may_move || !relation.values.may_move.empty()) {
      replay_.relations.push_back(&relation);
    }
  }
}

// What is below a value of the frame is replayed where it was the same object the last times; visiting a leaf costs no
// more.
void GuardTree::add_root(std::uint32_t child) {
  const Node& node = nodes_[child];
  if (steps_[child].accessor.kind().from == From::Nothing) {
    if (!add_remembered(child, true)) replay_.visits.push_back({0, {child, 1}});
    return;
  }
  const bool stays = node.value && node.moved != walks_ && node.first_child != node.end_child;
  if (!stays) {
    replay_.visits.push_back({0, {child, 0}});
    return;
  }
  replay_.roots.push_back({child, node.value});
  if (!add_remembered(child, false)) add_anew(child);
}

// Whether a walk took from memory what it could of a node.
bool GuardTree::remembered(std::uint32_t at, bool same) const noexcept {
  const Node& node = nodes_[at];
  const bool known = node.memory == Memory::Object ? same : node.memory != Memory::None;
  return known && node.value && node.container == node.value && node.anew != walks_;
}

// What `visit` does of a node that it remembers. False, and nothing added, if it does not.
bool GuardTree::add_remembered(std::uint32_t at, bool same) {
  if (!remembered(at, same)) return false;
  const Node& node = nodes_[at];
  if (node.memory == Memory::Dict) add_dict(node.value);
  if (node.memory == Memory::Type) add_type_version(node.value);
  add_checks(node, false);
  for (std::uint32_t i = node.first_child; i < node.end_dict; ++i) add_dict(dicts_[i].dict);
  for (std::uint32_t i = node.first_child; i < node.end_live; ++i) {
    const Live live = live_[i];
    if (!live.same) {
      add_child_of(at, live.child);
    } else if (!add_remembered(live.child, true)) {
      replay_.visits.push_back({at, live});
    }
  }
  return true;
}

// What `visit` does of a node whose value is at the address that it was, maybe as another object: nothing that held of
// that one is known of this one.
void GuardTree::add_anew(std::uint32_t at) {
  const Node& node = nodes_[at];
  add_checks(node, true);
  for (std::uint32_t i = node.first_child; i < node.end_child; ++i) add_child_of(at, children_[i]);
}

// `all`: also those that need not be made again of the same object.
void GuardTree::add_checks(const Node& node, bool all) {
  std::vector<const void*> scratch;
  for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
    if (!all && lasts_[i] != Lasts::Now) continue;
    const Replayed how = checks_[i].kind().replayed;
    if (how == Replayed::ByAddress) continue;
    if (how == Replayed::ByType) {
      add_word(type_word(node.value));
    } else if (how == Replayed::ByTensor && TensorFacts::words(node.value, scratch)) {
      for (const void* word : scratch) add_word(word);
      scratch.clear();
    } else if (how == Replayed::ByKeepingIt) {
      replay_.kept.push_back(Ref::borrow(node.value));
    } else {
      replay_.checks.push_back({&checks_[i], node.value});
    }
  }
}

// A child that the parent does not vouch for: replayed where it is a word of the parent that stays, else visited.
void GuardTree::add_child_of(std::uint32_t parent, std::uint32_t child) {
  PyObject* const from = nodes_[parent].value;
  const Node& node = nodes_[child];
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(from));
  // The address of a type's field is valid only while a mutable metaclass has the same version.
  const bool needs_version = PyType_Check(from) && !PyType_HasFeature(Py_TYPE(from), Py_TPFLAGS_IMMUTABLETYPE);
  const bool stays = node.value && node.moved != walks_ && (!needs_version || type_version(type) != 0);
  PyObject* const* word = stays ? steps_[child].accessor.word(from) : nullptr;
  const bool may_be_remembered =
      node.value && node.memory != Memory::Object && (PyDict_Check(node.value) || PyType_Check(node.value));
  if (!word || (*word ? *word : Py_None) != node.value || (may_be_remembered && !remembered(child, false))) {
    replay_.visits.push_back({parent, {child, 0}});
    return;
  }
  // Where the word is depends on the type, and on the number of items.
  add_word(type_word(from));
  if (needs_version) add_type_version(type);
  if (Py_TYPE(from)->tp_itemsize != 0) add_word(size_word(from));
  add_word(word);
  if (!add_remembered(child, false)) add_anew(child);
}

// A word that the walk has just found to be as it should.
void GuardTree::add_word(const void* at) {
  if (added_.insert(at).second) replay_.words.push_back({at, word_at(at)});
}

void GuardTree::add_type_version(PyObject* type) {
  for (const void* word : type_version_at(type)) add_word(word);
}

void GuardTree::add_dict(PyObject* dict) {
  const void* version = dict_version_at(dict);
  if (added_.count(version) != 0) return;
  if (!replayed_dicts_.add(dict)) {
    replay_.misses_changes |= !has_version(dict);
    return add_word(version);
  }
  added_.insert(version);
}

}  // namespace dynamo_lite
