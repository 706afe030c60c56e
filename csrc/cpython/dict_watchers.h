// Dicts whose changes the interpreter reports (PyDict_Watch, CPython 3.12 on): one flag is read for all of them instead
// of a version number of each.
#pragma once

#include <Python.h>

#include <vector>

namespace dynamo_lite {

// Some dicts, and whether all are as they were when they were added. They are not kept alive: a deallocation is a
// change.
class WatchedDicts {
 public:
  WatchedDicts() = default;
  ~WatchedDicts() { clear(); }
  WatchedDicts(const WatchedDicts&) = delete;  // its address is registered
  WatchedDicts& operator=(const WatchedDicts&) = delete;

  // False where this interpreter reports nothing, or has no watcher left: compare dict_version then.
  bool add(PyObject* dict);
  void clear() noexcept;
  bool unchanged() const noexcept { return unchanged_; }

 private:
  friend struct Watchers;

  std::vector<PyObject*> dicts_;  // borrowed; one that was deallocated is never followed
  bool unchanged_ = true;
};

// Takes one of the interpreter's watchers, for the process. Where none is left versions are compared.
void prepare_watch();

}  // namespace dynamo_lite
