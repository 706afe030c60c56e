"""The texts of values. None runs code of the program, and none fails: ``repr`` writes no integer of more digits than
``sys.get_int_max_str_digits()``."""

from __future__ import annotations

import functools
import itertools
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

_Subject = TypeVar("_Subject")


def value_text(value: object) -> str:
    """``repr(value)``, with integers that are too long for it in hexadecimal."""
    try:
        return repr(value)
    except ValueError:
        return _long_text(value)


def _long_text(value: object) -> str:
    name = type(value).__name__
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, (tuple, list, set, frozenset)):
        return f"{name}({', '.join(map(value_text, value))})"
    if isinstance(value, slice):
        return f"slice({', '.join(map(value_text, (value.start, value.stop, value.step)))})"
    return f"<{name}>"


def with_article(noun: str) -> str:
    """``an int``, ``a Tensor``."""
    return f"{'an' if noun[:1] in _VOWELS else 'a'} {noun}"


_VOWELS = frozenset("aeiouAEIO")
"""A class's name that begins with a capital U is mostly read as *you*: ``a UserDict``."""


class Shown:
    """Stands for a value in a format string."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return value_text(self._value)

    def __str__(self) -> str:
        return self._value if isinstance(self._value, str) else value_text(self._value)


def fill(text: str, words: Mapping[str, Callable[[_Subject], object]], subject: _Subject) -> str:
    """Fill in the fields of a text, each by what ``words`` has for its name."""
    fields = _fields(text)
    if not fields:
        return text
    values = {field: words[field](subject) for field in fields}
    try:
        return text.format_map(values)
    except ValueError:  # an integer with too many digits
        return text.format_map({field: Shown(value) for field, value in values.items()})


@functools.cache
def _fields(text: str) -> tuple[str, ...]:
    """The names of its fields, without what is read of each: ``arg`` for ``{arg[0].dtype}``."""
    names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    return tuple(dict.fromkeys(name.partition(".")[0].partition("[")[0] for name in names))


def class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def keys_text(keys: Iterable[object]) -> str:
    """The keys of a dict: constants by their values, other objects by how many of a type there are."""
    keys = list(keys)
    constants = [is_constant(key) for key in keys]
    others = Counter(type(key).__name__ for key, is_shown in zip(keys, constants) if not is_shown)
    shown = [value_text(key) for key in itertools.compress(keys, constants)]
    shown += [f"{count} of type {name}" for name, count in others.items()]
    return f"the keys {', '.join(shown)}" if shown else "no keys"


def is_constant(value: object) -> bool:
    """Whether its ``repr`` shows all of it, and is Python's own."""
    return type(value) in _ATOMS or (type(value) is tuple and all(map(is_constant, value)))


_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})
