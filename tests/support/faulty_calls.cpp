// Calls of CPython's functions and allocations of C++ that fail when they are told to: a build for tests alone
// (DL_FAULTS in CMakeLists.txt). The linker sends each call that the extension makes here first.
#include <Python.h>

#include <cstdlib>
#include <new>

namespace {

long countdown = -1;  // calls until the one that fails
long calls = 0;       // that could have failed
const char* last = "";
thread_local bool here = false;  // faults are this thread's that armed them

bool is_due(const char* name) noexcept {
  if (!here) return false;
  ++calls;
  if (countdown-- != 0) return false;
  last = name;
  return true;
}

}  // namespace

extern "C" {

// From now on, `after` calls succeed and the one after them fails. One alone: pybind11 throws through frames of CPython
// where it fails while it tells of a failure.
[[gnu::visibility("default")]] void dl_faults_arm(long after) {
  countdown = after;
  calls = 0;
  last = "";
  here = true;
}

// No call fails any more. The number of those that could have.
[[gnu::visibility("default")]] long dl_faults_disarm() {
  here = false;
  return calls;
}

// The name of the last one that did, or an empty text.
[[gnu::visibility("default")]] const char* dl_faults_last() { return last; }

// Whether the call of a function fails that says so by an error of Python's.
[[gnu::used]] int dl_faults_raise(const char* name) {
  if (!is_due(name)) return 0;
  PyErr_SetNone(PyExc_MemoryError);
  return 1;
}

[[gnu::used]] int dl_faults_quiet(const char* name) { return is_due(name); }

void* __real__Znwm(std::size_t size);
void* __wrap__Znwm(std::size_t size) {
  if (is_due("operator new")) throw std::bad_alloc();
  return __real__Znwm(size);
}

void* __real__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t& tag) noexcept;
void* __wrap__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t& tag) noexcept {
  return is_due("operator new, nothrow") ? nullptr : __real__ZnwmRKSt9nothrow_t(size, tag);
}
}

// A stand-in for a function of any signature: its arguments are kept while it is asked whether it fails.
#define DL_FAULT(name, ask, result)                                                                                \
  asm(".text\n.globl __wrap_" #name "\n.hidden __wrap_" #name "\n.type __wrap_" #name ", @function\n__wrap_" #name \
      ":\n"                                                                                                        \
      "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\npush %rax\nsub $16, %rsp\n"                 \
      "movsd %xmm0, (%rsp)\nmovsd %xmm1, 8(%rsp)\nlea 1f(%rip), %rdi\ncall " #ask                                  \
      "\nmov %eax, %r11d\nmovsd (%rsp), %xmm0\nmovsd 8(%rsp), %xmm1\nadd $16, %rsp\n"                              \
      "pop %rax\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"                                       \
      "test %r11d, %r11d\njnz 2f\njmp *__real_" #name "@GOTPCREL(%rip)\n2:\nmov $" #result                         \
      ", %rax\nret\n.section .rodata\n1: .string \"" #name "\"\n.text\n");
#define DL_NULL(name) DL_FAULT(name, dl_faults_raise, 0)
#define DL_MINUS_ONE(name) DL_FAULT(name, dl_faults_raise, -1)
#define DL_QUIET(name) DL_FAULT(name, dl_faults_quiet, 0)
#include "calls.inc"
