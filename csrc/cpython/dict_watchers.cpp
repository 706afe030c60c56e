#include "cpython/dict_watchers.h"

#include <algorithm>
#include <unordered_map>

#include "cpython/frames.h"
#include "cpython/lookup.h"

namespace dynamo_lite {

#if PY_VERSION_HEX >= 0x030C0000

namespace {

#if PY_VERSION_HEX >= 0x030D0000
// Whether a dict stays watched after its last WatchedDicts is gone: its version number is valid only while it is
// watched.
constexpr bool kKeepsVersions = true;

std::uint64_t& version_of(PyObject* dict) noexcept { return *const_cast<std::uint64_t*>(dict_version_at(dict)); }

// Ends the version that begin_version() assigned: the dict is about to change and is no longer watched.
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

// The WatchedDicts that contain a dict. Never freed, because dicts are deallocated after this module.
struct Watchers {
  std::unordered_map<PyObject*, std::vector<WatchedDicts*>> listeners_of;
  int watcher_id = -1;  // allocated by the interpreter, which has eight; -1 if none was left

  static Watchers& all() {
    static auto* made = new Watchers;
    return *made;
  }

  // CPython calls this before it changes a watched dict.
  static int on_event(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
    end_version(dict, all().watcher_id);  // its listeners are marked as changed, and add the dict anew
    auto& listeners_of = all().listeners_of;
    const auto found = listeners_of.find(dict);
    if (found == listeners_of.end()) return 0;
    for (WatchedDicts* each : found->second) each->unchanged_ = false;
    if (event == PyDict_EVENT_DEALLOCATED) listeners_of.erase(found);
    return 0;
  }

  void remove_listener(PyObject* dict, const WatchedDicts* removed) noexcept {
    const auto found = listeners_of.find(dict);
    if (found == listeners_of.end()) return;  // the dict was deallocated
    auto& listeners = found->second;
    const auto listener = std::find(listeners.begin(), listeners.end(), removed);
    if (listener == listeners.end()) return;  // the dict was deallocated, and another one has its address
    listeners.erase(listener);
    if (!listeners.empty()) return;
    listeners_of.erase(found);
    if constexpr (kKeepsVersions) return;
    // While the interpreter finalizes, dicts are deallocated without an event.
    if (!is_finalizing() && PyDict_Unwatch(watcher_id, dict) < 0) PyErr_Clear();
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
  if (watchers.watcher_id >= 0 && PyDict_Watch(watchers.watcher_id, dict) == 0) {
    version_of(dict) = (version_of(dict) & kNotVersion) | last;
  } else {
    PyErr_Clear();  // not watched, so the number isn't stored: the next call returns another one
  }
  return last;
}
#endif

bool WatchedDicts::add(PyObject* dict) {
  Watchers& watchers = Watchers::all();
  if (watchers.watcher_id < 0) return false;
  if (PyDict_Watch(watchers.watcher_id, dict) < 0) {
    PyErr_Clear();
    return false;
  }
  dicts_.push_back(dict);  // first: if the next line throws, this object isn't registered
  watchers.listeners_of[dict].push_back(this);
  return true;
}

void WatchedDicts::clear() noexcept {
  for (PyObject* dict : dicts_) Watchers::all().remove_listener(dict, this);
  dicts_.clear();
  unchanged_ = true;
}

void prepare_watch() {
  Watchers& watchers = Watchers::all();
  if (watchers.watcher_id < 0) watchers.watcher_id = PyDict_AddWatcher(Watchers::on_event);
  if (watchers.watcher_id < 0) PyErr_Clear();
}

#else

bool WatchedDicts::add(PyObject*) { return false; }
void WatchedDicts::clear() noexcept {}
void prepare_watch() {}

#endif

}  // namespace dynamo_lite
