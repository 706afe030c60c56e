"""Models of functions of the standard library, one file a module; importing this registers them."""

# ruff: noqa: F401

from importlib.util import find_spec

from . import (
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
    pure,
    random,
    re,
    string,
    sys,
    types,
    typing,
    warnings,
    weakref,
)

if find_spec("numpy") is not None:
    from . import numpy, numpy_orders, numpy_places, numpy_turns
