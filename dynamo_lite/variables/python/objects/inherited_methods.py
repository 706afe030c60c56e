"""Methods in C that classes inherit from builtin ones: which methods of the class they call on the instance.

These are facts of CPython, one row a type and method. A method without a row calls none; a test compares the table with
the running CPython. Where the class overrides a method of the row, the graph breaks, unless `REPLACED` has a function
that does the same in Python.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

from dynamo_lite.variables import polyfills

_ITERATION = ("__iter__", "__len__")
_TEXT: dict[str, tuple[str, ...]] = {"__repr__": _ITERATION}
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")

CALLED: dict[type, dict[str, tuple[str, ...]]] = {
    set: _TEXT,
    frozenset: _TEXT,
    deque: {**_TEXT, **dict.fromkeys(_COMPARISONS, ("__iter__",))},
    dict: dict.fromkeys(("copy", "__or__", "__ror__"), ("__iter__",)),
    OrderedDict: {"__repr__": ("items", "keys", "__getitem__", "__iter__")},  # which of them depends on the version
}
"""The builtin type, the name of its method -> the methods that it calls. If `dict` is read by ``keys`` and
``__getitem__``, then because ``__iter__`` is overridden."""

NOT_MODELLED: dict[type, frozenset[str]] = {str: frozenset({"format", "format_map"})}
"""Methods that may return the instance itself."""

REPLACED: dict[type, dict[str, types.FunctionType]] = {
    OrderedDict: polyfills.collections.OF_DERIVED_ORDERED_DICTS,
    defaultdict: polyfills.collections.OF_DERIVED_DEFAULTDICTS,
    deque: polyfills.collections.OF_DERIVED_DEQUES,
}
"""Methods that call others of the class, or the class, as functions that a trace inlines."""


def replacement(base: type, name: str) -> Any:
    """The function that is inlined in the place of a method of ``base`` on an instance of a derived class, or None."""
    return REPLACED.get(base, {}).get(name)
