"""Plans the code after a graph: each live value as an expression of rows, each side effect as a step.

A value that generated code can't create is noted, and planning goes on. So all of them are known before another attempt
begins, which breaks the graph at the earliest step that creates one: CPython runs that step.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import torch
import torch.fx

from dynamo_lite import _C
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.attempt.room_states import RoomStates
from dynamo_lite.codegen.emitter import result_name
from dynamo_lite.exc import InternalError
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import HookNotTraced, LeafLeavesGraph, UnreconstructableValue
from dynamo_lite.plan.rows import (
    Binary,
    Break,
    Build,
    Call,
    Constant,
    Do,
    GraphResult,
    Item,
    Keep,
    Local,
    Plan,
    Reload,
    Return,
    SetAttribute,
    SetItem,
    Step,
    Value,
)
from dynamo_lite.records.graph import GraphInput
from dynamo_lite.records.restart import MadeByCPython
from dynamo_lite.runtime.graph_functions import frozen, thawed
from dynamo_lite.runtime.shared_memory import memory_of
from dynamo_lite.runtime.streams import release, wait_for
from dynamo_lite.shapes.expressions import Expression
from dynamo_lite.shapes.float_formulas import Formula
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import NotConstant, Part, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.torch.contexts.streams import StreamUses
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .formulas import expression_value, formula_value

_BY_VALUE = frozenset({int, float, complex, str, bytes})
"""Types of constants of which the program isn't promised the very object."""
_State = TypeVar("_State")
_UNMADE = Constant(None)
"""Stands for a value that CPython must create, in a plan that is dropped."""


class Planner:
    """Plans what comes after the graph's call. `value` gives the expression of a value; `steps` has what must happen
    before it is evaluated.

    Each object that is created during tracing is created once and kept in a local variable, so that aliases in the
    program are aliases again.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.steps: list[Step] = []
        self.outputs: dict[TensorVariable | SymNodeVariable, GraphResult] = {}
        """The results of the graph (tensors and numbers)."""
        self._kept: dict[VariableTracker, Local] = {}
        """Objects that are created -> the local that keeps each."""
        self._recreated: set[VariableTracker] = set()
        self._made_by_cpython: list[MadeByCPython] = []
        self._temporaries: list[Local] = []
        self._count = 0
        self._thawed = {each.node: self.local("thawed") for each in attempt.graph.inputs if each.is_thawed}
        """Placeholders of leaves that require gradients only inside -> the local that keeps each."""
        self._replayed: set[VariableTracker] = set()
        """Mutated objects whose stores are planned already."""
        self._states = RoomStates()
        self.grad_mode: bool = attempt.torch_state.initial_grad_mode
        """The grad mode at this point of the new code. (The graph restores the mode that it is called in.)"""

    # -- steps -----------------------------------------------------------------------------------------------------

    def local(self, hint: str = "value") -> Local:
        """A new local variable."""
        self._count += 1
        return Local(f"___{hint}{self._count}")

    def store(self, value: Value, hint: str) -> Local:
        """Evaluate a value now, and store it in a new local that stays bound."""
        local = self.local(hint)
        self.steps.append(Keep(local, value))
        return local

    def keep(self, value: Value, hint: str = "value") -> Local:
        """Evaluate a value now, and keep it in a new local for the steps that follow."""
        local = self.store(value, hint)
        self._temporaries.append(local)
        return local

    def do(self, function: object, /, *parts: Part, **named: Part) -> None:
        """Call a function for its effect."""
        self.steps.append(Do(self.call(function, *parts, **named)))

    def set_attribute(self, of: Value, name: str, value: Part) -> None:
        self.steps.append(SetAttribute(of, name, self.part(value)))

    # -- values ----------------------------------------------------------------------------------------------------

    def part(self, part: Part) -> Value:
        return part if isinstance(part, Value) else self.value(part)

    def call(self, function: object, /, *parts: Part, **named: Part) -> Call:
        """A call of a constant, or of a value."""
        callee = function if isinstance(function, Value) else self.constant(function)
        return Call(callee, tuple(map(self.part, (*parts, *named.values()))), tuple(named))

    def build(self, kind: str, parts: Iterable[Part]) -> Build:
        return Build(kind, tuple(map(self.part, parts)))

    def tuple_of(self, parts: Iterable[Part]) -> Build:
        return self.build("TUPLE", parts)

    def constant(self, value: object) -> Constant:
        if isinstance(value, SYMBOLIC):
            raise InternalError(
                f"the new code would have {value!r} as a constant, whose value changes from call to call"
            )
        return Constant(value)

    def formula(self, formula: Formula) -> Value:
        """A float of the program that no graph computes."""
        return formula_value(self, formula)

    def expression(self, expression: Expression) -> Value:
        """An expression of symbolic ints."""
        return expression_value(self, expression)

    def value(self, tracker: VariableTracker) -> Value:
        """How generated code gets the value."""
        tracker = tracker.known()
        if isinstance(tracker, LazyVariable):
            return self.reload(tracker.source)
        if isinstance(tracker, ConstantVariable):
            return self._constant(tracker)
        kept = self._kept.get(tracker)
        if kept is not None:
            return kept
        if tracker.source is not None and not tracker.is_loaded_as_constant:
            return self.reload(tracker.source)
        return self._create(tracker)

    def _constant(self, tracker: ConstantVariable) -> Value:
        """A number or text equals the one that was guarded: which of equal ones it is, isn't promised. Containers
        compare NaNs by identity, so these are the program's own, or new ones."""
        source, value = tracker.source, tracker.value
        is_nan = value != value
        if is_nan and source is None:
            if tracker not in self._kept:
                self._kept[tracker] = self.keep(Binary("+", self.constant(value), self.constant(0.0)))
            return self._kept[tracker]
        if source is None or type(value) in _BY_VALUE and not is_nan and source.kind != "local":
            return self.constant(value)
        return self.reload(source)

    def has_created(self, tracker: VariableTracker) -> bool:
        """Whether the steps so far create the object and keep it."""
        return tracker in self._kept

    def note_recreated(self, tracker: VariableTracker) -> None:
        """Note that the resume function recreates the object (see `IteratorRecipes`)."""
        self._recreated.add(tracker)

    def survives_break(self, tracker: VariableTracker) -> bool:
        """Whether the object survives the break, or is recreated after it."""
        return tracker in self._kept or tracker in self._recreated

    def _create(self, tracker: VariableTracker) -> Value:
        self.attempt.effects.shared_results.check_is_only_read(tracker)
        instance = getattr(tracker, "instance", None)
        if instance is not None:  # a view or an iterator of the instance's items
            return self.value(instance)
        try:
            made = tracker.construct(self)
        except NotConstant:
            return self.cannot_create(tracker)
        kept = self._kept.get(tracker)
        if kept is not None:  # filled already, or what it is made of refers to it and created it meanwhile
            return kept
        if isinstance(made, GraphResult) or tracker.is_created_per_load or tracker.is_loaded_as_constant:
            return made
        kept = self._kept[tracker] = self.keep(made)
        return kept

    def create(self, tracker: VariableTracker, new: Value, fill: Callable[[Local], None]) -> Local:
        """Create an empty object, keep it, then plan how it is filled: so it may contain itself."""
        kept = self._kept.get(tracker)
        if kept is None:  # otherwise what it is made of refers to it, and created it meanwhile
            kept = self._kept[tracker] = self.keep(new)
            fill(kept)
        return kept

    def cannot_create(self, tracker: VariableTracker, reason: BreakReason | None = None) -> Value:
        """Note a value that survives the graph and that generated code can't create (or keep alive)."""
        provenance = self.attempt.provenance
        otherwise = LeafLeavesGraph if provenance.is_created_leaf(tracker) else UnreconstructableValue
        return self._leave_to_cpython(provenance.step_of(tracker), reason or otherwise(tracker.describe()))

    def _leave_to_cpython(self, step: int, reason: BreakReason) -> Value:
        self._made_by_cpython.append(MadeByCPython(step, reason))
        return _UNMADE

    @property
    def made_by_cpython(self) -> MadeByCPython | None:
        """Of the values that CPython must create, the one that the program creates first."""
        created = self._made_by_cpython
        return min(created, key=lambda each: each.step or sys.maxsize, default=None)

    def reload(self, source: Source | None) -> Reload:
        """A pre-existing value: an argument, a constant, or a value that the guard check captured."""
        assert source is not None
        if source.kind == "local":
            return Reload(source, Local(source.arg))
        if source.kind == "const":
            return Reload(source, self.constant(source.arg))
        return Reload(source, Item(Local(_C.CAPTURED_NAME), Constant(self.attempt.guards.capture(source))))

    # -- results of the graph --------------------------------------------------------------------------------------

    def output(self, tensor: TensorVariable) -> Value:
        """A tensor that the graph computes, not one of a function that an operator runs."""
        graph, first_freed_at = self.attempt.graph, self.attempt.provenance.first_freed_at(tensor.fake)
        if first_freed_at:  # break before the call that frees its history: CPython makes that call
            self.attempt.provenance.created(tensor, first_freed_at)
        if first_freed_at or not graph.may_be_output(tensor.fake):
            return self.cannot_create(tensor)
        if step := _hooked_at(self.attempt.provenance.hooked_views, tensor):
            return self._leave_to_cpython(step, HookNotTraced("a hook of a view", "the view leaves the graph"))
        return self.result(tensor)

    def result(self, value: TensorVariable | SymNodeVariable) -> Value:
        """A tensor or number that the graph computes."""
        if value.node.graph is not self.attempt.graph.graph:
            return self.cannot_create(value)
        unused = self.attempt.graph.unused_input(value.node)
        if unused is not None:
            return self.input_value(unused)
        return self.outputs.setdefault(value, GraphResult(len(self.outputs)))

    # -- side effects ----------------------------------------------------------------------------------------------

    def replay_effects(self) -> None:
        """Plan the side effects of the frame: stores to objects, then to globals, then the noted events."""
        effects = self.attempt.effects
        for tracker in effects.changed_trackers:
            self._replay(tracker)
        for (scope, name), value in effects.written_globals.items():
            namespace, key = Constant(scope.namespace), Constant(name)
            if value is None:  # deleted; it may never have existed outside of the trace
                self.do(dict.pop, namespace, key, Constant(None))
            else:
                self.steps.append(SetItem(namespace, key, self.value(value)))
        for event in effects.noted:
            event.replay(self)

    def state(self, kind: type[_State]) -> _State:
        """The one instance of a class that a room keeps for this plan."""
        found: _State = self._states[kind]
        return found

    def replay_once(self, tracker: VariableTracker) -> None:
        """Plan the pending stores to an object now: a value is created from its new state."""
        if tracker in self.attempt.effects.changed_trackers:
            self._replay(tracker)

    def _replay(self, tracker: VariableTracker) -> None:
        if tracker not in self._replayed:
            self._replayed.add(tracker)
            try:
                tracker.replay(self)
            except NotConstant:
                self.cannot_create(tracker)

    def set_grad_mode(self, mode: bool) -> None:
        """Set the thread's grad mode, unless it is this one."""
        if self.grad_mode != mode:
            self.do(torch._C._set_grad_enabled, Constant(mode))
            self.grad_mode = mode

    def expect_grad_mode(self, before: bool, after: bool) -> None:
        """Set the grad mode that a context manager saves. Entering it, which comes next, sets the mode ``after``."""
        self.set_grad_mode(before)
        self.grad_mode = after

    def temporaries(self) -> list[str]:
        """The locals that keep values for further use. They are unbound at a break: so they prolong no object's life,
        and code that reads the frame's variables by name doesn't see them."""
        kept = [*self._temporaries, *self._thawed.values()]
        captured = [_C.CAPTURED_NAME] if self.attempt.guards.captured else []
        return [*(each.name for each in kept), *map(result_name, range(len(self.outputs))), *captured]

    # -- around the graph ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _apart(self) -> Iterator[list[Step]]:
        """Collect the steps that are planned inside."""
        steps, self.steps = self.steps, []
        try:
            yield self.steps
        finally:
            self.steps = steps

    def before_graph(self) -> list[Step]:
        """The caller's stream waits for those that the program uses inside of it; then come the calls before the graph,
        and tensors that the graph takes or the code after it loads."""
        with self._apart() as steps:
            for source in self.attempt.state(StreamUses).streams:
                self.do(wait_for, self.reload(source))
            for each in self.attempt.before_graph.calls:
                given = [*map(self.reload, each.sources), *map(self.constant, each.args)]
                made = self.call(each.function, *given)
                steps.append(Keep(Local(each.result), made) if each.result else Do(made))
            for leaf in self.attempt.graph.inputs:
                if leaf.node in self._thawed:
                    steps.append(Keep(self._thawed[leaf.node], self.call(thawed, self.reload(leaf.source))))
        return steps

    def input_value(self, given: GraphInput) -> Value:
        """What the graph is called with."""
        if given.node in self._thawed:
            return self._thawed[given.node]
        if given.formula is not None:
            value = self.formula(given.formula)
        else:
            value = self.reload(given.source)
        return value if given.convert is None else self.call(given.convert, value)

    def release_streams(self, results: Sequence[Value]) -> list[Step]:
        """After the graph: the streams that the program uses wait for the caller's."""
        with self._apart() as steps:
            for source in self.attempt.state(StreamUses).streams:
                self.do(release, self.reload(source), *results)
        return steps

    def random_state_restores(self) -> list[Step]:
        """Restore the states of torch's random number generators from before the frame's calls."""
        with self._apart() as steps:
            for each in reversed(self.attempt.before_graph.calls):
                if each.undo is not None:
                    self.do(each.undo, Local(each.result))
        return steps

    def put_back(self) -> list[Step]:
        """Undo the changes to existing tensors that were made before the graph."""
        with self._apart() as steps:
            for leaf in self._thawed.values():
                self.do(frozen, leaf)
        return [*steps, *self.release_streams([])]


def finished(plan: Planner, end: Return | Break, runs_graph: bool) -> Plan:
    """The plan, once nothing is added to it any more. ``runs_graph``: whether there is a graph to call."""
    given = plan.attempt.graph.inputs if runs_graph else []
    results = [*plan.outputs.values()]
    return Plan(
        before=tuple(plan.before_graph()),
        captured=tuple(each.source for each in given if each.captured),
        inputs=tuple(plan.input_value(each) for each in given if not each.captured),
        results=len(results),
        released=tuple(plan.release_streams(results)),
        after=tuple(plan.steps),
        end=end,
        undone=tuple(plan.put_back()),
        rewound=tuple(plan.random_state_restores()),
    )


def _hooked_at(views: Mapping[torch.fx.Node, int], tensor: TensorVariable) -> int:
    """The step at which a hook was registered on a view that a tensor is, or is a view of; 0: there is none. A compiler
    may return it as a view of the memory's first tensor, whose gradient doesn't meet the hook."""
    node = tensor.node
    while views and node not in views:
        before = next(iter(node.all_input_nodes), None)
        value = tensor.fake if before is None else before.meta["example_value"]
        if before is None or isinstance(value, torch.Tensor) and memory_of(value) != memory_of(tensor.fake):
            return 0
        node = before
    return views.get(node, 0)
