#include "cpython/dict_watchers.h"

#include <algorithm>
#include <unordered_map>

#include "cpython/frames.h"
#include "cpython/lookup.h"

namespace dynamo_lite {

#if PY_VERSION_HEX >= 0x030C0000

namespace {

#if PY_VERSION_HEX >= 0x030D0000
// Whether who has read a dict's version relies on our watching it, whoever else listens.
constexpr bool kKeepsVersions = true;

std::uint64_t& version_of(PyObject* dict) noexcept { return *const_cast<std::uint64_t*>(dict_version_at(dict)); }

// Ends what begin_version() began: the dict changes, and is watched no more.
void end_version(PyObject* dict, int watcher) noexcept {
  const std::uint64_t watched = std::uint64_t{1} << watcher;
#if PY_VERSION_HEX >= 0x030E0000
  version_of(dict) &= kNotVersion & ~watched;
#else
  version_of(dict) &= ~(kWatchedVersion | watched);
#endif
}
#else
constexpr bool kKeepsVersions = false;

void end_version(PyObject*, int) noexcept {}
#endif

}  // namespace

// Which objects watch which dict. Never freed: dicts are deallocated after this module.
struct Watchers {
  std::unordered_map<PyObject*, std::vector<WatchedDicts*>> of;
  int number = -1;  // the interpreter's; there are eight, others may have taken them

  static Watchers& all() {
    static auto* made = new Watchers;
    return *made;
  }

  // Called before the change is made.
  static int tell(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
    end_version(dict, all().number);  // an object that listens has been told, and adds the dict anew
    auto& of = all().of;
    const auto found = of.find(dict);
    if (found == of.end()) return 0;
    for (WatchedDicts* each : found->second) each->unchanged_ = false;
    if (event == PyDict_EVENT_DEALLOCATED) of.erase(found);
    return 0;
  }

  void forget(PyObject* dict, const WatchedDicts* who) noexcept {
    const auto found = of.find(dict);
    if (found == of.end()) return;  // it was deallocated
    auto& listeners = found->second;
    const auto listener = std::find(listeners.begin(), listeners.end(), who);
    if (listener == listeners.end()) return;  // it was deallocated, and another dict is at its address
    listeners.erase(listener);
    if (!listeners.empty()) return;
    of.erase(found);
    if constexpr (kKeepsVersions) return;
    // While the interpreter finalizes, dicts are deallocated without an event.
    if (!is_finalizing() && PyDict_Unwatch(number, dict) < 0) PyErr_Clear();
  }
};

#if PY_VERSION_HEX >= 0x030D0000
std::uint64_t begin_version(PyObject* dict) noexcept {
#if PY_VERSION_HEX >= 0x030E0000
  static std::uint64_t last = 0;
#else
  static std::uint64_t last = kOurVersion | kWatchedVersion;
#endif
  last += kNotVersion + 1;
  const Watchers& watchers = Watchers::all();
  if (watchers.number >= 0 && PyDict_Watch(watchers.number, dict) == 0) {
    version_of(dict) = (version_of(dict) & kNotVersion) | last;
  } else {
    PyErr_Clear();  // nothing reports its changes: this number says nothing of the next state
  }
  return last;
}
#endif

bool WatchedDicts::add(PyObject* dict) {
  Watchers& watchers = Watchers::all();
  if (watchers.number < 0) return false;
  if (PyDict_Watch(watchers.number, dict) < 0) {
    PyErr_Clear();
    return false;
  }
  dicts_.push_back(dict);  // first: where the next one throws, nobody calls us
  watchers.of[dict].push_back(this);
  return true;
}

void WatchedDicts::clear() noexcept {
  for (PyObject* dict : dicts_) Watchers::all().forget(dict, this);
  dicts_.clear();
  unchanged_ = true;
}

void prepare_watch() {
  Watchers& watchers = Watchers::all();
  if (watchers.number < 0) watchers.number = PyDict_AddWatcher(Watchers::tell);
  if (watchers.number < 0) PyErr_Clear();
}

#else

bool WatchedDicts::add(PyObject*) { return false; }
void WatchedDicts::clear() noexcept {}
void prepare_watch() {}

#endif

}  // namespace dynamo_lite
