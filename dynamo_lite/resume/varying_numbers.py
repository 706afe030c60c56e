"""The numbers that a resume function gets and that vary from call to call. They are symbolic from its first translation
on, which saves the version in which they would be constants.

They are numbers that are symbolic already or were read from tensors, the result of an instruction that breaks the graph
because it depends on data, and at a break inside of a loop what the loop assigns and what it iterates over.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from dynamo_lite.bytecode import decode, roles
from dynamo_lite.bytecode.decode import PerCode
from dynamo_lite.insight.break_reasons import DataDependentValue
from dynamo_lite.sources.source import PlaceKey, Source
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.base_kinds import IteratorVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import LazyVariable

from .interpreted_frame import InterpretedFrame
from .resume_code import ARGUMENTS, STACK, ResumePoint

_MOST_RESULTS = 4
"""The most tensors that an operator whose results have sizes of data returns: ``unique`` with all it can return."""
_NEXT: tuple[tuple[tuple[str, object], ...], ...] = (
    (("next_item", 0),),
    (("next_number", None),),
    (("taken_from", None), ("next_item", 0)),
)
"""From an iterator to the next number: of a range, a count, what an ``enumerate`` iterates over. An ``enumerate`` has a
number of its own."""


class Varying(NamedTuple):
    """A place among the arguments of a resume function. ``way``: the accessors from the argument to the place;
    ``dim``: the dimension of a tensor whose size varies, -1 for a number."""

    argument: str
    way: tuple[tuple[str, object], ...] = ()
    dim: int = -1

    def place(self) -> tuple[PlaceKey, int]:
        """As in `ShapePolicy.expect_changes`."""
        source = Source().child("local", self.argument)
        for accessor in self.way:
            source = source.child(*accessor)
        return source.key, self.dim


class SplitFrame(Protocol):
    """A frame, and the instruction of the user's code at which it is split."""

    index: int
    original: types.CodeType

    @property
    def tx(self) -> InterpretedFrame: ...


jumps_back = PerCode(
    lambda code: [
        (each.target.index, each.index)
        for each in decode(code)
        if each.target is not None and each.target.index <= each.index
    ]
)
"""The indices of targets and jumps that lead back."""


def varying_numbers(frame: SplitFrame, point: ResumePoint) -> Iterator[Varying]:
    """Those that a frame passes on to its resume function."""
    tx, arguments = frame.tx, point.arguments()
    assigned = _assigned_in_loops(frame.original, frame.index)
    for name in arguments:
        if name in tx.locals and _varies(tx.locals[name].known(), name in (assigned or ())):
            yield Varying(name)
    for at, value in enumerate(tx.stack[: point.depth]):
        name = STACK.format(at)
        if name not in arguments:
            continue
        if _varies(value.known(), False):
            yield Varying(name)
        if assigned is not None and isinstance(value.known(), (IteratorVariable, LazyVariable)):
            yield from (Varying(name, way) for way in _NEXT)
    if point.callee is None:
        yield from _results(frame, point)


def in_arguments(point: ResumePoint, varying: Iterable[Varying]) -> list[Varying]:
    """The same places as seen from the frame that continues this interrupted call."""
    arguments = point.arguments()
    return [
        Varying(ARGUMENTS, (("tuple_item", arguments.index(each.argument)), *each.way), each.dim) for each in varying
    ]


def _varies(value: VariableTracker, is_assigned: bool) -> bool:
    """``is_assigned``: whether a loop around the break assigns to its variable."""
    if isinstance(value, LazyVariable):
        return _is_of_numbers(type(value.value)) and (is_assigned or value.attempt.shapes.varies(value.source))
    if isinstance(value, ConstantVariable):
        return is_assigned and _is_of_numbers(type(value.value))
    return value.is_symbolic and _is_of_numbers(value.python_type())


def _is_of_numbers(cls: type) -> bool:
    """Without the class's own comparison, which its metaclass may define."""
    return cls is int or cls is float


def _assigned_in_loops(code: types.CodeType, index: int) -> set[str] | None:
    """The local variables that the loops around an instruction assign to; None if it is in no loop."""
    loops = [(start, end) for start, end in jumps_back(code) if start <= index <= end]
    if not loops:
        return None
    source = decode(code)
    stored = (roles.stored_local(each) for start, end in loops for each in source[start : end + 1])
    return {name for name in stored if name is not None}


def _results(frame: SplitFrame, point: ResumePoint) -> Iterator[Varying]:
    """What an instruction gives that breaks the graph because it depends on data. It decides the first size of
    tensors."""
    graph_break = frame.tx.attempt.restart_facts.graph_break
    result = STACK.format(point.depth - 1)
    if graph_break is None or not isinstance(graph_break.reason, DataDependentValue):
        return
    if result in point.arguments():
        yield from (Varying(result), Varying(result, (), 0))
        yield from (Varying(result, (("tuple_item", at),), 0) for at in range(_MOST_RESULTS))
        yield from (Varying(result, (("list_item", at),)) for at in range(_MOST_RESULTS))
