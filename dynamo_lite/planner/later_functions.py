"""Code that creates the program's function and its arguments when a graph calls it later (`LaterCall`)."""

from __future__ import annotations

import types
from typing import NoReturn

from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.codegen.function_code import code_returning
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.plan.rows import Constant, Item, Local, Reload, Value
from dynamo_lite.records.calls_before_graph import CallBeforeGraph
from dynamo_lite.records.restart import MadeByCPython
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import NotConstant, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.torch.higher_order.later_calls import LaterFunction, LaterFunctions
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .planner import Planner

_ROOTS, _TENSORS = "roots", "tensors"


class _LaterPlanner(Planner):
    """Plans a function of the roots, and of the tensors that the traced function takes, that creates a value."""

    def __init__(self, attempt: Attempt, function: LaterFunction) -> None:
        super().__init__(attempt)
        self._of = function

    def value(self, tracker: VariableTracker) -> Value:
        known = tracker.known()
        if isinstance(known, TensorVariable) and known.node in self._of.tensors:
            return _item(_TENSORS, self._of.tensors[known.node])
        return super().value(known)

    def _constant(self, tracker: ConstantVariable) -> Value:
        """A constant of the call. Where it was read, there may be another value later."""
        return self.constant(tracker.value)

    def reload(self, source: Source | None) -> Reload:
        assert source is not None
        if source.kind == "const":
            return Reload(source, self.constant(source.arg))
        return Reload(source, _item(_ROOTS, self._of.add_root(source)))

    def cannot_create(self, tracker: VariableTracker, reason: BreakReason | None = None) -> NoReturn:
        raise NotConstant(tracker.describe())

    def output(self, tensor: VariableTracker) -> NoReturn:
        self.cannot_create(tensor)

    def result(self, value: VariableTracker) -> NoReturn:
        self.cannot_create(value)

    def replay_once(self, tracker: VariableTracker) -> None:
        if tracker in self.attempt.effects.changed_trackers:
            self.cannot_create(tracker)


def _item(name: str, index: int) -> Item:
    return Item(Local(name), Constant(index))


def call_around_graph(attempt: Attempt) -> MadeByCPython | None:
    """Let generated code pass the roots of each function to its `LaterCall`, unless it can't create one of them."""
    for each in attempt.state(LaterFunctions):
        if each.later is not None:
            try:
                each.later.create = _creator(attempt, each)
            except NotConstant as error:
                return each.refusal(f"{error}, which generated code can't create")
            each.add_globals()
            attempt.before_graph.calls.append(CallBeforeGraph(each.later.begin, tuple(each.roots)))
            attempt.effects.note_call(each.later.end)
    return None


def _creator(attempt: Attempt, function: LaterFunction) -> types.FunctionType:
    """Creates the program's function, its arguments and keyword arguments. Raises `NotConstant` if code can't."""
    plan = _LaterPlanner(attempt, function)
    parts = [plan.value(function.function), plan.tuple_of(function.args), plan.call(dict, **function.kwargs)]
    created = plan.tuple_of(parts)
    like = (lambda: None).__code__
    return types.FunctionType(code_returning(created, like=like, argnames=(_ROOTS, _TENSORS), steps=plan.steps), {})
