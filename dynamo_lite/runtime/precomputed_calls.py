"""Calls of user functions that the translator runs during translation instead of the generated code at run time.

Each runs once. If it raised, the exception is kept: when CPython reaches the call, its frame raises that exception
instead of running again.

Programs that need it: einops caches the recipe of each pattern, and DETR and its successors the position embeddings of
each size, by ``functools.lru_cache``. Without it, the first call of a model would break at each of them.
"""

from __future__ import annotations

import inspect
import threading
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynamo_lite import _C


class Raised(NamedTuple):
    """A call that raised."""

    code: CodeType
    arguments: dict[str, object]
    error: Exception
    during: int
    """The number of the outermost call into compiled code during which it ran."""


class PendingExceptions(threading.local):
    """The calls of an owner that raised, and that CPython has yet to reach on this thread."""

    def __init__(self) -> None:
        self.waiting: list[Raised] = []

    def take(self, code: CodeType, arguments: dict[str, object]) -> Exception | None:
        """The exception that a frame about to run has to raise; None if its call wasn't precomputed."""
        now = _C.outermost_calls()
        self.waiting = [each for each in self.waiting if each.during == now]  # older ones were never reached
        for each in self.waiting:
            if each.code is code and all(_are_same(value, arguments[name]) for name, value in each.arguments.items()):
                self.waiting.remove(each)
                return each.error
        return None


class PrecomputedCalls:
    """The precomputed calls of one translation of a frame."""

    def __init__(self, raised: PendingExceptions, owner: _C.Owner | None) -> None:
        self.filled: list[tuple[Any, Any]] = []
        """Cached functions, with the keys of the entries that the calls added to their caches."""
        self._raised = raised
        self._owner = owner

    def close(self) -> None:
        """Drop the owner: it keeps compiled code alive, so compiled code must not keep it alive."""
        self._owner = None

    def may_run(self, function: FunctionType) -> bool:
        """Whether the function's frame could raise an exception that is kept for it: its code has no entry or mark."""
        code = function.__code__
        if self._owner is None or _C.get_mark(code) != _C.Mark.NONE or code in self._owner.codes():
            return False
        return not any(each.code is code for each in self._raised.waiting)

    def raised(self, function: FunctionType, args: list[object], named: dict[str, object], error: Exception) -> None:
        """Keep the exception of a precomputed call."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not function.__code__:
            trace = trace.tb_next
        if trace is not None:  # otherwise the call failed before its frame began
            arguments = inspect.getcallargs(function, *args, **named)
            now = _C.outermost_calls()
            _C.mark_code(function.__code__, _C.Mark.NONE)  # the hook asks about the frame, it isn't new
            self._raised.waiting.append(Raised(function.__code__, arguments, error.with_traceback(trace), now))


class OutOfOrder(BaseException):
    """An operator would run that can't run during translation. The text says what is wrong with it."""


class InOrder(TorchDispatchMode):
    """A mode for a precomputed call. Collectives raise `OutOfOrder`, since other processes may not take part in them
    now, and so do random operators if the translated graph, which runs later, draws random numbers first."""

    def __init__(self, may_draw: bool) -> None:
        super().__init__()
        self.may_draw = may_draw

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            raise OutOfOrder("it communicates with other processes")
        if not self.may_draw and torch.Tag.nondeterministic_seeded in func.tags:
            raise OutOfOrder("it draws random numbers, and may not be the first to do so")
        return func(*args, **(kwargs or {}))


def _are_same(one: Any, other: Any) -> bool:
    """Whether two values are identical, equal constants, or tuples or dicts of such."""
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
