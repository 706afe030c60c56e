#include "prefetch.h"

#include <algorithm>

// The linker's names for the ends of a section.
extern "C" {
[[gnu::visibility("hidden")]] extern const char __start_dl_hit[];
[[gnu::visibility("hidden")]] extern const char __stop_dl_hit[];
}

namespace dynamo_lite {

void PrefetchList::add(const void* at, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  runs_.push_back({first & ~(kLine - 1), (first + bytes + kLine - 1) & ~(kLine - 1)});
}

void PrefetchList::add_code() { add(__start_dl_hit, static_cast<std::size_t>(__stop_dl_hit - __start_dl_hit)); }

void PrefetchList::merge() {
  std::sort(runs_.begin(), runs_.end(), [](const Run& one, const Run& other) { return one.first < other.first; });
  std::size_t last = 0;
  for (const Run& run : runs_) {
    if (run.first <= runs_[last].end) {
      runs_[last].end = std::max(runs_[last].end, run.end);
    } else {
      runs_[++last] = run;
    }
  }
  if (!runs_.empty()) runs_.resize(last + 1);
}

}  // namespace dynamo_lite
