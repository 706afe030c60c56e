// Checks of several nodes of a guard tree, which are made after all others: identities, memory that tensors share, and
// symbolic facts.
//
// Owns: these checks. Borrows: the values of the last walk.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "guards/checks.h"
#include "guards/memory.h"
#include "guards/symbolic.h"
#include "guards/tensors.h"

namespace dynamo_lite {

class Relations {
 public:
  Relations() = default;
  // The same checks, with nothing remembered.
  Relations(const Relations& other);
  Relations(Relations&&) noexcept = default;
  Relations& operator=(Relations&&) noexcept = default;

  void add(std::uint32_t node, Check check);
  // `instructions`: of the fact's program.
  void add_fact(Check check, PyObject* instructions);

  // Whether all hold for the values of a walk, or of a replay. `miss`, if not null, receives the first failure.
  bool hold(const Memory& memory, bool replayed, Miss* miss);
  // `moves`: for each node, whether its value may be another object after a replay.
  void note_moving(const std::vector<bool>& moves);

  // Calls visit(check, run) for each, in order; `run()` checks it without a replay. Of facts, which are checked
  // together, `run` checks all.
  template <typename Visit>
  void each(const Memory& memory, Visit visit) {
    for (Relation& relation : relations_)
      visit(relation.check, [&] { return holds(relation, memory, false, nullptr); });
    for (const Check& fact : facts_) visit(fact, [&] { return facts_hold(memory, false, nullptr); });
  }
  std::size_t fact_count() const noexcept { return facts_.size(); }
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Relation {
    std::uint32_t node = 0;
    Check check;
    Values values;                       // of the nodes that the check names
    bool node_may_move = true;           // its value may be another object after a replay
    std::vector<PyObject*> before = {};  // the values when `distinct` held last
    StoragesDistinct storages = {};

    // Other relations compare identities only.
    bool reads_storages() const noexcept { return check.kind().subject == Subject::StoragesDistinct; }
  };

  static bool holds(Relation& relation, const Memory& memory, bool replayed, Found* found);
  [[gnu::noinline]] static bool are_distinct(Relation& relation, PyObject* node_value, Found* found);
  bool facts_hold(const Memory& memory, bool replayed, Miss* miss);

  std::vector<Relation> relations_;
  std::vector<std::uint32_t> after_replay_;  // those that may fail although a replay holds
  std::vector<Check> facts_;
  SymbolicFacts programs_;  // of the facts
  Values fact_values_;
};

}  // namespace dynamo_lite
