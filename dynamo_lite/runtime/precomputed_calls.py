"""Calls of the program's that the translator made ahead of the code that it makes, once and as they would have been.

One that raised is not made again: when CPython comes to it, its frame raises what it raised.
"""

from __future__ import annotations

import inspect
import threading
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from dynamo_lite import _C


class Raised(NamedTuple):
    """A call that raised: whose, its arguments by name, and what. ``during``: the number of the program's call into
    compiled code that it belongs to."""

    code: CodeType
    arguments: dict[str, Any]
    error: Exception
    during: int


class PendingExceptions(threading.local):
    """Those of an owner that CPython has yet to come to, on this thread."""

    def __init__(self) -> None:
        self.waiting: list[Raised] = []

    def take(self, code: CodeType, arguments: dict[str, Any]) -> Exception | None:
        """What a frame that is about to run has raised already."""
        now = _C.outermost_calls()
        self.waiting = [each for each in self.waiting if each.during == now]  # others were left before they came to it
        for each in self.waiting:
            if each.code is code and all(_are_same(value, arguments[name]) for name, value in each.arguments.items()):
                self.waiting.remove(each)
                return each.error
        return None


class PrecomputedCalls:
    """The calls of one translation of a frame. ``filled``: cached functions and the keys whose entries they made."""

    def __init__(self, raised: PendingExceptions, owner: _C.Owner | None) -> None:
        self.filled: list[tuple[Any, Any]] = []
        self._raised = raised
        self._owner = owner

    def close(self) -> None:
        """An owner holds what it compiled, and must not be held by it."""
        self._owner = None

    def may_run(self, function: FunctionType) -> bool:
        """Whether what a call raises could be raised by its frame later on: nothing is known yet of the code."""
        code = function.__code__
        if self._owner is None or _C.get_mark(code) != _C.MARK_NONE or code in self._owner.codes():
            return False
        return not any(each.code is code for each in self._raised.waiting)

    def raised(self, function: FunctionType, args: list[Any], named: dict[str, Any], error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not function.__code__:
            trace = trace.tb_next
        if trace is not None:  # else it was the call itself that failed, without a frame
            arguments = inspect.getcallargs(function, *args, **named)
            now = _C.outermost_calls()
            self._raised.waiting.append(Raised(function.__code__, arguments, error.with_traceback(trace), now))


def _are_same(one: Any, other: Any) -> bool:
    """Whether two values are one object, or hold the same objects, or are equal constants."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(_are_same, one, other))
    if type(one) is dict:
        return list(one) == list(other) and all(map(_are_same, one.values(), other.values()))
    return type(one) in _CONSTANTS and bool(one == other)


_CONSTANTS = (int, float, complex, str, bytes)
