// A replay: what a walk reads if nothing has changed, as words of memory one after the other.
//
// A walk goes from node to node. In a large model most of what it reads are pointers to types and dicts, and version
// numbers of dicts. A replay has the addresses of these words and what they contained. They are compared in the order
// of the walk, so that a word is read only if it lies in an object that is alive: those before it are unchanged. If the
// interpreter reports changes of dicts, one flag stands for all their version numbers, and is read first. What isn't a
// word (values that an accessor computes, and the like) is checked afterwards, as in a walk. If anything differs, a
// walk follows.
//
// Owns: references to constants, which keep their addresses from being reused. Borrows: all other values, and the
// layout and memory of its tree.
#pragma once

#include <Python.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "cpython/dict_watchers.h"
#include "guards/layout.h"
#include "guards/memory.h"
#include "refs.h"

namespace dynamo_lite {

class Replay {
 public:
  Replay(const Layout& layout, Memory& memory) noexcept : layout_(layout), memory_(memory) {}
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Whether all that the walk checked before relations holds still. If not, the replay is dropped.
  bool holds();
  // Makes a replay of the walk that has just held, unless earlier ones failed a short time ago. Throws; then there is
  // none.
  [[gnu::cold, gnu::noinline]] bool make();
  // After that, for each node: whether its value may be another object although a replay holds.
  std::vector<bool> moving_nodes() const;
  void drop() noexcept { is_ready_ = false; }
  void clear() noexcept;

 private:
  // A child of the frame and the value that it must have.
  struct Root {
    std::uint32_t child;
    PyObject* value;
  };
  struct Word {
    const void* at;
    std::uint64_t was;
  };
  struct Visit {
    std::uint32_t parent;
    LiveChild child;
  };
  struct CheckedValue {
    const Check* check;
    PyObject* value;
  };
  struct Steps {
    std::vector<Root> roots = {};
    std::vector<Word> words = {};  // padded with copies of the last one: prefetching ahead needs no check of bounds
    std::vector<Visit> visits = {};
    std::vector<CheckedValue> checks = {};
    std::vector<Ref> kept = {};  // constants: while they are alive an address identifies a value
  };

  bool steps_hold();
  bool words_hold() const noexcept;
  void add_root(std::uint32_t child);
  void add_full_visit(std::uint32_t at);
  bool was_remembered(std::uint32_t at, bool is_same) const noexcept;
  bool add_remembered(std::uint32_t at, bool is_same);
  void add_checks(std::uint32_t at, bool all);
  void add_child_of(std::uint32_t parent, std::uint32_t child);
  void add_word(const void* at);
  void add_type_version(PyObject* type);
  void add_dict(PyObject* dict);

  const Layout& layout_;
  Memory& memory_;
  Steps steps_;
  WatchedDicts watched_;  // dicts whose words need not be read
  bool is_ready_ = false;
  bool misses_changes_ = false;            // nothing reports the changes of a dict without a version
  std::uint32_t earliest_ = 2;             // the number of the walk of which the next replay may be made
  std::uint32_t backoff_ = 1;              // how many walks to wait after the next failure
  std::unordered_set<const void*> added_;  // addresses of the words, while a replay is made
};

}  // namespace dynamo_lite
