"""The names that the user wrote, for places that frames of resume functions and of ``Module.__call__`` name otherwise.

A resume function receives its frame's stack, and in tuples the variables of interrupted calls. A frame of
``Module.__call__`` has the arguments of ``forward`` in ``args`` and ``kwargs``."""

from __future__ import annotations

import functools
import linecache
import types

from dynamo_lite.bytecode import decode
from dynamo_lite.sources.source import Name, Source, ordinal

from .resume_code import ARGUMENTS, CLOSURE, STACK, ResumeInfo, continued

_LONGEST = 60
"""Longer lines of source aren't shown in a name."""
_GIVEN = {"args": Name("the positional arguments", False), "kwargs": Name("the keyword arguments", False)}
"""The variables of ``Module.__call__`` that have the arguments of ``forward``."""


def name_places(root: Source, code: types.CodeType, parameters: tuple[str, ...] | None) -> None:
    """Have the places of a frame named as the user does. ``parameters``: those of the ``forward`` that
    it calls; None: it is no call of a module."""
    for at, name in enumerate(code.co_freevars):
        root.child("closure", at).name = name
    if parameters is not None:
        for name in _GIVEN:
            root.child("local", name).naming = functools.partial(_name_in_call, parameters)
    frames = [*continued(code)]
    for name in frames[0].point.arguments() if frames else ():
        if name in (CLOSURE, ARGUMENTS) or name in _stack(frames[0]):
            root.child("local", name).naming = functools.partial(_name_in_rest, frames)


def _name_in_call(parameters: tuple[str, ...], place: Source) -> Name | None:
    """The parameter of ``forward`` that a place in the frame of a module's call becomes."""
    above = place.parent
    assert above is not None
    if place.kind == "local":
        return _GIVEN[place.arg]
    if above.kind != "local":
        return None
    if place.kind == "tuple_item" and place.arg + 1 < len(parameters):
        return Name(parameters[place.arg + 1], True)
    return Name(place.arg, True) if place.kind == "dict_item" else None


def _name_in_rest(frames: list[ResumeInfo], place: Source) -> Name | None:
    """The variable, or the value on the stack, that a resume function gets there."""
    found = _argument(frames, place)
    if found is None:
        return _name_of_item(frames, place)
    level, name = found
    if name == ARGUMENTS:
        return Name(f"the variables of {frames[level + 1].original.co_qualname}", False)
    if name == CLOSURE:
        return Name(f"the closure of {frames[level + 1].original.co_qualname}", False)
    position = _stack(frames[level]).get(name)
    return Name(name, True) if position is None else Name(_value(frames[level], position), False)


def _argument(frames: list[ResumeInfo], place: Source) -> tuple[int, str] | None:
    """Which of the frames, the outermost first, the place is an argument of, and which one."""
    if place.kind == "local":
        return 0, place.arg
    holder = None if place.parent is None or place.kind != "tuple_item" else _argument(frames, place.parent)
    if holder is None or holder[1] != ARGUMENTS:
        return None
    return holder[0] + 1, frames[holder[0] + 1].point.arguments()[place.arg]


def _name_of_item(frames: list[ResumeInfo], place: Source) -> Name | None:
    """What an iterator yields that is on the stack: a loop's."""
    words = _YIELDED.get(place.kind)
    iterator = None if words is None or place.parent is None else _argument(frames, place.parent)
    if words is None or iterator is None or iterator[1] not in _stack(frames[iterator[0]]):
        return None
    which = "next" if place.arg is None else ordinal(place.arg + 1)
    return Name(f"the {which} {words} left to the loop around line {_line(frames[iterator[0]])}", False)


_YIELDED = {"next_item": "item", "next_value": "value", "next_number": "number"}


def _stack(frame: ResumeInfo) -> dict[str, int]:
    """The names of its arguments that are values on the stack -> their positions there."""
    return {STACK.format(at): at for at in range(frame.point.depth)}


def _value(frame: ResumeInfo, position: int) -> str:
    """A value on the stack: it has no name, but a statement that computes with it."""
    line = _line(frame)
    which = f"value {position + 1}" if position else "a value"
    source = linecache.getline(frame.original.co_filename, line).strip()
    if not source or len(source) > _LONGEST:
        return f"{which} of line {line}"
    return f"{which} of `{source}` (line {line})"


def _line(frame: ResumeInfo) -> int:
    """The line that it continues in."""
    positions = decode(frame.original)[frame.point.index].positions
    return frame.original.co_firstlineno if positions is None else positions[0] or 0
