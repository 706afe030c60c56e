"""Code that creates the program's function and its arguments when a graph calls it later (`LaterCall`)."""

from __future__ import annotations

import types
from functools import partial
from typing import NoReturn

from dynamo_lite.bytecode import assemble, emit
from dynamo_lite.records.calls_around_graph import CallAfterGraph, CallBeforeGraph
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import NotConstant, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt
from dynamo_lite.variables.torch.higher_order.later_calls import LaterFunction
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .python_codegen import PyCodegen

_ROOTS, _TENSORS = "roots", "tensors"


class _LaterCodegen(PyCodegen):
    """Emits a function of the roots, and of the tensors that the traced function takes, that creates a value."""

    def __init__(self, attempt: Attempt, function: LaterFunction) -> None:
        super().__init__(attempt, (lambda: None).__code__)
        self._of = function

    def load(self, tracker: VariableTracker) -> None:
        known = tracker.known()
        if isinstance(known, TensorVariable) and known.node in self._of.tensors:
            self._load_item(_TENSORS, self._of.tensors[known.node])
        else:
            super().load(known)

    def _load_constant(self, tracker: ConstantVariable) -> None:
        """Push a constant of the call. Where it was read, there may be another value later."""
        self.load_const(tracker.value)

    def load_source(self, source: Source | None) -> None:
        assert source is not None
        if source.kind == "const":
            self.load_const(source.arg)
        else:
            self._load_item(_ROOTS, self._of.add_root(source))

    def _load_item(self, name: str, index: int) -> None:
        self.load_fast(name)
        self.load_const(index)
        self.add(emit.subscript())

    def cannot_create(self, tracker: VariableTracker) -> NoReturn:
        raise NotConstant(tracker.describe())

    def graph_output(self, tensor: VariableTracker) -> NoReturn:
        self.cannot_create(tensor)

    def graph_result(self, value: VariableTracker) -> NoReturn:
        self.cannot_create(value)

    def load_made(self, node: object) -> NoReturn:
        raise NotConstant("a tensor that is created before the graph")

    def replay_once(self, tracker: VariableTracker) -> None:
        if tracker in self.attempt.effects.changed_trackers:
            self.cannot_create(tracker)

    def function(self) -> types.FunctionType:
        self.add(emit.return_value())
        code = [*emit.prologue(0), *self.body]
        return types.FunctionType(assemble(code, like=self.code, argnames=(_ROOTS, _TENSORS)), {})


def call_around_graph(attempt: Attempt) -> None:
    """Let generated code pass the roots of each function to its `LaterCall`."""
    for each in attempt.provenance.later_functions:
        if each.later is not None:
            each.later.create = _creator(attempt, each)
            each.add_globals()
            attempt.before_graph.calls.append(CallBeforeGraph(each.later.begin, tuple(each.roots)))
            attempt.effects.note(CallAfterGraph(each.later.end))


def _creator(attempt: Attempt, function: LaterFunction) -> types.FunctionType:
    """Creates the program's function, its arguments and keyword arguments."""
    cg = _LaterCodegen(attempt, function)
    try:
        cg.load(function.function)
        cg.load_tuple(function.args)
        cg.call_named(dict, [], {name: partial(cg.load, each) for name, each in function.kwargs.items()})
        cg.build("TUPLE", 3)
    except NotConstant as error:
        function.refuse(f"{error}, which generated code can't create")
    return cg.function()
