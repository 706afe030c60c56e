"""Models of functions of the standard library, one file a module; importing this registers them.

May import: `core`, `python`, `torch`, `polyfills`.
"""

from . import (  # noqa: F401
    collections,
    copy,
    functools,
    heapq,
    importlib,
    inspect,
    itertools,
    itertools_groups,
    lru_cache,
    operator,
    output,
    pure_functions,
    random,
    re,
    string,
    sys,
    types,
    typing,
    warnings,
)
