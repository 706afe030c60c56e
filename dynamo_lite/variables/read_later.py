"""What the backward of a Function reads of the program, which may be another thing once it runs.

It is traced with what there is at the call. Where the same call of the compiled function writes to that later on, the
Function is left to CPython from then on.
"""

from __future__ import annotations

import itertools
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ..skip import is_library
from .bodies import reachable
from .lookup import is_heap_type
from .user_object import instance_dict

left_alone: weakref.WeakSet[type[torch.autograd.Function]] = weakref.WeakSet()
"""Functions whose backward was seen to read what changes."""
_MOST = 1000
"""Of objects that are looked at, so that no data set is walked through."""


class Reader(NamedTuple):
    """A Function whose backward was traced. ``writes``: how many were before that; ``context``: what ``ctx`` holds."""

    cls: type[torch.autograd.Function]
    writes: int
    context: list[Any]


def note(tx: Any, cls: type[torch.autograd.Function], context: list[Any]) -> None:
    tx.attempt.readers.append(Reader(cls, tx.effects.count, context))


def readers_of_changes(attempt: Any) -> list[type[torch.autograd.Function]]:
    """Those of which something that they read was written to after their call."""
    return [each.cls for each in attempt.readers if each.writes < attempt.effects.count and _is_changed(attempt, each)]


def _is_changed(attempt: Any, reader: Reader) -> bool:
    effects = attempt.effects
    if any(effects.last(tracker) > reader.writes for tracker in reachable(reader.context)):
        return True
    written = {(id(scope.namespace), name) for scope, name in effects.written_globals}
    for part in itertools.islice(_reads(reader.cls), _MOST):
        if type(part) is tuple:
            if part in written:
                return True
        elif effects.last(attempt.memo.get(id(part), (None, None))[1]) > reader.writes:
            return True
    return False


def _reads(cls: type[torch.autograd.Function]) -> Iterator[Any]:
    """The objects that a backward may come to, and the names of globals, each with the id of their dict."""
    waiting: deque[Any] = deque([cls, cls.backward])
    seen: set[int] = set()
    while waiting:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) is types.FunctionType:
            if not is_library(value.__code__):
                yield from _names(value, waiting)
        elif type(value) is types.MethodType:
            waiting += (value.__func__, value.__self__)
        elif type(value) is types.CellType:
            yield value
            waiting.extend(_content(value))
        elif issubclass(type(value), (list, tuple, set, frozenset, deque, dict)):
            yield value
            waiting.extend(itertools.islice(_items(value), _MOST))
        elif issubclass(type(value), type):
            yield value
            waiting.extend(each for each in vars(value).values() if type(each) in (list, dict, set))
        elif is_heap_type(type(value)) and not isinstance(value, torch.Tensor):
            yield value
            waiting.extend((instance_dict(value) or {}).values())


def _names(function: types.FunctionType, waiting: deque[Any]) -> Iterator[Any]:
    """The globals that a function and those inside of it name. What is in them, and in its cells, waits."""
    waiting.extend(function.__closure__ or ())
    codes = deque([function.__code__])
    namespace = function.__globals__
    while codes:
        code = codes.popleft()
        codes.extend(each for each in code.co_consts if type(each) is types.CodeType)
        for name in code.co_names:
            yield id(namespace), name
            if name in namespace and type(namespace[name]) is not types.ModuleType:
                waiting.append(namespace[name])


def _items(value: Any) -> Iterator[Any]:
    """Those of a container, whatever its class says of them."""
    base = next(each for each in (dict, list, tuple, set, frozenset, deque) if issubclass(type(value), each))
    return iter(dict.values(value)) if base is dict else base.__iter__(value)  # type: ignore[no-any-return]


def _content(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # it is empty
        return
