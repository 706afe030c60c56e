"""Functions of the program that a graph calls later, where the traced ones are outdated (`LaterCall`)."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch.fx

from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.restart import MadeByCPython
from dynamo_lite.records.subgraphs import Scope
from dynamo_lite.runtime.later_calls import CalledFunctions, LaterCall
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Translator, VariableTracker
from dynamo_lite.variables.core.invariant_reads import mutable_objects
from dynamo_lite.variables.core.reachable import references
from dynamo_lite.variables.python.functions.function import CellVariable, NestedFunctionVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .bodies import BodyVariable


class LaterFunction:
    """A function of the program that is traced as ``body``, and that the graph calls in the backward."""

    def __init__(
        self,
        tx: Translator,
        body: BodyVariable,
        reason: Callable[[str], BreakReason],
        function: VariableTracker,
        args: Args | None = None,
        kwargs: Kwargs | None = None,
    ) -> None:
        self.tx = tx
        self.reason = reason
        """Why the graph breaks, given what the function reaches that it can't have in a graph."""
        self.function = function
        self.args = args or []
        self.kwargs = kwargs or {}
        self.tensors = {node: at for at, node in enumerate(body.lifted)}
        """What the traced function takes from the graph."""
        self.inputs = {_outermost(node, tx.graph.scope.nesting) for node in body.lifted}
        """Those of them that are inputs of the graph."""
        self.roots: dict[Source, int] = {}
        """The pre-existing objects that the function reaches."""
        self.later = LaterCall(CalledFunctions(body.called)) if is_checked_later(tx) else None
        """None: the graph doesn't check what the function reads."""
        self.step = tx.attempt.provenance.step
        self.writes = tx.effects.count
        tx.attempt.state(LaterFunctions).append(self)

    def reached(self) -> Iterator[VariableTracker]:
        """What the function reaches of what was created in the call, and pre-existing objects that this holds."""
        return _reached([self.function, *self.args, *self.kwargs.values()])

    def add_root(self, source: Source) -> int:
        """The index of a pre-existing object that the function reaches."""
        return self.roots.setdefault(source, len(self.roots))

    def add_globals(self) -> None:
        """Add the globals of functions that were created in the call."""
        self.add_root(self.tx.attempt.guards.root.child("globals"))
        for each in self.reached():
            if isinstance(each, NestedFunctionVariable):
                self.add_root(each.scope(self.tx).source)

    def refusal(self, what: str) -> MadeByCPython:
        """CPython must call the operator to which the function is passed on, since it reaches this."""
        return MadeByCPython(self.step, self.reason(what))

    def outdated(self, attempt: Attempt, has_created: Callable[[VariableTracker], bool]) -> MadeByCPython | None:
        """The refusal if an object that the function reaches may change afterwards, and that isn't checked: it is
        read later."""
        for each in self.reached():
            is_changed = attempt.effects.last(each) > self.writes
            if is_changed or self.later is not None and has_created(each) and _is_mutable(each):
                return self.refusal(f"{each.describe()}, which may change later")
        return None


class LaterFunctions(list[LaterFunction]):
    """Hooks and functions of checkpoints that a graph calls in the backward."""


def is_checked_later(tx: Translator) -> bool:
    """Whether a graph checks what functions read that it calls later: it isn't compiled, and no backward itself."""
    return not (tx.attempt.traits.frees_at_once or tx.attempt.surroundings.is_exporting or tx.graph.scope.in_backward)


def lift_tensors(graph: GraphBuilder, values: Iterable[VariableTracker]) -> None:
    """Let the innermost body take all tensors that its function is given or holds. It may not use them; the program's
    function may, when it is called later."""
    for each in _reached(values):
        if not isinstance(each, TensorVariable) or each.has_torch_function or each.is_wrapper:
            continue
        if each.source is None:
            graph.here(each.node)


def _reached(values: Iterable[VariableTracker]) -> Iterator[VariableTracker]:
    """The values, and those that they reach through what was created during tracing."""
    found = references(values, lambda each: not isinstance(each, VariableTracker) or each.source is None)
    return (each for each in found if isinstance(each, VariableTracker))


def _is_mutable(value: VariableTracker) -> bool:
    if isinstance(value, (TensorVariable, CellVariable)) or value.python_type() is types.FunctionType:
        return False
    return any(each is value for each in mutable_objects(value))


def _outermost(node: torch.fx.Node, bodies: Sequence[Scope]) -> torch.fx.Node:
    """The node of an outer graph that a node stands for."""
    for body in reversed(bodies):
        node = next((outer for outer, inner in body.lifted.items() if inner is node), node)
    return node


def check_later_functions(attempt: Attempt, has_created: Callable[[VariableTracker], bool]) -> MadeByCPython | None:
    """Check what functions read that the graph calls later, and build the guards that it checks, now that all guards
    are known. ``has_created``: whether the program gets an object that was created in the call."""
    functions = attempt.state(LaterFunctions)
    skipped = set(_overwritten(attempt)) if functions else set()
    for each in functions:
        refusal = each.outdated(attempt, has_created)
        if refusal is not None:
            return refusal
        if each.later is not None:
            compared = [of.source for of in attempt.graph.inputs if of.node in each.inputs or not of.is_tensor]
            each.later.guards = attempt.guards.below(list(each.roots), compared, skipped)
    return None


def _overwritten(attempt: Attempt) -> Iterable[Source]:
    """Places that the frame itself changes after the graph."""
    for scope, name in attempt.effects.written_globals:
        yield scope.source.child("dict_item", name)
    for tracker in attempt.effects.changed_trackers:
        source = tracker.source
        if source is not None and isinstance(tracker, UserObjectVariable):
            namespace = source.child("instance_dict")
            yield from (namespace.child("dict_item", name) for name in (*tracker.attrs, *tracker.deleted))
        elif source is not None:
            yield source
