"""The text of a constant, also where ``repr`` refuses: Python writes no integer of more digits than
``sys.get_int_max_str_digits()`` in decimal."""

from __future__ import annotations


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
