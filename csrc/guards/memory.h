// The walk over a guard tree's nodes, and what it remembers of them until the next one.
//
// After all of a node's checks and all below it have held once, the node remembers the value and, if some of that
// depends on a dict's items or on a type's attributes, its version number. As long as the version is the same, that
// part need not be checked again, and the children's values are the same objects: they are visited only for what may
// change inside of them. Three rules keep this sound:
//   - A node forgets before its children get other values, and remembers only when all below it has held.
//   - Version numbers are never reused, so a pointer and a version identify one state of one object.
//   - Without a version, a node's memory counts only if its parent tells that the value is the same object (`is_same`):
//     an equal address proves nothing.
//
// Owns: values that accessors created, until the walk ends. Borrows: all other values. They are compared; they are
// followed only while the walk lasts, or if the parent tells that they are the same objects.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "cpython/frames.h"
#include "guards/found.h"
#include "guards/layout.h"
#include "refs.h"

namespace dynamo_lite {

// Where a walk failed.
struct Miss {
  std::uint32_t node = 0;
  const Check* check = nullptr;  // null: the accessor found nothing
  Found found = {};
};

// A child that is visited in every walk.
struct LiveChild {
  std::uint32_t child : 31;
  std::uint32_t is_same : 1;  // the parent tells that its value is the same object
};

class Memory {
 public:
  explicit Memory(const Layout& layout) noexcept : layout_(layout) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  // Makes room for the nodes of the layout. Throws.
  void resize();
  void clear() noexcept { nodes_.clear(); }

  // A walk takes place between these. `frame` is borrowed.
  void begin(const FrameSlots& frame) noexcept { frame_ = &frame; }
  void end() noexcept;

  // Whether the accessors and checks of all nodes hold. With a `miss`, which receives the first failure, nothing is
  // taken from memory or remembered. Throws if there is no memory.
  bool visit_all(Miss* miss);
  // Whether the walk fails where the last one did: a call for which another tree holds mostly fails there again. What
  // nodes remember isn't changed.
  bool fails_again() { return !failed_.empty() && fails_on_the_same_way(); }

  // The value that the node had in the last walk.
  PyObject* value(std::uint32_t node) const noexcept { return nodes_[node].value; }

 private:
  friend class Replay;

  enum class Kind : std::uint8_t { None, Object, Dict, Type };

  struct Node {
    PyObject* value = nullptr;       // of the last visit
    PyObject* remembered = nullptr;  // the value that is remembered
    std::uint64_t version = 0;
    // The children that need visits: live_[first_child, end_live) and dicts_[first_child, end_dict).
    std::uint32_t first_child = 0, end_live = 0, end_dict = 0;
    std::uint32_t full_visit = 0;    // the number of the last walk that took nothing from memory
    std::uint32_t value_change = 0;  // of a child of the frame: the number of the last walk that found another value
    Kind kind = Kind::None;          // what is remembered
    bool checks_now = false;         // some check must be made in every walk
  };

  // A child that needs no visit as long as the dict that it is has the same version. The parent tells that it is the
  // same dict.
  struct DictChild {
    PyObject* dict = nullptr;
    std::uint64_t version = 0;
    std::uint32_t child = 0;
  };

  bool visit(std::uint32_t at, bool is_same, Miss* miss);
  bool visit_remembered(std::uint32_t at);
  bool visit_dict(DictChild& dict);
  bool visit_fully(std::uint32_t at, Miss* miss);
  bool visit_nothing(std::uint32_t at, bool readable, Miss* miss);
  bool visit_child(std::uint32_t parent, std::uint32_t child, Miss* miss);
  static bool remembers(const Node& node, bool is_same) noexcept;
  static bool needs_no_visit(const Node& node, Kind kind) noexcept;
  void remember(std::uint32_t at);
  [[gnu::noinline]] void note_failed();
  [[gnu::noinline]] bool fails_on_the_same_way();

  const Layout& layout_;
  const FrameSlots* frame_ = nullptr;  // while a walk lasts
  std::vector<Node> nodes_;            // the same places as the layout's
  std::vector<LiveChild> live_;        // as many as the layout's children
  std::vector<DictChild> dicts_;       // likewise
  std::vector<Lasts> lasts_;           // the same places as the layout's checks
  std::vector<Ref> owned_;             // the same places as nodes: values that the accessor created
  std::vector<std::uint32_t> owners_;  // the nodes that have one
  std::uint32_t walks_ = 0;            // how many there were; only the first has the number 1
  std::uint32_t failing_ = 0;          // the node at which the last walk failed
  std::vector<std::uint32_t> failed_;  // the way there from the frame, without it; empty if the last walk held
};

// The values of a fixed list of nodes.
struct Values {
  std::vector<std::uint32_t> nodes;
  std::vector<PyObject*> of = {};            // as the last walk found them; borrowed
  std::vector<std::uint32_t> may_move = {};  // the places of those that may be other objects after a replay

  // Reads them. Returns whether some may be other objects than before. After a replay only those in `may_move` are
  // read.
  bool read(const Memory& memory, bool replayed);
  // `moves`: for each node, whether its value may be another object after a replay.
  void note_moving(const std::vector<bool>& moves);
};

}  // namespace dynamo_lite
