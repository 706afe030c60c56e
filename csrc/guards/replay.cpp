#include "guards/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "cpython/lookup.h"
#include "cpython/objects.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

constexpr std::uint32_t kMaxBackoff = 1024;
// How many words ahead to prefetch: running a graph evicts them from the caches.
constexpr std::size_t kAhead = 64;

std::uint64_t word_at(const void* at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

// Part of holds(): an inline function of a section of its own conflicts with others of that section.
inline bool Replay::steps_hold() {
  if (!watched_.unchanged()) return false;
  for (const auto& [child, value] : steps_.roots) {
    Ref& owned = memory_.owned_[child];
    if (layout_.accessors[child].reach(nullptr, *memory_.frame_, owned).value != value) return false;
  }
  if (!words_hold()) return false;
  for (const auto& [parent, child] : steps_.visits) {
    const bool held =
        child.is_same ? memory_.visit(child.child, true, nullptr) : memory_.visit_child(parent, child.child, nullptr);
    if (!held) return false;
  }
  for (const auto& [check, value] : steps_.checks) {
    if (!check->holds(value, nullptr)) return false;
  }
  return true;
}

DL_HIT bool Replay::holds() {
  if (!is_ready_) return false;
  if (steps_hold()) {
    backoff_ -= backoff_ > 1;
    return true;
  }
  is_ready_ = false;
  const std::uint32_t walks = memory_.walks_;
  earliest_ = walks > UINT32_MAX - kMaxBackoff - 2 ? UINT32_MAX : walks + 1 + backoff_;
  backoff_ = std::min(2 * backoff_, kMaxBackoff);
  return false;
}

DL_HIT bool Replay::words_hold() const noexcept {
  const Word* word = steps_.words.data();
  const Word* const end = word + steps_.words.size();
  if (word == end) return true;
  for (const Word* ahead = word + kAhead; ahead != end; ++word, ++ahead) {
    __builtin_prefetch(ahead->at);
    if (word_at(word->at) != word->was) return false;
  }
  return true;
}

bool Replay::make() {
  is_ready_ = false;
  if (memory_.walks_ < earliest_ || memory_.walks_ == UINT32_MAX) return false;
  clear();
  misses_changes_ = false;
  const LayoutNode& frame = layout_.nodes[0];
  add_checks(0, true);
  for (std::uint32_t i = frame.first_child; i < frame.end_child; ++i) add_root(layout_.children[i]);
  std::vector<Word>& words = steps_.words;
  if (!words.empty()) words.insert(words.end(), kAhead, Word(words.back()));
  added_.clear();
  is_ready_ = !misses_changes_;
  return is_ready_;
}

void Replay::clear() noexcept {
  is_ready_ = false;
  const Steps dropped = std::exchange(steps_, {});
  watched_.clear();
  added_.clear();
}

// Those that a replay visits, and all below them.
std::vector<bool> Replay::moving_nodes() const {
  std::vector<bool> moves(layout_.nodes.size());
  for (const auto& [parent, child] : steps_.visits) moves[child.child] = true;
  for (std::size_t at = 1; at < moves.size(); ++at) moves[at] = moves[at] || moves[layout_.nodes[at].parent];
  return moves;
}

// What is below a value of the frame is replayed if it was the same object in the last walks. A leaf is visited: that
// costs no more.
void Replay::add_root(std::uint32_t child) {
  const Memory::Node& node = memory_.nodes_[child];
  const LayoutNode& laid_out = layout_.nodes[child];
  if (layout_.accessors[child].kind().from == From::Nothing) {
    if (!add_remembered(child, true)) steps_.visits.push_back({0, {child, 1}});
    return;
  }
  const bool stays = node.value && node.value_change != memory_.walks_ && laid_out.first_child != laid_out.end_child;
  if (!stays) {
    steps_.visits.push_back({0, {child, 0}});
    return;
  }
  steps_.roots.push_back({child, node.value});
  if (!add_remembered(child, false)) add_full_visit(child);
}

// Whether the last walk took from memory what it could of a node.
bool Replay::was_remembered(std::uint32_t at, bool is_same) const noexcept {
  const Memory::Node& node = memory_.nodes_[at];
  const bool known = node.kind == Memory::Kind::Object ? is_same : node.kind != Memory::Kind::None;
  return known && node.value && node.remembered == node.value && node.full_visit != memory_.walks_;
}

// Adds what `visit` does with a node that it remembers. False, with nothing added, if it doesn't remember it.
bool Replay::add_remembered(std::uint32_t at, bool is_same) {
  if (!was_remembered(at, is_same)) return false;
  const Memory::Node& node = memory_.nodes_[at];
  if (node.kind == Memory::Kind::Dict) add_dict(node.value);
  if (node.kind == Memory::Kind::Type) add_type_version(node.value);
  add_checks(at, false);
  for (std::uint32_t i = node.first_child; i < node.end_dict; ++i) add_dict(memory_.dicts_[i].dict);
  for (std::uint32_t i = node.first_child; i < node.end_live; ++i) {
    const LiveChild live = memory_.live_[i];
    if (!live.is_same) {
      add_child_of(at, live.child);
    } else if (!add_remembered(live.child, true)) {
      steps_.visits.push_back({at, live});
    }
  }
  return true;
}

// Adds what `visit` does with a node whose value is at the same address as before, but maybe another object: nothing
// that held for that one is known of this one.
void Replay::add_full_visit(std::uint32_t at) {
  const LayoutNode& node = layout_.nodes[at];
  add_checks(at, true);
  for (std::uint32_t i = node.first_child; i < node.end_child; ++i) add_child_of(at, layout_.children[i]);
}

// `all`: also those that need not be repeated for the same object.
void Replay::add_checks(std::uint32_t at, bool all) {
  const LayoutNode& node = layout_.nodes[at];
  PyObject* const value = memory_.nodes_[at].value;
  std::vector<const void*> scratch;
  for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
    if (!all && memory_.lasts_[i] != Lasts::Now) continue;
    const Check& check = layout_.checks[i];
    const Replayed how = check.kind().replayed;
    if (how == Replayed::ByAddress) continue;
    if (how == Replayed::ByType) {
      add_word(type_word(value));
    } else if (how == Replayed::ByTensor && TensorFacts::words(value, scratch)) {
      for (const void* word : scratch) add_word(word);
      scratch.clear();
    } else if (how == Replayed::ByKeepingIt) {
      steps_.kept.push_back(Ref::borrow(value));
    } else {
      steps_.checks.push_back({&check, value});
    }
  }
}

// A child of which the parent can't tell that it has the same value. It is replayed if the value is a word of the
// parent that hasn't changed lately, else visited.
void Replay::add_child_of(std::uint32_t parent, std::uint32_t child) {
  PyObject* const from = memory_.nodes_[parent].value;
  const Memory::Node& node = memory_.nodes_[child];
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(from));
  // The address of a type's field is valid only while a mutable metaclass has the same version.
  const bool needs_version = PyType_Check(from) && !PyType_HasFeature(Py_TYPE(from), Py_TPFLAGS_IMMUTABLETYPE);
  const bool stays = node.value && node.value_change != memory_.walks_ && (!needs_version || type_version(type) != 0);
  PyObject* const* word = stays ? layout_.accessors[child].word(from) : nullptr;
  const bool may_be_remembered =
      node.value && node.kind != Memory::Kind::Object && (PyDict_Check(node.value) || PyType_Check(node.value));
  if (!word || (*word ? *word : Py_None) != node.value || (may_be_remembered && !was_remembered(child, false))) {
    steps_.visits.push_back({parent, {child, 0}});
    return;
  }
  // Where the word is depends on the type, and on the number of items.
  add_word(type_word(from));
  if (needs_version) add_type_version(type);
  if (Py_TYPE(from)->tp_itemsize != 0) add_word(size_word(from));
  add_word(word);
  if (!add_remembered(child, false)) add_full_visit(child);
}

// A word that the walk has just found to have the expected contents.
void Replay::add_word(const void* at) {
  if (added_.insert(at).second) steps_.words.push_back({at, word_at(at)});
}

void Replay::add_type_version(PyObject* type) {
  for (const void* word : type_version_at(type)) add_word(word);
}

void Replay::add_dict(PyObject* dict) {
  const void* version = dict_version_at(dict);
  if (added_.count(version) != 0) return;
  if (!watched_.add(dict)) {
    misses_changes_ |= !has_version(dict);
    return add_word(version);
  }
  added_.insert(version);
}

}  // namespace dynamo_lite
