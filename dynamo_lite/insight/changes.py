"""What has changed since an entry was made, in the program's terms: the guard that failed, in words, with a hint.

A guard kind's row (`_C.CHECK_KINDS`) has the sentences, the failure has the values to fill in.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

from dynamo_lite import _C

from .counters import counted
from .site import public_name
from .value_text import class_name, fill, is_constant, keys_text, value_text, with_article


class Change(NamedTuple):
    """``subject``: what changed, whatever it is now."""

    text: str
    hint: str
    subject: str


@dataclass(frozen=True)
class _Changed:
    """A failure, of which a sentence is made."""

    failure: _C.Failure
    place: str
    text: str
    """The guard without its place."""

    @property
    def condition(self) -> str:
        return f"{self.place} {self.text}".strip()


def change_of(failure: _C.Failure, place: str, is_expression: bool, text: str, at_limit: bool = False) -> Change:
    """``place`` and ``text``: those of the guard, as the program names them. ``is_expression``: whether it can write
    the place. ``at_limit``: there will be no further version."""
    found = size_change(failure.differences[0], place, is_expression) if failure.differences else None
    if found is not None:
        return found
    row, changed = _C.CHECK_KINDS[failure.kind], _Changed(failure, place, text)
    sentence = fill(row.remark if failure.words else row.change, _WORDS, changed)
    hint = row.hint or _hint(failure) or _EACH_VALUE + ("" if at_limit else ", up to dl.config.recompile_limit")
    return Change(sentence, hint, fill(row.about, _WORDS, changed))


def _hint(failure: _C.Failure) -> str | None:
    """The hint that follows from the values."""
    if failure.differences:
        return _C.TENSOR_FACTS.get(failure.differences[0][0])
    if type(failure.expected) in _NUMBERS and type(failure.value) in _NUMBERS:
        return _OF_NUMBERS
    return _OF_FUNCTIONS if type(failure.expected) in _FUNCTIONS else None


def size_change(difference: _C.Difference, place: str, is_expression: bool) -> Change | None:
    """The change of a tensor's sizes, dimension by dimension; None if another fact changed."""
    what, now, before = difference
    if what != "size":
        return None
    shown = f"`{place}`" if is_expression else place
    if len(now) != len(before):
        text = f"{shown} had {counted(len(before), 'dimension')}, now {len(now)}"
        return Change(text, _OF_RANKS, f"{place}: dimensions")
    changed = [at for at, (new, old) in enumerate(zip(now, before)) if old not in (None, new)]
    text = ", ".join(f"dim {at} was {before[at]}, now {now[at]}" for at in changed)
    if any(each[at] in (0, 1) for each in (now, before) for at in changed):
        hint = _OF_ZERO_AND_ONE
    elif is_expression:
        dims = changed[0] if len(changed) == 1 else changed
        hint = f"mark it dynamic before the first call: `dl.mark_dynamic({place}, {dims})`"
    else:
        hint = _OF_SIZES
    return Change(f"{shown} {text}", hint, f"{place}: size")


# -- values in words ---------------------------------------------------------------------------------------------------


def words_of(value: object) -> str:
    """A constant by its value; an enum's member, function, class or module by its name; an instance of a class over
    str, bytes, int or float by the value that it stands for; anything else by its type. Runs none of the program's
    code."""
    return _shortened(_named(value) or _with_type(value))


def _named(value: object) -> str:
    """Empty if only the value's type can be said."""
    kind = type(value)
    if issubclass(kind, type):
        return f"the class {type.__dict__['__qualname__'].__get__(value)}"
    if issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}.{object.__getattribute__(value, '__dict__')['_name_']}"
    if kind is FunctionType:
        return f"the function {value.__qualname__}"  # type: ignore[attr-defined]
    if kind is BuiltinFunctionType:
        return f"the function {public_name(value)}"
    if kind is CodeType:
        return f"the function {value.co_name} of line {value.co_firstlineno}"  # type: ignore[attr-defined]
    if issubclass(kind, ModuleType):
        return f"the module {ModuleType.__getattribute__(value, '__dict__').get('__name__')}"
    if is_constant(value) or kind in _CONSTANTS or kind.__module__ == "numpy" and isinstance(value, _numpy_scalars()):
        return value_text(value)
    if issubclass(kind, int):
        return value_text(int.__int__(value))  # type: ignore[arg-type]
    base = next((each for each in (str, bytes, float) if issubclass(kind, each)), None)
    return "" if base is None else base.__repr__(value)


def _numpy_scalars() -> tuple[type, ...]:
    return (sys.modules["numpy"].generic,) if "numpy" in sys.modules else ()


def _with_type(value: object) -> str:
    return "None" if value is None else with_article(_name_of(type(value)))


def _name_of(cls: type) -> str:
    name: str = type.__dict__["__name__"].__get__(cls)
    return name


def _expected_class(changed: _Changed) -> str:
    """With its module only where its name alone is that of the class that is there instead."""
    expected = changed.failure.expected
    is_told_apart = _name_of(expected) != _name_of(type(changed.failure.value))
    return with_article(_name_of(expected) if is_told_apart else class_name(expected))


def _another(changed: _Changed) -> str:
    """The value that is there instead of the expected one, which may read the same."""
    value = changed.failure.value
    if type(value) is CodeType:
        return "another function"
    text = words_of(value)
    if text != words_of(changed.failure.expected):
        return text
    return "another function" if type(value) in _FUNCTIONS else "another object"


def _keys_now(changed: _Changed) -> str:
    value = changed.failure.value
    return _shortened(keys_text(dict.keys(value))) if isinstance(value, dict) else words_of(value)


def _fact(value: object) -> str:
    """One side of a difference."""
    return f"({', '.join(map(_fact, value))})" if type(value) is tuple else "any" if value is None else str(value)


def _differences(changed: _Changed) -> str:
    text = _C.CHECK_KINDS[changed.failure.kind].difference
    fields = (dict(what=what, now=_fact(now), was=_fact(was)) for what, now, was in changed.failure.differences)
    return "; ".join(text.format_map(each) for each in fields)


def _numbers(values: Sequence[object]) -> str:
    return ", ".join(map(value_text, values))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 100
"""Characters of a value in a message."""
_NUMBERS = (int, float)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, CodeType)
_CONSTANTS = frozenset(
    {type(...), type(NotImplemented), range, frozenset, torch.Size}
    | {torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo}
)
"""Types whose ``repr`` is not the program's, beside those that `is_constant` knows."""
_WORDS: dict[str, Callable[[_Changed], Any]] = {
    "place": lambda changed: changed.place,
    "text": lambda changed: changed.text,
    "condition": lambda changed: changed.condition,
    "words": lambda changed: changed.failure.words,
    "value": lambda changed: words_of(changed.failure.value),
    "expected": lambda changed: words_of(changed.failure.expected),
    "another": _another,
    "a_type": lambda changed: _with_type(changed.failure.value),
    "a_class": _expected_class,
    "keys": lambda changed: _shortened(keys_text(changed.failure.expected)),
    "keys_now": _keys_now,
    "numbers": lambda changed: _numbers(changed.failure.value),
    "what": lambda changed: changed.failure.differences[0][0],
    "differences": _differences,
}
"""The fields in `_C.CheckKind`'s texts of a failure."""
_OF_SIZES = "sizes that change are symbolic from now on; dl.mark_dynamic(tensor, dim) before the first call saves this"
_OF_ZERO_AND_ONE = "sizes 0 and 1 are compiled separately, since operators treat them otherwise"
_OF_RANKS = "each number of dimensions is compiled separately: reshape the inputs before the call"
_OF_NUMBERS = "each number is compiled separately: pass one that changes between calls as a tensor"
_OF_FUNCTIONS = "each function is compiled separately: define it once, and pass the same one"
_EACH_VALUE = "each value or object is compiled separately"
