// The tree behind a GuardTree object: nodes, what is remembered of them, and the walk that serves check and explain.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "cpython/dict_watchers.h"
#include "cpython/frames.h"
#include "guards/accessors.h"
#include "guards/checks.h"
#include "guards/found.h"
#include "guards/guarded_object.h"
#include "guards/symbolic.h"
#include "guards/tensors.h"
#include "refs.h"

namespace dynamo_lite {

// Where a walk stopped.
struct Miss {
  std::uint32_t node = 0;
  const Check* check = nullptr;  // null: the accessor found nothing
  Found found;
};

// Nodes are values; each but the first, the frame, is one accessor away from its parent. A walk visits parents first.
//
// What a walk remembers. After all of a node's checks and all below it have held once, the node remembers the object
// and, where some of that depends on a dict's keys and values or on a type's attributes, its version number. As
// long as the version is the same, that part need not be checked again, and the children's values are the objects they
// were: they are visited only for what may change inside them (`live`, or `dicts` where that is a version alone). Three
// rules keep this sound:
//   - A node forgets before its children are given other values, and remembers only when all below it has held.
//   - The version numbers are never used twice, so that pointer and version stand for one state of one object.
//   - Without a version, a node's memory counts only while its parent vouches for the object (`same`): an equal address
//     proves nothing.
//
// Two walks that found nothing changed leave a replay of it: see replay.cpp.
class GuardTree {
 public:
  explicit GuardTree(PyCodeObject* code);
  // The same assumptions about the same objects, with nothing remembered.
  GuardTree(const GuardTree& other);
  GuardTree& operator=(const GuardTree&) = delete;
  // `self`: the object that owns this. False with an exception set.
  bool create(PyObject* self) {
    self_ = self;
    return liveness_.create();
  }

  // These throw.
  Py_ssize_t add_child(Py_ssize_t parent, const char* kind, PyObject* arg);
  void add_check(Py_ssize_t node, const char* kind, PyObject* arg, PyObject* reason);
  Py_ssize_t add_capture(Py_ssize_t node);

  bool alive() const noexcept { return liveness_.alive(); }
  Py_ssize_t local_count() const noexcept { return PyTuple_GET_SIZE(layout_.names.get()); }
  // Whether all holds. Either `captured` or `miss` is given: for `miss`, which receives the first failure, nothing is
  // taken from memory. Throws where there is no memory; without a `miss` the tree isn't valid any more.
  bool walk(const FrameSlots& frame, Ref* captured, Miss* miss);

  // The checks of each node, in the order in which nodes were added; then relations and symbolic facts.
  std::vector<const Check*> all_checks();
  // What each of them costs, in this order, where nothing is taken from memory: without the way to the value. Of
  // symbolic facts, which are checked together, each has its share. Empty where one does not hold. Throws as `walk`
  // does.
  std::vector<double> seconds_of_checks(const FrameSlots& frame);
  // What a miss is about: the check's reason, else that of the first check which needs the missing value; borrowed.
  PyObject* reason_of(const Miss& miss) const noexcept;
  const Accessor& accessor(std::uint32_t node) const noexcept { return steps_[node].accessor; }

  int traverse(visitproc visit, void* arg) const;
  void clear() noexcept;

 private:
  enum class Memory : std::uint8_t { None, Object, Dict, Type };

  struct Node {
    PyObject* value = nullptr;      // of the last visit; borrowed: good while the walk lasts or the parent vouches
    PyObject* container = nullptr;  // the value that is remembered; compared, never followed
    std::uint64_t version = 0;
    std::uint32_t first_check = 0, end_check = 0;  // in checks_
    std::uint32_t first_child = 0, end_child = 0;  // in children_
    std::uint32_t end_live = 0;                    // live_[first_child, end_live)
    std::uint32_t end_dict = 0;                    // dicts_[first_child, end_dict)
    Memory memory = Memory::None;
    bool checks_now = false;       // some check must be made each time
    bool expects_nothing = false;  // has an `unbound` check
    bool may_stay = false;         // its parent may vouch for its value
    std::uint32_t anew = 0;        // the number of the walk that last took nothing from memory
    std::uint32_t moved = 0;       // of a child of the frame: of the walk that last found another value
  };

  // What only building and the slow path need of a node.
  struct Step {
    Accessor accessor;
    std::uint32_t parent = 0;
    int depth = 0;
    Ref owned;  // a value that the accessor made, until the walk ends
    std::vector<std::uint32_t> children;
    std::vector<Check> checks;
  };

  // A child to visit each time.
  struct Live {
    std::uint32_t child : 31;
    std::uint32_t same : 1;  // the parent vouches for the value
  };

  // A child that needs no visit while the dict it is has the same version. The parent vouches for the dict.
  struct DictChild {
    PyObject* dict = nullptr;  // borrowed
    std::uint64_t version = 0;
    std::uint32_t child = 0;
  };

  // The values of a fixed list of nodes.
  struct Values {
    std::vector<std::uint32_t> nodes;
    std::vector<PyObject*> of = {};            // as the last walk found them; borrowed
    std::vector<std::uint32_t> may_move = {};  // the places of those that a replay may find to be others
  };

  struct Relation {
    std::uint32_t node = 0;
    Check check;
    Values values;
    bool node_may_move = true;           // by a replay
    std::vector<PyObject*> before = {};  // when `distinct` held last
    StoragesDistinct storages = {};

    // Other relations compare identities alone.
    bool reads_storages() const noexcept { return check.kind().subject == Subject::StoragesDistinct; }
  };

  // What a walk reads where nothing has changed, parents before children. Values are borrowed: each is alive if all
  // that was read before is what it was.
  struct Replay {
    struct Root {
      std::uint32_t child;  // of the frame
      PyObject* value;
    };
    struct Word {
      const void* at;
      std::uint64_t was;
    };
    struct Visit {
      std::uint32_t parent;
      Live child;
    };
    struct CheckedValue {
      const Check* check;
      PyObject* value;
    };
    std::vector<Root> roots;
    std::vector<Word> words;  // padded with copies of the last one, so that prefetching ahead needs no check of bounds
    std::vector<Visit> visits;
    std::vector<CheckedValue> checks;
    std::vector<Relation*> relations;  // those that may fail although all words are the same
    std::vector<Ref> kept;             // constants: while they are alive an address identifies a value
    bool ready = false;
    bool misses_changes = false;  // nothing reports the changes of a dict without a version
  };

  // Throws where there is no such node, or nothing may be added any more.
  void expect_node(Py_ssize_t node) const;
  [[gnu::cold, gnu::noinline]] void seal();
  void move_to_instance_dict(Step& step);
  void measure();
  bool walk_sealed(Ref* captured, Miss* miss);
  void end_walk() noexcept;
  [[gnu::noinline]] void note_failed();
  [[gnu::noinline]] bool fails_again();
  bool visit(std::uint32_t at, bool same, Miss* miss);
  bool visit_known(const Node& node);
  bool visit_dict(DictChild& dict);
  bool visit_anew(std::uint32_t at, Miss* miss);
  bool visit_nothing(std::uint32_t at, bool readable, Miss* miss);
  bool visit_child(const Node& parent, std::uint32_t child, Miss* miss);
  static bool remembers(const Node& node, bool same) noexcept;
  void remember(Node& node);
  static bool needs_no_visit(const Node& node, Memory memory) noexcept;
  bool replay();
  bool words_hold() const noexcept;
  [[gnu::cold, gnu::noinline]] void make_replay();
  void add_root(std::uint32_t child);
  void add_anew(std::uint32_t at);
  bool remembered(std::uint32_t at, bool same) const noexcept;
  bool add_remembered(std::uint32_t at, bool same);
  void add_checks(const Node& node, bool all);
  void add_child_of(std::uint32_t parent, std::uint32_t child);
  void add_word(const void* at);
  void add_type_version(PyObject* type);
  void add_dict(PyObject* dict);
  void note_moving();
  bool read(Values& values, bool replayed) const;
  bool relations_hold(bool replayed, Miss* miss);
  bool facts_hold(bool replayed, Miss* miss);
  bool relation_holds(Relation& relation, bool replayed, Found* found);
  [[gnu::noinline]] bool are_distinct(Relation& relation, Found* found);
  bool capture(bool replayed, Ref& captured);

  PyObject* self_ = nullptr;  // borrowed: owns this
  FrameLayout layout_;
  Liveness liveness_;
  std::vector<Step> steps_;
  std::vector<Relation> relations_;
  std::vector<Check> facts_;  // symbolic
  SymbolicFacts all_facts_;
  Values fact_values_;
  Values captures_;
  bool sealed_ = false;
  bool busy_ = false;
  // From here on as sealing lays it out.
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> children_;
  std::vector<Live> live_;        // the same places as children_, in another order
  std::vector<DictChild> dicts_;  // likewise
  std::vector<Check> checks_;
  std::vector<Lasts> lasts_;           // the same places as checks_
  std::vector<std::uint32_t> owners_;  // while a walk lasts: nodes whose accessor made an object
  Replay replay_;
  std::uint32_t no_replay_before_ = 2;     // the number of the walk that may make the next one
  std::uint32_t patience_ = 1;             // walks to wait after the next failure
  WatchedDicts replayed_dicts_;            // whose words need not be read
  std::unordered_set<const void*> added_;  // the replay's words, while it is made
  std::uint32_t walks_ = 0;                // how many there were; none but the first has the number 1
  // Where the last walk failed, and while nothing has held since, the way there from the frame, which is left out:
  // calls that go to other trees mostly fail there again.
  std::uint32_t failing_ = 0;
  std::vector<std::uint32_t> failed_;
  const FrameSlots* frame_ = nullptr;  // while a walk lasts
  bool measures_ = false;              // what checks cost, into `seconds_`
  std::vector<double> seconds_;
};

}  // namespace dynamo_lite
