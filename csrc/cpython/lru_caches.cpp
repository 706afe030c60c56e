#include "cpython/lru_caches.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030D0000
#error "the caches below are those of CPython 3.11 and 3.12"
#endif

namespace dynamo_lite {

namespace {

// The head of a cache, which is a link of its own list, as far as what it counts.
struct Cache {
  PyObject_HEAD
  void* previous;
  void* next;
  Py_hash_t hash;
  PyObject* key;
  PyObject* result;
  void* wrapper;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;
  Py_ssize_t misses;
};

// Takes a functools.lru_cache's own object. Of one that was cleared since nothing is left to be taken.
PyObject* take_miss_back(PyObject*, PyObject* cached) {
  auto* cache = reinterpret_cast<Cache*>(cached);
  if (cache->misses > 0) --cache->misses;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"take_miss_back", take_miss_back, METH_O, "Let a function that functools.lru_cache made forget that it missed once."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_cpython_caches(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace dynamo_lite
