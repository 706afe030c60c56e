"""Polyfills of ``collections``."""

from __future__ import annotations

import _collections
from collections import OrderedDict
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any


def count_elements(mapping: MutableMapping[Any, int], iterable: Iterable[Any]) -> None:
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {_collections._count_elements: count_elements}


# -- OrderedDict's methods on instances of derived classes: they call methods of the class -----------------------------


def _update(self: Any, other: Any = (), /, **named: Any) -> None:
    if type(other) is dict:
        for key, value in other.items():
            self[key] = value
    elif hasattr(other, "keys"):
        for key in other.keys():
            self[key] = other[key]
    else:
        for key, value in other.items() if hasattr(other, "items") else other:
            self[key] = value
    for key, value in named.items():
        self[key] = value


def _setdefault(self: Any, key: Any, default: Any = None) -> Any:
    if key in self:
        return self[key]
    self[key] = default
    return default


def _copy(self: Any) -> Any:
    made = type(self)()
    for key in OrderedDict.__iter__(self):
        made[key] = self[key]
    return made


def _or(self: Any, other: Any) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    made = type(self)(self)
    _update(made, other)
    return made


def _ror(self: Any, other: Any) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    made = type(self)(other)
    _update(made, self)
    return made


def _ior(self: Any, other: Any) -> Any:
    _update(self, other)
    return self


OF_DERIVED_ORDERED_DICTS: dict[str, Any] = {
    "__init__": _update,
    "update": _update,
    "setdefault": _setdefault,
    "copy": _copy,
    "__or__": _or,
    "__ror__": _ror,
    "__ior__": _ior,
}
