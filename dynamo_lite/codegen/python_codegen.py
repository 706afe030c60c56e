"""Emits a frame's new code: call the graph, replay the side effects, load values."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch
import torch.fx

from dynamo_lite import _C
from dynamo_lite.bytecode import Handler, Instruction, emit
from dynamo_lite.bytecode.instructions import Positions
from dynamo_lite.exc import InternalError
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import HookNotTraced, UnreconstructableValue
from dynamo_lite.records.graph import GraphInput
from dynamo_lite.records.restart import MadeByCPython, Restart
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.graph_functions import frozen, with_data
from dynamo_lite.runtime.shared_memory import memory_of
from dynamo_lite.runtime.streams import release, wait_for
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.variables.core.base import LazyVariable, NotConstant, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Load
from dynamo_lite.variables.python.containers.set_recipes import SetStates
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable, load_formula
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_RESULTS = "___results"
_NEW_OBJECTS = frozenset({int, float, complex, str, bytes})
"""Types of constants whose computation creates a new object each time."""
_SMALL_INTEGERS = range(-5, 257)


def let_cpython_create(attempt: Attempt, tracker: VariableTracker, reason: BreakReason | None = None) -> NoReturn:
    """Start another attempt, in which CPython creates a value that survives the graph and that code can't create."""
    provenance = attempt.provenance
    why = UnreconstructableValue(tracker.describe()) if reason is None else reason
    raise Restart(MadeByCPython(provenance.step_of(tracker), provenance.is_created_leaf(tracker), why))


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


class PyCodegen:
    """Emits the part of a frame's new code that comes after the graph call; `finish` puts prologue and call before it.

    ``load`` pushes a value and creates each object once: an object created during tracing is kept in a local variable,
    so that aliases in the program are aliases again.
    """

    def __init__(self, attempt: Attempt, code: types.CodeType) -> None:
        self.attempt = attempt
        self.code = code
        self.body: list[Instruction] = []
        self.outputs: dict[TensorVariable | SymNodeVariable, str] = {}
        """Results of the graph (tensors and numbers) -> the local that each is kept in."""
        self._temps: dict[VariableTracker, str] = {}
        self._computed: dict[int, tuple[object, str]] = {}
        """id of a constant computed during tracing -> the constant, and the local that the new object is kept in."""
        self._filled: set[VariableTracker] = set()
        """Objects created by `make_then_fill`."""
        self._recreated: set[VariableTracker] = set()
        self._passing: list[str] = []
        self._count = 0
        graph = attempt.graph
        created = [each.node for each in graph.inputs if each.make]
        created += [before for before, _ in graph.replaced.values()]
        self._created: dict[torch.fx.Node, str] = {node: self.temp("created") for node in created}
        """Placeholders of tensors that are created before the graph -> the local that each is kept in."""
        self._replayed: set[VariableTracker] = set()
        """Mutated objects whose stores are emitted already."""
        self.set_states = SetStates()
        self.grad_mode: bool | None = None
        """The grad mode at this point of the new code; None before the first change."""

    # -- instructions ----------------------------------------------------------------------------------------------

    def add(self, *instructions: Instruction) -> None:
        self.body.extend(instructions)

    def temp(self, hint: str = "value") -> str:
        self._count += 1
        return f"___{hint}{self._count}"

    def _passing_temp(self, hint: str) -> str:
        """A local for a value on its way to a call."""
        name = self.temp(hint)
        self._passing.append(name)
        return name

    def load_const(self, value: object) -> None:
        if isinstance(value, SYMBOLIC):
            raise InternalError(
                f"the new code would have {value!r} as a constant, whose value changes from call to call"
            )
        self.add(emit.load_const(value))

    def load_fast(self, name: str) -> None:
        self.add(emit.load_fast(name))

    def store_fast(self, name: str) -> None:
        self.add(emit.store_fast(name))

    def store_copy(self, name: str) -> None:
        """Store the top of the stack, which stays there."""
        self.copy_top()
        self.store_fast(name)

    def take_fast(self, name: str) -> None:
        """Push a local variable and unbind it."""
        self.add(*emit.take_fast(name))

    def load_attr(self, name: str) -> None:
        self.add(emit.load_attr(name))

    def store_attr(self, name: str) -> None:
        self.add(emit.store_attr(name))

    def set_on_top(self, name: str, value: VariableTracker) -> None:
        """Set an attribute of the object on top of the stack, which stays there."""
        self.copy_top()
        self.load(value)
        self.swap()
        self.store_attr(name)

    def delete_attr(self, name: str) -> None:
        self.add(emit.delete_attr(name))

    def store_subscr(self) -> None:
        self.add(emit.store_subscript())

    def binary_op(self, symbol: str) -> None:
        self.add(emit.binary_op(symbol))

    def push_null(self) -> None:
        self.add(emit.push_null())

    def pop_top(self) -> None:
        self.add(emit.pop_top())

    def copy_top(self) -> None:
        self.add(emit.copy_top())

    def swap(self) -> None:
        self.add(emit.swap())

    def build(self, kind: str, count: int) -> None:
        self.add(emit.build(kind, count))

    def _call(self, count: int, names: tuple[str, ...] = ()) -> None:
        self.add(*emit.call(count, names))

    def call(self, function: object, args: Sequence[Load]) -> None:
        """Call a constant."""
        self.call_named(function, args, {})

    def call_named(self, function: object, args: Sequence[Load], kwargs: dict[str, Load]) -> None:
        self.add(*emit.callee([emit.load_const(function)]))
        for load in (*args, *kwargs.values()):
            load()
        self._call(len(args) + len(kwargs), tuple(kwargs))

    def finish_call(self, args: Sequence[Load]) -> None:
        """Call the function on top of the stack."""
        self.add(*emit.top_as_callee())
        for load in args:
            load()
        self._call(len(args))

    def call_with_pair(self, function: object) -> None:
        """Replace the two values on top of the stack by ``function(one, other)``."""
        one, other = self._passing_temp("one"), self._passing_temp("other")
        self.store_fast(other)
        self.store_fast(one)
        self.call(function, [lambda: self.load_fast(one), lambda: self.load_fast(other)])

    def call_for_effect(self, function: object, args: Sequence[Load]) -> None:
        """Call a function and drop its result."""
        self.call(function, args)
        self.pop_top()

    def call_with_top(self, function: object, args: Sequence[Load]) -> None:
        """Call ``function(top, *args)`` for its effect. The top of the stack stays."""
        held = self._passing_temp("held")
        self.store_copy(held)
        self.call_for_effect(function, [lambda: self.load_fast(held), *args])

    def call_method_of_top(self, name: str) -> None:
        """Replace the top of the stack by the result of its method."""
        self.load_attr(name)
        self.finish_call([])

    # -- values ----------------------------------------------------------------------------------------------------

    def load(self, tracker: VariableTracker) -> None:
        """Push the value."""
        tracker = tracker.known()
        if isinstance(tracker, LazyVariable):
            self.load_source(tracker.source)
            return
        if isinstance(tracker, ConstantVariable):
            self._load_constant(tracker)
            return
        kept = self._temps.get(tracker)
        if kept is not None:
            self.load_fast(kept)
        elif tracker.source is not None and not tracker.is_loaded_as_constant:
            self.load_source(tracker.source)
        else:
            self._create(tracker)

    def _load_constant(self, tracker: ConstantVariable) -> None:
        """Push a constant. The program may compare constants by ``is``, and guards are on their values only. So an
        existing constant is loaded from its source, and a computed one is a new object."""
        source, value = tracker.source, tracker.value
        if source is not None and source.kind == "local":
            self.load_source(source)
        elif type(value) not in _NEW_OBJECTS:
            self.load_const(value) if source is None else self.load_source(source)
        elif _is_one_object(value):
            self.load_const(value)
        else:
            source = source or self.attempt.values.source_of_constant(value)
            self._load_computed(value) if source is None else self.load_source(source)

    def _load_computed(self, value: Any) -> None:
        """Push a new object that equals the constant, the same one each time."""
        kept = self._computed.get(id(value))
        if kept is not None:
            self.load_fast(kept[1])
            return
        if isinstance(value, (str, bytes)):
            self.load_const(value[:1])
            self.load_const(value[1:])
            self.binary_op("+")
        else:
            self.load_const(-value)
            self.add(emit.negate())
        name = self.temp("constant")
        self._computed[id(value)] = value, name
        self.store_copy(name)

    def has_made(self, tracker: VariableTracker) -> bool:
        """Whether the code so far creates the object and keeps it."""
        return tracker in self._temps

    def note_recreated(self, tracker: VariableTracker) -> None:
        """Note that the resume function recreates the object (see `IteratorRecipes`)."""
        self._recreated.add(tracker)

    def survives_break(self, tracker: VariableTracker) -> bool:
        """Whether the object survives the break, or is recreated after it."""
        return tracker in self._temps or tracker in self._recreated

    def _create(self, tracker: VariableTracker) -> None:
        self.attempt.effects.shared_results.check_is_only_read(tracker)
        instance = getattr(tracker, "instance", None)
        if instance is not None:  # a view or an iterator of the instance's items
            self.load(instance)
            return
        try:
            tracker.reconstruct(self)
        except NotConstant:
            self.cannot_create(tracker)
        if tracker in self._temps:
            if tracker not in self._filled:  # it refers to itself: loading its items created it meanwhile
                self.pop_top()
                self.load_fast(self._temps[tracker])
        elif tracker not in self.outputs and not tracker.is_created_per_load and not tracker.is_loaded_as_constant:
            name = self._temps[tracker] = self.temp()
            self.store_copy(name)

    def cannot_create(self, tracker: VariableTracker) -> NoReturn:
        """Let CPython create a value that survives the graph."""
        let_cpython_create(self.attempt, tracker)

    def drop_temporaries(self) -> None:
        """Unbind the locals that keep values for further loads: they don't prolong any object's life, and code that
        reads the frame's variables by name doesn't see them. Some may be unbound already, by a branch."""
        computed = [name for _, name in self._computed.values()]
        names = [*self._temps.values(), *computed, *self.outputs.values(), *self._created.values(), *self._passing]
        if self.attempt.guards.captured:
            names.append(_C.CAPTURED_NAME)
        for name in names:
            self.load_const(None)
            self.store_fast(name)
            self.add(emit.delete_fast(name))

    def load_tuple(self, trackers: Sequence[VariableTracker]) -> None:
        for tracker in trackers:
            self.load(tracker)
        self.build("TUPLE", len(trackers))

    def make_then_fill(self, tracker: VariableTracker, new: Load, fill: Callable[[Codegen], None]) -> None:
        """Create an empty object, keep it, then fill it: so it may contain itself."""
        name = self.temp()
        new()
        if tracker in self._temps:  # what it is created from refers to it, and created it meanwhile
            self.pop_top()
            self.load_fast(self._temps[tracker])
            return
        self._temps[tracker] = name
        self._filled.add(tracker)
        self.store_copy(name)
        fill(self)

    def load_source(self, source: Source | None) -> None:
        """Reload a value: an argument, a constant, or a value that the guard check captured."""
        assert source is not None
        if source.kind == "local":
            self.load_fast(source.arg)
        elif source.kind == "const":
            self.load_const(source.arg)
        else:
            index = self.attempt.guards.capture(source)
            self.load_fast(_C.CAPTURED_NAME)
            self.load_const(index)
            self.add(emit.subscript())

    def graph_output(self, tensor: TensorVariable) -> None:
        """Push a tensor that the graph computes, not one of a function that an operator runs."""
        graph, first_freed_at = self.attempt.graph, self.attempt.provenance.first_freed_at(tensor.fake)
        if first_freed_at:  # break before the call that frees its history: CPython makes that call
            self.attempt.provenance.created(tensor, first_freed_at)
        if first_freed_at or not graph.may_be_output(tensor.fake):
            let_cpython_create(self.attempt, tensor)
        if graph.is_shared(tensor.fake):
            let_cpython_create(self.attempt, graph.shared_by)
        if step := _hooked_at(self.attempt.provenance.hooked_views, tensor):
            raise Restart(MadeByCPython(step, False, HookNotTraced("a hook of a view", "the view leaves the graph")))
        self.graph_result(tensor)

    def graph_result(self, value: TensorVariable | SymNodeVariable) -> None:
        """Push a tensor or number that the graph computes."""
        if value.node.graph is not self.attempt.graph.graph:
            let_cpython_create(self.attempt, value)
        unused = self.attempt.graph.unused_input(value.node)
        if unused is not None:
            self._load_input(unused)
            return
        name = self.outputs.get(value)
        if name is None:
            name = self.outputs[value] = self.temp("output")
        self.load_fast(name)

    def load_made(self, node: torch.fx.Node) -> None:
        """Push a tensor that is created before the graph."""
        if node not in self._created:
            self._created[node] = self.temp("created")
        self.load_fast(self._created[node])

    def replay_effects(self) -> None:
        """Emit the side effects of the frame: stores to objects, then to globals, then the noted events."""
        effects = self.attempt.effects
        for tracker in effects.changed_trackers:
            self._replay(tracker)
        for (scope, name), value in effects.written_globals.items():
            key = [functools.partial(self.load_const, each) for each in (scope.namespace, name)]
            if value is None:  # deleted; it may never have existed outside of the trace
                self.call_for_effect(dict.pop, [*key, functools.partial(self.load_const, None)])
            else:
                self.load(value)
                for load in key:
                    load()
                self.store_subscr()
        for event in effects.noted:
            event.replay(self)

    def replay_once(self, tracker: VariableTracker) -> None:
        """Emit the pending stores to an object now: the code that follows creates a value from its new state."""
        if tracker in self.attempt.effects.changed_trackers:
            self._replay(tracker)

    def _replay(self, tracker: VariableTracker) -> None:
        if tracker not in self._replayed:
            self._replayed.add(tracker)
            try:
                tracker.replay(self)
            except NotConstant:
                let_cpython_create(self.attempt, tracker)

    # -- torch's state ---------------------------------------------------------------------------------------------

    def set_grad_mode(self, mode: bool) -> None:
        """Set the thread's grad mode, unless it is this one. (The graph restores the mode that it is called in.)"""
        if self.grad_mode is None:
            self.grad_mode = self.attempt.torch_state.initial_grad_mode
        if self.grad_mode != mode:
            self.call_for_effect(torch._C._set_grad_enabled, [lambda: self.load_const(mode)])
            self.grad_mode = mode

    def expect_grad_mode(self, before: bool, after: bool) -> None:
        """Set the grad mode that a context manager saves. Entering it, which comes next, sets the mode ``after``."""
        self.set_grad_mode(before)
        self.grad_mode = after

    # -- the whole -------------------------------------------------------------------------------------------------

    def finish(
        self,
        graph_call: _C.GraphCall | None,
        tensors: list[GraphInput],
        positions: Positions | None,
        failed: list[Instruction],
        hook_is_off: bool = False,
    ) -> list[Instruction]:
        """The new code: prologue, calls before the graph, created tensors, graph call, body. ``failed``: the handler
        around the graph call; if empty, its errors leave the frame. ``hook_is_off``: while the code runs."""
        if graph_call is None and self.outputs:
            raise InternalError("the new code uses results of a graph that is empty")
        wrong: list[Instruction] = []
        with self._apart() as before:
            self.add(*emit.prologue(len(self.code.co_freevars)))
            self._call_before_graph()
            self._create_tensors()
        with self._apart() as call:
            if graph_call is None:
                failed = []
            elif hook_is_off and self.outputs and not (graph_call.captured or graph_call.keeps_state):
                wrong = self._call_directly(graph_call, tensors)
            else:
                self._call_graph(graph_call, tensors)
        if failed:
            handler = Handler(failed[0], 0, False)
            for instruction in call:
                instruction.handler = handler
        with self._apart() as released:
            self._release_streams([*self.outputs.values()])
        code = [*before, *call, *released, *self.body, *failed, *wrong]
        for instruction in code:
            if instruction.positions is None:
                instruction.positions = positions
        return code

    @contextlib.contextmanager
    def _apart(self) -> Iterator[list[Instruction]]:
        """Collect the instructions that are emitted inside, instead of adding them to the body."""
        body, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = body

    def random_state_restores(self) -> list[Instruction]:
        """Restore the states of torch's random number generators from before the frame's calls."""
        with self._apart() as code:
            for each in reversed(self.attempt.before_graph.calls):
                each.emit_undo(self)
        return code

    def _call_before_graph(self) -> None:
        """Make the calls before the graph. The caller's stream waits for those that the program uses inside of it."""
        for source in self.attempt.streams.streams:
            self.call_for_effect(wait_for, [functools.partial(self.load_source, source)])
        for each in self.attempt.before_graph.calls:
            each.emit(self)

    def _release_streams(self, results: Sequence[str]) -> None:
        """After the graph: those streams wait for the caller's. ``results``: the local variables with the graph's."""
        loads = [functools.partial(self.load_fast, name) for name in results]
        for source in self.attempt.streams.streams:
            self.call_for_effect(release, [functools.partial(self.load_source, source), *loads])

    def _create_tensors(self) -> None:
        """Create the tensors that the graph takes or the body loads; first those with the data of an existing tensor,
        since creating the others may replace that tensor's data."""
        for node, each in sorted(self.attempt.graph.made.items(), key=lambda pair: not pair[1].is_of_before):
            if node in self._created:
                loads = [] if each.given is None else [functools.partial(self.load_source, each.given)]
                self.call(each.make, loads)
                self.store_fast(self._created[node])

    def put_back(self) -> list[Instruction]:
        """Undo the changes to existing tensors that were made before the graph."""
        with self._apart() as code:
            for node, each in self.attempt.graph.made.items():
                if node in self._created and each.is_thawed:
                    self.call_for_effect(frozen, [functools.partial(self.load_fast, self._created[node])])
            for source, (before, cls) in self.attempt.graph.replaced.items():
                data = functools.partial(self.load_fast, self._created[before])
                loads = [functools.partial(self.load_const, cls), functools.partial(self.load_source, source), data]
                self.call_for_effect(with_data, loads)
            self._release_streams([])
        return code

    def _load_input(self, given: GraphInput) -> None:
        load = functools.partial(self.load_source, given.source)
        if given.formula is not None:
            load = functools.partial(load_formula, self, given.formula)
        if given.make is not None:
            self.load_fast(self._created[given.node])
        elif given.convert is not None:
            self.call(given.convert, [load])
        else:
            load()

    def _call_graph(self, graph_call: _C.GraphCall, tensors: list[GraphInput]) -> None:
        loads: list[Load] = [functools.partial(self.load_fast, _C.CAPTURED_NAME)] if graph_call.captured else []
        loads += [functools.partial(self._load_input, each) for each in tensors if not each.captured]
        self.call(graph_call, loads)
        if self.outputs:
            self.add(*self._unpack_outputs())
        else:
            self.pop_top()

    def _call_directly(self, graph_call: _C.GraphCall, tensors: list[GraphInput]) -> list[Instruction]:
        """Call the backend's callable without `GraphCall`. Returns the branch for a result of another length."""
        self.call(graph_call.fn, [functools.partial(self._load_input, each) for each in tensors])
        unpack = self._unpack_outputs()
        report = emit.call_function(graph_call.wrong, [[emit.load_fast(_RESULTS)]])
        wrong = [emit.store_fast(_RESULTS), *report, emit.jump(unpack[0])]
        self.add(emit.is_sequence(), emit.jump_if_false(wrong[0]), emit.length())
        self.add(emit.load_const(len(self.outputs)), emit.compare("=="), emit.jump_if_false(wrong[0]))
        self.add(*unpack)
        return wrong

    def _unpack_outputs(self) -> list[Instruction]:
        return [emit.unpack(len(self.outputs)), *map(emit.store_fast, self.outputs.values())]


def _is_one_object(value: object) -> bool:
    """Whether equal constants are one object in CPython: small integers, short strings and interned ones."""
    if type(value) is int:
        return value in _SMALL_INTEGERS
    if type(value) is str:
        return len(value) < 2 or sys.intern(value[:1] + value[1:]) is value
    return type(value) is bytes and len(value) < 2
