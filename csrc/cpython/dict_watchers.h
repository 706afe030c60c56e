// Sets of watched dicts (PyDict_Watch, from CPython 3.12 on). A guard reads one flag for the whole set instead of
// comparing the version number of every dict.
#pragma once

#include <Python.h>

#include <vector>

namespace dynamo_lite {

// A set of dicts, and whether all of them are unchanged since they were added. Holds no references: a deallocation
// counts as a change.
class WatchedDicts {
 public:
  WatchedDicts() = default;
  ~WatchedDicts() { clear(); }
  WatchedDicts(const WatchedDicts&) = delete;  // registered by address
  WatchedDicts& operator=(const WatchedDicts&) = delete;

  // False if the interpreter has no watchers, or none left. Then compare dict_version() instead.
  bool add(PyObject* dict);
  void clear() noexcept;
  bool unchanged() const noexcept { return unchanged_; }

 private:
  friend struct Watchers;

  std::vector<PyObject*> dicts_;  // borrowed; a pointer to a deallocated dict is never dereferenced
  bool unchanged_ = true;
};

// Allocates one of the interpreter's dict watchers for the process. If none is left, add() returns False.
void prepare_watch();

}  // namespace dynamo_lite
