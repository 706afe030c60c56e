"""The names that the user wrote, for the names that frames of resume functions and of ``Module.__call__`` have."""

from __future__ import annotations

import inspect
import linecache
import re
import types

from dynamo_lite.bytecode import decode

from .resume_code import ARGUMENTS, CLOSURE, STACK, ResumeInfo, continued


def in_program_names(text: str, code: types.CodeType, forward: types.FunctionType | None = None) -> str:
    """Rewrite the text of a place in a frame, or of a condition, to the names that the user wrote.

    A resume function receives the variables of interrupted calls in a tuple: they get their names again. In a frame of
    ``Module.__call__``, ``args[i]`` and ``kwargs['name']`` become the parameters of ``forward``."""
    if forward is not None:
        parameters = dict(enumerate(inspect.getfullargspec(forward).args, -1))
        text = _ARGUMENT.sub(lambda given: parameters.get(int(given[1]), given[0]), text)
        text = _KEYWORD.sub(lambda given: given[1], text)
        text = _ALL_ARGUMENTS.sub(lambda given: _IN_WORDS[given[0]], text)
    frames = [*continued(code)]
    if not frames:
        return text
    text = _OF_CALLEES.sub(lambda given: _name_in_callee(frames, re.findall(r"\d+", given[1])), text)
    text = re.sub(rf"{CLOSURE}\b", lambda _: _closure(frames, 1), text)
    text = _OF_LOOP.sub(rf"\1 left to the loop around line {_line(frames[0])}", text)
    return _ON_STACK.sub(lambda given: _value(frames[0], int(given[1])), text)


def _name_in_callee(frames: list[ResumeInfo], indices: list[str]) -> str:
    """The variable at these indices in the nested tuples of arguments."""
    for level, at in enumerate(indices, 1):
        name = frames[level].point.arguments()[int(at)]
        if name == ARGUMENTS:
            continue
        rest = "".join(f"[{each}]" for each in indices[level:])
        on_stack = _ON_STACK.fullmatch(name)
        if name == CLOSURE:
            return _closure(frames, level + 1) + rest
        return (name if on_stack is None else _value(frames[level], int(on_stack[1]))) + rest
    return f"the variables of {frames[len(indices) + 1].original.co_qualname}"


def _closure(frames: list[ResumeInfo], level: int) -> str:
    return f"the closure of {frames[level].original.co_qualname}"


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


_LONGEST = 60
"""Longer lines of source aren't shown in a name."""
_ARGUMENT = re.compile(r"(?<![\w.])args\[(\d+)\]")
_KEYWORD = re.compile(r"(?<![\w.])kwargs\['(\w+)'\]")
_ALL_ARGUMENTS = re.compile(r"(?<![\w.])(?:args|kwargs)(?!\w)")
_IN_WORDS = {"args": "the positional arguments", "kwargs": "the keyword arguments"}
_OF_CALLEES = re.compile(rf"{ARGUMENTS}((?:\[\d+\])*)")
_OF_LOOP = re.compile(rf"(the \w+ (?:item|value|number)) that {re.escape(STACK)} yields".replace(r"\{\}", r"\d+"))
_ON_STACK = re.compile(re.escape(STACK).replace(r"\{\}", r"(\d+)"))
