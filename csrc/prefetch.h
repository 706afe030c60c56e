// Memory that is about to be read, asked for before it is: after a graph it lies far from the processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Of functions that a hit runs: they lie together, so that they can be asked for as well.
#define DL_HIT [[gnu::section("dl_hit")]]

namespace dynamo_lite {

// Lines of memory. Nothing is read through this: memory that is gone, or something else by now, costs a moment.
class PrefetchList {
 public:
  void add(const void* at, std::size_t bytes);
  // The functions that a hit runs.
  void add_code();

  template <typename T>
  void add_items(const std::vector<T>& items, std::size_t first, std::size_t end) {
    if (first < end) add(items.data() + first, (end - first) * sizeof(T));
  }

  // Each line once.
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
