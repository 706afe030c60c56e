"""What has changed since an entry was made, in the program's terms: the guard that failed, in words, with a hint."""

from __future__ import annotations

import ast
import enum
import keyword
import re
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import NamedTuple

import torch

from dynamo_lite import _C

from .counters import counted
from .site import public_name
from .value_text import value_text, with_article


class Change(NamedTuple):
    """``subject``: what changed, whatever it is now."""

    text: str
    hint: str
    subject: str


def change_of(failure: _C.Failure, place: str, view: _C.FrameView, condition: str) -> Change:
    """``place`` and ``condition``: the failure's place and text, as the program names them."""
    kind, found, expected = failure.kind, _CONSTANT.sub("", failure.found), failure.expected
    if kind == "symbolic":
        return Change(f"{condition} doesn't hold for {found}", _OF_CONDITIONS, condition)
    if kind == "global_state":
        return Change(found, _OF_STATE, found.partition(" is ")[0])
    if kind == "distinct":
        return Change("two of its inputs are one object, and were different ones", _OF_OBJECTS, "which inputs are one")
    if kind in ("tensor", "tensor_of_any_size", "tensor_without_size"):
        return _of_tensor(found, place)
    now, hint = _now(failure, view) or _with_article(found, kind), _OF_OBJECTS
    if kind == "present":
        was = "there"
    elif kind == "unbound":
        was = "not there"
    elif kind in ("equals", "bits", "payload"):
        was = _shortened(value_words(expected) or value_text(expected))
        is_number = type(expected) in (int, float) and failure.found.startswith(("int ", "float "))
        hint = _OF_NUMBERS if is_number else _OF_OBJECTS
    elif type(expected) is CodeType:
        place, now, hint = place.removesuffix(".__code__"), "another function", _OF_FUNCTIONS
        was = f"the function {expected.co_name} of line {expected.co_firstlineno}"
    else:
        was = _was(failure)
        now = "another object" if now == with_article(was) else now
        hint = _OF_FUNCTIONS if isinstance(expected, (FunctionType, BuiltinFunctionType)) else _OF_OBJECTS
    return Change(f"{place}: {now}, was {was}", hint, place)


_CONSTANT = re.compile(r"(?<![\w.'\"])(?:str|int|float|bool|bytes|complex|tuple|frozenset) (?=['\"\-\dTFbinf(])")
"""The types that C++ puts before constants."""


def _of_tensor(found: str, place: str) -> Change:
    sizes = _SIZES.match(found)
    if sizes is None:
        what = found.partition(" ")[0]
        text = re.sub(r"(?<=dtype )(\w+) instead of (\w+)", _in_pythons_dtypes, found)
        return Change(f"{place}: {text}", _OF_TENSORS.get(what, _OF_LAYOUTS), f"{place}: {what}")
    now, before = (each.split(", ") if each else [] for each in sizes.groups())
    is_written = is_expression(place)
    shown = f"`{place}`" if is_written else place
    if len(now) != len(before):
        return Change(
            f"{shown} had {counted(len(before), 'dimension')}, now {len(now)}", _OF_RANKS, f"{place}: dimensions"
        )
    changed = [at for at, (new, old) in enumerate(zip(now, before)) if old not in ("any", new)]
    text = ", ".join(f"dim {at} was {before[at]}, now {now[at]}" for at in changed)
    if any(each[at] in ("0", "1") for each in (now, before) for at in changed):
        hint = _OF_ZERO_AND_ONE
    elif is_written:
        dims = str(changed[0]) if len(changed) == 1 else str(changed)
        hint = f"mark it dynamic before the first call: `dl.mark_dynamic({place}, {dims})`"
    else:
        hint = _OF_SIZES
    return Change(f"{shown} {text}", hint, f"{place}: size")


_SIZES = re.compile(r"size \(([^)]*)\) instead of \(([^)]*)\)")


def is_expression(place: str) -> bool:
    """Whether the program can write it."""
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'|\"[^\"]*\"", "", place))
    if not names or any(map(keyword.iskeyword, names)):
        return False
    try:
        ast.parse(place, mode="eval")
    except SyntaxError:
        return False
    return True


def _now(failure: _C.Failure, view: _C.FrameView) -> str:
    """The value that is there now, where C++ has only its type to say; empty if that can't be said."""
    if not failure.found.startswith("an object of type "):
        return ""
    found = _value_at(failure.reason.place, view.locals)
    return "" if found is _UNKNOWN else _shortened(value_words(found))


_UNKNOWN = object()


def _value_at(place: str, variables: dict[str, object]) -> object:
    """The value at a place, where reading it runs no code of the program's."""
    try:
        return _evaluated(ast.parse(place, mode="eval").body, variables)
    except (SyntaxError, ValueError, KeyError, IndexError, TypeError):
        return _UNKNOWN


def _evaluated(node: ast.expr, variables: dict[str, object]) -> object:
    if isinstance(node, ast.Name):
        return variables[node.id]
    if isinstance(node, ast.Attribute):
        return object.__getattribute__(_evaluated(node.value, variables), "__dict__")[node.attr]
    if isinstance(node, ast.Subscript):
        owner, key = _evaluated(node.value, variables), ast.literal_eval(node.slice)
        if type(owner) in (dict, list, tuple):
            return owner[key]  # type: ignore[index]
    raise ValueError


def _with_article(found: str, kind: str) -> str:
    """``a Tensor`` for what C++ calls ``an object of type Tensor``, or ``the class Tensor`` where it compared types."""
    beginning = "the class " if kind == "type" else "an object of type "
    if not found.startswith(beginning):
        return found
    name = found.removeprefix(beginning)
    return "None" if name == "NoneType" else with_article(name)


def value_words(value: object) -> str:
    """An enum's member by its name; a function or class by its own; an instance of a class over str, int or float by
    the value that it stands for. Else empty."""
    kind = type(value)
    if issubclass(kind, type):
        return f"the class {type.__dict__['__qualname__'].__get__(value)}"
    if issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}.{object.__getattribute__(value, '__dict__')['_name_']}"
    if kind is FunctionType:
        return f"the function {value.__qualname__}"  # type: ignore[attr-defined]
    if kind is BuiltinFunctionType:
        return f"the function {public_name(value)}"
    if issubclass(kind, int) and kind is not bool:
        return value_text(int.__int__(value))  # type: ignore[arg-type]
    base = next((each for each in (str, bytes, float) if issubclass(kind, each)), None)
    return "" if base is None else base.__repr__(value)


def _was(failure: _C.Failure) -> str:
    """What was there instead, or held of it."""
    named = value_words(failure.expected) if failure.kind == "id" else ""
    if named:
        return named
    was = _WAS.match(failure.reason.text)
    return f"one that {failure.reason.text}" if was is None else str(failure.reason.text[was.end() :])


_WAS = re.compile(r"is the same |is exactly |is (?=None$)|has (?=length |the keys |no keys)")
"""How the text of a guard begins that names a value or a part of it."""


def _in_pythons_dtypes(given: re.Match[str]) -> str:
    now, before = (_DTYPES.get(each, each) for each in given.groups())
    return f"{now} instead of {before}"


_DTYPES = {
    name.removesuffix("Storage"): str(dtype) for dtype, name in torch.storage._dtype_to_storage_type_map().items()
}
"""What C++ calls a dtype -> what programs do."""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 100
"""Characters of a value in a message; what it is now ends there, too."""
_OF_SIZES = "sizes that change are symbolic from now on; dl.mark_dynamic(tensor, dim) before the first call saves this"
_OF_ZERO_AND_ONE = "sizes 0 and 1 are compiled separately, since operators treat them otherwise"
_OF_RANKS = "each number of dimensions is compiled separately: reshape the inputs before the call"
_OF_LAYOUTS = "each memory layout is compiled separately: call .contiguous() before"
_OF_TENSORS = {
    "dtype": "each dtype is compiled separately: convert the inputs before the call",
    "device": "each device is compiled separately: move the inputs before the call",
    "requires_grad": "inputs that require gradients and others have a version each",
}
"""First word of what was found -> hint."""
_OF_NUMBERS = "a number that changes with the calls belongs in a tensor, as a buffer of its module"
_OF_OBJECTS = "each value or object is compiled separately, up to dl.config.recompile_limit"
_OF_FUNCTIONS = "each function is compiled separately: define it once, and pass the same one"
_OF_CONDITIONS = (
    "the function branches on this, or something in it needs the number itself: each outcome is compiled separately"
)
_OF_STATE = "call it in the same modes of torch (gradients, autocast, number of threads)"
