#include "guards/guard_tree.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "cpython/lookup.h"
#include "hit.h"

namespace dynamo_lite {

namespace {

// Sets a flag for its own lifetime.
class Flag {
 public:
  explicit Flag(bool& flag) noexcept : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
};

}  // namespace

GuardTree::GuardTree(PyCodeObject* code) : frame_layout_(code), builder_(std::make_unique<LayoutBuilder>()) {}

GuardTree::GuardTree(GuardTree& other)
    : frame_layout_(other.frame_layout_),
      liveness_(other.liveness_),
      layout_((other.seal(), other.layout_)),
      relations_(other.relations_),
      captures_{other.captures_.nodes} {
  memory_.resize();
}

void GuardTree::expect_node(Py_ssize_t node) const {
  if (!builder_) raise(PyExc_RuntimeError, "a GuardTree that was tested or checked cannot be added to");
  if (node >= 0 && node < static_cast<Py_ssize_t>(size())) return;
  raise(PyExc_ValueError, "the tree has %zd nodes, there is no number %zd", size(), node);
}

Py_ssize_t GuardTree::add_child(Py_ssize_t parent, const char* kind, PyObject* arg) {
  expect_node(parent);
  Accessor accessor(kind, arg, frame_layout_, liveness_);
  const From from = accessor.kind().from;
  if (from != From::Nothing && (from == From::Frame) != (parent == 0)) {
    raise(PyExc_ValueError, "'%s' is %s accessor of the frame", kind, parent == 0 ? "no" : "an");
  }
  return builder_->add_child(static_cast<std::uint32_t>(parent), std::move(accessor));
}

void GuardTree::add_check(Py_ssize_t node, const char* kind, PyObject* arg, PyObject* reason) {
  expect_node(node);
  const auto at = static_cast<std::uint32_t>(node);
  Check check(kind, arg, reason, size(), liveness_);
  if (check.kind().subject == Subject::Symbolic) return relations_.add_fact(std::move(check), PyTuple_GET_ITEM(arg, 1));
  if (check.relates()) return relations_.add(at, std::move(check));
  if ((at == 0) != (check.kind().subject == Subject::Frame)) {
    raise(PyExc_ValueError, "a check of kind %s cannot be made of %s", kind, at == 0 ? "the frame" : "a value");
  }
  builder_->add_check(at, std::move(check));
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

void GuardTree::seal() try {
  if (!builder_) return;
  const std::unique_ptr<LayoutBuilder> builder = std::move(builder_);
  layout_ = builder->finish();
  memory_.resize();
} catch (...) {
  liveness_ = {};  // the layout is incomplete
  throw;
}

DL_HIT bool GuardTree::walk(const FrameSlots& frame, Ref* captured, Miss* miss) {
  // A C getter that lets other code run must not walk this tree, whose nodes are partially updated.
  if (!alive() || is_busy_) return false;
  const Ref self = Ref::borrow(self_);  // references that are dropped below may be the last to the tree
  const Flag busy(is_busy_);
  memory_.begin(frame);
  bool holds = false;
  try {
    if (builder_) seal();
    holds = walk_sealed(captured, miss);
  } catch (...) {
    if (!miss) liveness_ = {};  // the memory may be partially updated
    memory_.end();
    throw;
  }
  memory_.end();
  return holds;
}

DL_HIT bool GuardTree::walk_sealed(Ref* captured, Miss* miss) {
  if (!miss && memory_.fails_again()) return false;
  const bool replayed = !miss && replay_.holds();
  if (!replayed) {
    replay_.drop();  // the nodes get the values of this walk
    if (!memory_.visit_all(miss)) return false;
    if (seconds_) [[unlikely]]
      measure();
  }
  if (!relations_.hold(memory_, replayed, miss)) {
    replay_.drop();  // it is for values for which they hold
    return false;
  }
  if (!replayed && !miss) make_replay();
  return !captured || captures_.nodes.empty() || capture(replayed, *captured);
}

void GuardTree::make_replay() {
  if (!replay_.make()) return;
  const std::vector<bool> moves = replay_.moving_nodes();
  captures_.note_moving(moves);
  relations_.note_moving(moves);
}

DL_HIT bool GuardTree::capture(bool replayed, Ref& captured) {
  NoCollection no_collection;
  captures_.read(memory_, replayed);
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(captures_.of.size())));
  if (!tuple) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  for (std::size_t i = 0; i < captures_.of.size(); ++i) {
    PyObject* value = captures_.of[i];
    // Without references it is being deallocated: another dict watcher's callback ran before ours.
    if (!value || Py_REFCNT(value) == 0) return false;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(value));
  }
  captured = std::move(tuple);
  return true;
}

std::vector<const Check*> GuardTree::all_checks() {
  seal();
  std::vector<const Check*> ordered;
  for (const Check& check : layout_.checks) ordered.push_back(&check);
  relations_.each(memory_, [&ordered](const Check& check, const auto&) { ordered.push_back(&check); });
  return ordered;
}

std::vector<double> GuardTree::seconds_of_checks(const FrameSlots& frame) {
  std::vector<double> seconds;
  if (is_busy_) return seconds;
  seconds_ = &seconds;
  Miss miss;
  try {
    walk(frame, nullptr, &miss);
  } catch (...) {
    seconds_ = nullptr;
    throw;
  }
  seconds_ = nullptr;
  return seconds;
}

void GuardTree::measure() {
  constexpr int kRepeats = 200;
  const auto timed = [](const auto& run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRepeats; ++i) run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return took.count() / kRepeats;
  };
  for (std::uint32_t at = 0; at < layout_.nodes.size(); ++at) {
    const LayoutNode& node = layout_.nodes[at];
    PyObject* const value = memory_.value(at);
    const bool has_subject = value || at == 0;  // the frame is no value
    for (std::uint32_t i = node.first_check; i < node.end_check; ++i) {
      seconds_->push_back(timed([&] { return !has_subject || layout_.checks[i].holds(value, nullptr); }));
    }
  }
  relations_.each(memory_, [&](const Check& check, const auto& run) {
    const bool is_fact = check.kind().subject == Subject::Symbolic;
    seconds_->push_back(timed(run) / static_cast<double>(is_fact ? relations_.fact_count() : 1));
  });
}

PyObject* GuardTree::reason_of(const Miss& miss) const noexcept {
  if (miss.check) return miss.check->reason();
  const LayoutNode* node = &layout_.nodes[miss.node];
  while (node->first_check == node->end_check) {
    if (node->first_child == node->end_child) return Py_None;
    node = &layout_.nodes[layout_.children[node->first_child]];
  }
  return layout_.checks[node->first_check].reason();
}

int GuardTree::traverse(visitproc visit, void* arg) const {
  const int stop = builder_ ? builder_->traverse(visit, arg) : layout_.traverse(visit, arg);
  return stop ? stop : relations_.traverse(visit, arg);
}

void GuardTree::clear() noexcept {
  liveness_ = {};        // a copy's goes on
  if (is_busy_) return;  // the walk that goes on needs its nodes; nothing after it will
  // Taken out first: dropping a reference may run code that looks at this tree.
  const auto builder = std::move(builder_);
  const Layout layout = std::exchange(layout_, {});
  const Relations relations = std::exchange(relations_, {});
  replay_.clear();
  memory_.clear();
}

}  // namespace dynamo_lite
