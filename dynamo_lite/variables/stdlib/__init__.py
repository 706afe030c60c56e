"""Models of the standard library's functions and classes, one file a module. Importing this registers them.

May import: `core`, `python`, `torch`, `polyfills`.
"""

from . import (  # noqa: F401
    collections,
    contextvars,
    copy,
    functools,
    heapq,
    importlib,
    itertools,
    lru_cache,
    operator,
    output,
    pure_functions,
    random,
    re,
    threading,
    types,
    typing,
    warnings,
)
