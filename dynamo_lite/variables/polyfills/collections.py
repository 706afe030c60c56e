"""Polyfills of ``collections``."""

from __future__ import annotations

import _collections
from collections import OrderedDict, defaultdict, deque
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
        for pair in other.items() if hasattr(other, "items") else other:
            key, value = iter(pair)
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


# -- methods of defaultdict and deque that call the class, or methods of it --------------------------------------------

_factory_of: Any = defaultdict.__dict__["default_factory"]
_maxlen_of: Any = deque.__dict__["maxlen"]


def _missing(self: Any, key: Any, /) -> Any:
    factory = _factory_of.__get__(self)
    if factory is None:
        raise KeyError(key)
    value = factory()
    self[key] = value
    return value


def _copy_default(self: Any) -> Any:
    return type(self)(_factory_of.__get__(self), self)


def _or_default(self: Any, other: Any) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    made = type(self)(_factory_of.__get__(self), self)
    dict.update(made, other)
    return made


def _ror_default(self: Any, other: Any) -> Any:
    if not isinstance(other, dict):
        return NotImplemented
    made = type(self)(_factory_of.__get__(self), other)
    dict.update(made, self)
    return made


OF_DERIVED_DEFAULTDICTS: dict[str, Any] = {
    "__missing__": _missing,
    "copy": _copy_default,
    "__copy__": _copy_default,
    "__or__": _or_default,
    "__ror__": _ror_default,
}


def _copy_queue(self: Any) -> Any:
    limit = _maxlen_of.__get__(self)
    made = type(self)(self) if limit is None else type(self)(self, limit)
    if not isinstance(made, deque):
        raise TypeError(f"{type(self).__name__}() must return a deque, not {type(made).__name__}")
    return made


def _add_queues(self: Any, other: Any) -> Any:
    if not isinstance(other, deque):
        raise TypeError(f'can only concatenate deque (not "{type(other).__name__}") to deque')
    made = _copy_queue(self)
    deque.extend(made, other)
    return made


def _repeat_queue(self: Any, count: Any) -> Any:
    made = _copy_queue(self)
    deque.__imul__(made, count)
    return made


OF_DERIVED_DEQUES: dict[str, Any] = {
    "copy": _copy_queue,
    "__copy__": _copy_queue,
    "__add__": _add_queues,
    "__mul__": _repeat_queue,
    "__rmul__": _repeat_queue,
}
