// Assertions that builds with sanitizers check. (Those of <cassert> would turn on pybind11's, which tests that let
// calls of CPython fail don't keep to.)
#pragma once

#ifdef DL_ASSERTIONS
#include <cstdio>
#include <cstdlib>

namespace dynamo_lite {

[[noreturn]] inline void fail_assertion(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: %s doesn't hold\n", file, line, condition);
  std::abort();
}

}  // namespace dynamo_lite

#define DL_ASSERT(condition) ((condition) ? void() : ::dynamo_lite::fail_assertion(#condition, __FILE__, __LINE__))
#else
#define DL_ASSERT(condition) void()
#endif
