// Prefetching memory that a hit will read: after a graph ran, it is no longer in the processor's caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// For functions that a hit runs: they are in one section, so that their code can be prefetched as well.
#define DL_HIT [[gnu::section("dl_hit")]]

namespace dynamo_lite {

// Cache lines. Nothing is read through this: prefetching memory that was freed is harmless.
class PrefetchList {
 public:
  void add(const void* at, std::size_t bytes);
  // The functions that a hit runs.
  void add_code();

  template <typename T>
  void add_items(const std::vector<T>& items, std::size_t first, std::size_t end) {
    if (first < end) add(items.data() + first, (end - first) * sizeof(T));
  }

  // Merges overlapping runs, so that each line is fetched once.
  void merge();
  void clear() noexcept { runs_.clear(); }

  void fetch() const noexcept {
    for (const Run& run : runs_) {
      for (std::uintptr_t line = run.first; line < run.end; line += kLine) {
        __builtin_prefetch(reinterpret_cast<const void*>(line));
      }
    }
  }

 private:
  static constexpr std::uintptr_t kLine = 64;  // bytes
  struct Run {
    std::uintptr_t first, end;
  };
  std::vector<Run> runs_;
};

}  // namespace dynamo_lite
