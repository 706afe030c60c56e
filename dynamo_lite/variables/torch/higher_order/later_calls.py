"""How a graph calls the program's own function where a traced one is outdated when it runs later (`LaterCall`)."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch.fx

from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.records.calls_around_graph import CallAfterGraph, CallBeforeGraph
from dynamo_lite.records.restart import MadeByCPython, Restart
from dynamo_lite.records.side_effects import SideEffects
from dynamo_lite.records.source import Source
from dynamo_lite.records.subgraphs import Body
from dynamo_lite.runtime.later_calls import CalledFunctions, LaterCall, Values
from dynamo_lite.variables.core.attributes import MethodVariable
from dynamo_lite.variables.core.base import Args, Kwargs, LazyVariable, NotConstant, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import runs_later
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.core.reachable import references
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable, NestedFunctionVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .bodies import BodyVariable

_Build = Callable[[Values, Values], Any]
"""Creates a value, given the roots and the tensors that the traced function takes."""


class LaterFunction:
    """A function of the program that is traced as ``body``, and that the graph calls in the backward."""

    def __init__(
        self,
        tx: Translator,
        body: BodyVariable,
        reason: BreakReason,
        function: VariableTracker,
        args: Args | None = None,
        kwargs: Kwargs | None = None,
    ) -> None:
        self.tx = tx
        self.body = body
        self.reason = reason
        """Why the graph breaks if the program changes an object that the function is given."""
        self.function = function
        self.args = args or []
        self.kwargs = kwargs or {}
        self.tensors = {node: at for at, node in enumerate(body.lifted)}
        self.inputs = {_outermost(node, tx.graph.bodies) for node in body.lifted}
        """Those of them that are inputs of the graph."""
        self.roots: dict[Source, int] = {}
        self.later: LaterCall | None = None
        self.step = tx.attempt.provenance.step
        self.writes = tx.effects.count
        tx.attempt.provenance.later_functions.append(self)

    def checked_call(self) -> LaterCall | None:
        """What the graph checks, and the program's call with these arguments; None if the graph is compiled, in a
        backward, or if generated code can't create what the function is given."""
        if self.tx.attempt.frees_at_once or self.tx.attempt.is_exporting or runs_later(self.tx):
            return None
        try:
            function = self._build(self.function)
            args = self._sequence(tuple, self.args)
            kwargs = {name: self._build(each) for name, each in self.kwargs.items()}
        except NotConstant:
            return None

        def call(roots: Values, tensors: Values, *more: object) -> object:
            given = {name: each(roots, tensors) for name, each in kwargs.items()}
            return function(roots, tensors)(*args(roots, tensors), *more, **given)

        self.later = LaterCall(call, CalledFunctions(self.body.called))
        return self.later

    def check_objects(self, effects: SideEffects) -> None:
        """Break the graph where the function is passed on, if the program changes an object afterwards that it created
        before, and that the function reaches: it reads it later."""
        outside = [self.function, *self.args, *self.kwargs.values()]
        found = references(outside, lambda each: not isinstance(each, VariableTracker) or each.source is None)
        if any(isinstance(each, VariableTracker) and effects.last(each) > self.writes for each in found):
            raise Restart(MadeByCPython(self.step, False, self.reason))

    # -- the program's call ----------------------------------------------------------------------------------------

    def _build(self, value: VariableTracker) -> _Build:
        value = value.known()
        if isinstance(value, TensorVariable) and value.node in self.tensors:
            index = self.tensors[value.node]
            return lambda roots, tensors: tensors[index]
        if value.source is not None and value.source.kind != "const":
            return self._root(value.source)
        if isinstance(value, LazyVariable) or isinstance(value, FunctionVariable) and not value.attrs:
            return _constant(value.value)
        if isinstance(value, MethodVariable):
            return self._call(types.MethodType, value.function, value.receiver)
        return _constant(value.as_constant()) if isinstance(value, ConstantVariable) else self._created(value)

    def _created(self, value: VariableTracker) -> _Build:
        """A function or container that was created during tracing."""
        if type(value) in (TupleVariable, ListVariable) and value.python_type() in (tuple, list):
            return self._sequence(value.python_type(), value.items)  # type: ignore[attr-defined]
        if type(value) is DictVariable and value.cls is dict:
            names, items = list(value.items), self._sequence(list, value.items.values())
            return lambda roots, tensors: dict(zip(names, items(roots, tensors), strict=True))
        if value.python_type() is functools.partial and isinstance(value, UserObjectVariable) and not value.attrs:
            function, args, keywords = (
                self._build(value.getattr(self.tx, name)) for name in ("func", "args", "keywords")
            )
            return lambda *given: functools.partial(function(*given), *args(*given), **keywords(*given))
        if isinstance(value, NestedFunctionVariable) and not value.attrs and not value.members:
            return self._function(value)
        raise NotConstant(value.describe())

    def _function(self, value: NestedFunctionVariable) -> _Build:
        code, scope = value.code, value.scope(self.tx)
        contents = [each.load() for each in value.cells(self.tx)]
        if any(each is None for each in contents):
            raise NotConstant(value.describe())
        cells = self._sequence(tuple, [each for each in contents if each is not None])
        defaults = self._sequence(tuple, value.defaults(self.tx))
        names, keyword_defaults = [*value.keyword_defaults(self.tx)], value.keyword_defaults(self.tx).values()
        keywords = self._sequence(list, keyword_defaults)
        namespace = self._root(scope.source)

        def create(*given: Values) -> types.FunctionType:
            closure = tuple(map(types.CellType, cells(*given))) or None
            created = types.FunctionType(code, namespace(*given), None, defaults(*given) or None, closure)
            created.__kwdefaults__ = dict(zip(names, keywords(*given), strict=True)) or None
            return created

        return create

    def _sequence(self, kind: type, values: Iterable[VariableTracker]) -> _Build:
        items = [self._build(each) for each in values]
        return lambda roots, tensors: kind(each(roots, tensors) for each in items)

    def _call(self, function: Callable[..., Any], *args: VariableTracker) -> _Build:
        given = self._sequence(tuple, args)
        return lambda roots, tensors: function(*given(roots, tensors))

    def _root(self, source: Source) -> _Build:
        index = self.roots.setdefault(source, len(self.roots))
        return lambda roots, tensors: roots[index]


def _constant(value: object) -> _Build:
    return lambda roots, tensors: value


def _outermost(node: torch.fx.Node, bodies: Sequence[Body]) -> torch.fx.Node:
    """The node of an outer graph that a node stands for."""
    for body in reversed(bodies):
        node = next((outer for outer, inner in body.lifted.items() if inner is node), node)
    return node


# -- around the graph --------------------------------------------------------------------------------------------------


def call_around_graph(attempt: Attempt) -> None:
    """Let generated code pass the roots of each function to its `LaterCall`."""
    for each in attempt.provenance.later_functions:
        if each.later is not None:
            each.roots.setdefault(attempt.guards.root.child("globals"), len(each.roots))
            attempt.before_graph.calls.append(CallBeforeGraph(each.later.begin, tuple(each.roots)))
            attempt.effects.note(CallAfterGraph(each.later.end))


def check_later_functions(attempt: Attempt) -> None:
    """Check what functions read that the graph calls later, and build the guards that it checks, now that all guards
    are known."""
    functions = attempt.provenance.later_functions
    skipped = set(_overwritten(attempt)) if functions else set()
    for each in functions:
        each.check_objects(attempt.effects)
        if each.later is not None:
            compared = [of.source for of in attempt.graph.inputs if of.node in each.inputs or not of.is_tensor]
            each.later.guards = attempt.guards.below(list(each.roots), compared, skipped)


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
