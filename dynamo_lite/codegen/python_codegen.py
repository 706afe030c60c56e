"""Records to bytecode: call the graph, replay the side effects, load values."""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from dynamo_lite import _C
from dynamo_lite.bytecode import Handler, Instruction, emit
from dynamo_lite.exc import InternalError
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import UnreconstructableValue
from dynamo_lite.records.graph import GraphInput
from dynamo_lite.records.restart import MadeByCPython, Restart
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.graph_functions import frozen, with_data
from dynamo_lite.shapes.python_random import emit_state_restores, emit_state_saves
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.variables.core.base import LazyVariable, NotConstant, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt
from dynamo_lite.variables.python.numbers.symbolic import load_formula

Load = Callable[[], None]
_RESULTS = "___results"
_MADE_ANEW = frozenset({int, float, complex, str, bytes})
"""Types of constants of which CPython makes an object each time that it computes one."""
_SMALL_INTEGERS = range(-5, 257)


def unreconstructable(attempt: Any, tracker: VariableTracker, reason: BreakReason | None = None) -> NoReturn:
    """A value survives the graph that generated code can't make: in the next attempt CPython creates it."""
    provenance = attempt.provenance
    why = UnreconstructableValue(tracker.describe()) if reason is None else reason
    raise Restart(MadeByCPython(provenance.step_of(tracker), provenance.is_created_leaf(tracker), why))


class PyCodegen:
    """Emits the part of a frame's new code that comes after the graph call; `finish` puts prologue and call in front.

    ``load`` leaves a value on the stack and makes each object once: a value that was made inside is kept in a local
    variable, so that what was one object in the program is one object again.
    """

    def __init__(self, attempt: Attempt, code: types.CodeType) -> None:
        self.attempt = attempt
        self.code = code
        self.body: list[Instruction] = []
        self.outputs: dict[Any, str] = {}
        """Tensors that the graph must return -> the local they are kept in."""
        self._temps: dict[VariableTracker, str] = {}
        self._computed: dict[int, tuple[Any, str]] = {}
        """id of a constant that the trace computed -> the constant, and the local that a new one is kept in."""
        self._filled: set[VariableTracker] = set()
        """Those made by `make_then_fill`."""
        self._recreated: set[VariableTracker] = set()
        self._count = 0
        made = [each.node for each in attempt.graph.inputs if each.make]
        made += [before for before, _ in attempt.graph.replaced.values()]
        owned = [each for each in attempt.graph.made.values() if each.of is not None]  # to make one changes a tensor
        made += [node for each in owned for node in (each.of.node, each.node) if node in attempt.graph.made]
        self._made: dict[Any, str] = {node: self.temp("made") for node in made}
        """Placeholders of what is made before the graph -> the local it is kept in."""
        self.grad_mode: bool | None = None

    # -- instructions ----------------------------------------------------------------------------------------------

    def add(self, *instructions: Instruction) -> None:
        self.body.extend(instructions)

    def op(self, opname: str, arg: Any = None) -> None:
        self.body.append(emit.make(opname, arg))

    def temp(self, hint: str = "value") -> str:
        self._count += 1
        return f"___{hint}{self._count}"

    def load_const(self, value: Any) -> None:
        if isinstance(value, SYMBOLIC):
            raise InternalError(f"the new code would hold {value!r}, which stands for another number in each call")
        self.add(emit.load_const(value))

    def load_fast(self, name: str) -> None:
        self.add(emit.load_fast(name))

    def store_fast(self, name: str) -> None:
        self.add(emit.store_fast(name))

    def load_attr(self, name: str) -> None:
        self.add(emit.load_attr(name))

    def store_attr(self, name: str) -> None:
        self.add(emit.store_attr(name))

    def set_on_top(self, name: str, value: VariableTracker) -> None:
        """Set an attribute of what is on top, which stays there."""
        self.copy_top()
        self.load(value)
        self.swap()
        self.store_attr(name)

    def delete_attr(self, name: str) -> None:
        self.op("DELETE_ATTR", name)

    def store_subscr(self) -> None:
        self.add(emit.store_subscr())

    def binary_op(self, symbol: str) -> None:
        self.add(emit.binary_op(symbol))

    def push_null(self) -> None:
        self.add(emit.push_null())

    def pop_top(self) -> None:
        self.add(emit.pop_top())

    def copy_top(self) -> None:
        self.add(emit.copy_top(1))

    def swap(self) -> None:
        self.add(emit.swap(2))

    def build(self, kind: str, count: int) -> None:
        self.add(emit.build(kind, count))

    def _call(self, count: int, names: tuple[str, ...] = ()) -> None:
        self.add(*emit.call(count, names))

    def call(self, function: Any, args: Sequence[Load]) -> None:
        """Call a known object."""
        self.call_named(function, args, {})

    def call_named(self, function: Any, args: Sequence[Load], kwargs: dict[str, Load]) -> None:
        self.push_null()
        self.load_const(function)
        for load in (*args, *kwargs.values()):
            load()
        self._call(len(args) + len(kwargs), tuple(kwargs))

    def finish_call(self, args: Sequence[Load]) -> None:
        """NULL and a function are on the stack: call it."""
        for load in args:
            load()
        self._call(len(args))

    def call_with_pair(self, function: Any) -> None:
        """``function(one, other)`` of the two values on top of the stack, in their place."""
        names = self.temp("other"), self.temp("one")
        for name in names:
            self.store_fast(name)
        self.call(function, [functools.partial(self.load_fast, name) for name in reversed(names)])

    def call_with_top(self, function: Any, args: Sequence[Load]) -> None:
        """``function(top, *args)`` for its effect; the top of the stack stays."""
        held = self.temp("held")
        self.copy_top()
        self.store_fast(held)
        self.call(function, [lambda: self.load_fast(held), *args])
        self.pop_top()

    def call_method_of_top(self, name: str) -> None:
        """Replace the top of the stack by what its method returns."""
        self.load_attr(name)
        self.push_null()
        self.swap()
        self._call(0)

    def delete_from(self, namespace: dict[str, Any], name: str) -> None:
        """Whether it was there before or not: the program may have put it there."""
        self.call(
            dict.pop, [lambda: self.load_const(namespace), lambda: self.load_const(name), lambda: self.load_const(None)]
        )
        self.pop_top()

    def store_into(self, namespace: dict[str, Any], name: str) -> None:
        """The value is on the stack."""
        self.load_const(namespace)
        self.load_const(name)
        self.store_subscr()

    # -- values ----------------------------------------------------------------------------------------------------

    def load(self, tracker: VariableTracker) -> None:
        """Leave the value on the stack."""
        if isinstance(tracker, LazyVariable):
            if not tracker.is_realized:
                self.load_source(tracker.source)
                return
            tracker = tracker.realize()
        if isinstance(tracker, ConstantVariable):
            self._load_constant(tracker)
            return
        kept = self._temps.get(tracker)
        if kept is not None:
            self.load_fast(kept)
        elif tracker.source is not None and not tracker.is_loaded_as_constant:
            self.load_source(tracker.source)
        else:
            self._make(tracker)

    def _load_constant(self, tracker: ConstantVariable) -> None:
        """The program may hold constants against each other by ``is``, of which the guard on a value says nothing. So
        what was found is loaded from where it is, what was computed is a new object."""
        source, value = tracker.source, tracker.value
        if source is not None and source.kind == "local":
            self.load_fast(source.arg)
        elif type(value) not in _MADE_ANEW:
            self.load_const(value) if source is None else self.load_source(source)
        elif _is_one_object(value):
            self.load_const(value)
        else:
            source = source or self.attempt.values.source_of_constant(value)
            self._load_computed(value) if source is None else self.load_source(source)

    def _load_computed(self, value: Any) -> None:
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
            self.op("UNARY_NEGATIVE")
        name = self.temp("constant")
        self._computed[id(value)] = value, name
        self.copy_top()
        self.store_fast(name)

    def keep(self, tracker: VariableTracker, name: str) -> None:
        """The object is in a local before the body begins."""
        self._temps[tracker] = name

    def has_made(self, tracker: VariableTracker) -> bool:
        """Whether the code so far makes the object and keeps it."""
        return tracker in self._temps

    def note_recreated(self, tracker: VariableTracker) -> None:
        """Note that the resume function recreates the object (see `IteratorRecipes`)."""
        self._recreated.add(tracker)

    def lives_on(self, tracker: VariableTracker) -> bool:
        """Whether the object survives the break, or is recreated after it."""
        return tracker in self._temps or tracker in self._recreated

    def _make(self, tracker: VariableTracker) -> None:
        try:
            tracker.reconstruct(self)
        except NotConstant:
            unreconstructable(self.attempt, tracker)
        if tracker in self._temps:
            if tracker not in self._filled:  # it is a part of its own parts, which have made it meanwhile
                self.pop_top()
                self.load_fast(self._temps[tracker])
        elif tracker not in self.outputs and not tracker.is_loaded_anew and not tracker.is_loaded_as_constant:
            name = self._temps[tracker] = self.temp()
            self.copy_top()
            self.store_fast(name)

    def drop_temporaries(self) -> None:
        """Values that were kept to be loaded again: all loads are done, nothing of them is to live longer by that."""
        computed = [name for _, name in self._computed.values()]
        for name in (*self._temps.values(), *computed, *self.outputs.values(), *self._made.values()):
            self.load_const(None)
            self.store_fast(name)

    def load_tuple(self, trackers: Sequence[VariableTracker]) -> None:
        for tracker in trackers:
            self.load(tracker)
        self.build("TUPLE", len(trackers))

    def make_then_fill(self, tracker: VariableTracker, new: Load, fill: Callable[[PyCodegen], None]) -> None:
        """Make an empty object, keep it, then fill it: so it may contain itself."""
        name = self.temp()
        new()
        if tracker in self._temps:  # it is a part of the parts it is made from, which have made it meanwhile
            self.pop_top()
            self.load_fast(self._temps[tracker])
            return
        self._temps[tracker] = name
        self._filled.add(tracker)
        self.copy_top()
        self.store_fast(name)
        fill(self)

    def load_source(self, source: Source | None) -> None:
        """Reload a value: an argument as it came, a constant, or what the guard check captured."""
        assert source is not None
        if source.kind == "local":
            self.load_fast(source.arg)
        elif source.kind == "const":
            self.load_const(source.arg)
        else:
            index = self.attempt.guards.capture(source)
            self.load_fast(_C.CAPTURED_NAME)
            self.load_const(index)
            self.op("BINARY_SUBSCR")

    def graph_output(self, tensor: Any) -> None:
        """A tensor that the graph computes (and no function that one of its operators runs)."""
        graph, first_freed_at = self.attempt.graph, self.attempt.provenance.first_freed_at(tensor.fake)
        if first_freed_at:  # CPython is to make that call
            self.attempt.provenance.created(tensor, first_freed_at)
        if first_freed_at or not graph.may_be_output(tensor.fake):
            unreconstructable(self.attempt, tensor)
        if graph.is_shared(tensor.fake):
            unreconstructable(self.attempt, graph.shared_by)
        self.graph_result(tensor)

    def graph_result(self, value: Any) -> None:
        """A tensor or number that the graph computes."""
        if value.node.graph is not self.attempt.graph.graph:
            unreconstructable(self.attempt, value)
        given = self.attempt.graph.unused_input(value.node)
        if given is not None:
            self.add(*self._load_input(given))
            return
        name = self.outputs.get(value)
        if name is None:
            name = self.outputs[value] = self.temp("output")
        self.load_fast(name)

    def load_made(self, node: Any) -> None:
        """A tensor that is made before the graph."""
        if node not in self._made:
            self._made[node] = self.temp("made")
        self.load_fast(self._made[node])

    # -- torch's state ---------------------------------------------------------------------------------------------

    def set_grad_mode(self, mode: bool) -> None:
        """The thread's grad mode, where it isn't that already. The graph leaves it as it found it."""
        if self.grad_mode is None:
            self.grad_mode = self.attempt.torch_state.initial_grad_mode
        if self.grad_mode != mode:
            self.call(torch._C._set_grad_enabled, [lambda: self.load_const(mode)])
            self.pop_top()
            self.grad_mode = mode

    def expect_grad_mode(self, before: bool, after: bool) -> None:
        """A context is entered next that expects one mode and sets another."""
        self.set_grad_mode(before)
        self.grad_mode = after

    # -- the whole -------------------------------------------------------------------------------------------------

    def finish(
        self,
        graph_call: _C.GraphCall | None,
        tensors: list[GraphInput],
        positions: Any,
        failed: list[Instruction],
        nobody_compiles: bool = False,
    ) -> list[Instruction]:
        """The new code: prologue, what comes before the graph, its call with results in locals, body. ``failed``: where
        the call raises to; if empty, out of the frame. ``nobody_compiles``: the hook is off while the code runs."""
        prologue = [*emit.prologue((), len(self.code.co_freevars)), *self._draw(bool(failed))]
        code: list[Instruction] = []
        wrong: list[Instruction] = []
        if graph_call is not None:
            if nobody_compiles and self.outputs and not (graph_call.captured or graph_call.keeps_state):
                call, wrong = self._direct_call(graph_call, tensors)
            else:
                call = self._graph_call(graph_call, tensors)
            if failed:
                handler = Handler(failed[0], 0, False)
                for instruction in call:
                    instruction.handler = handler
            code.extend(call)
        elif self.outputs:
            raise InternalError("the new code uses results of a graph that is empty")
        code = [*prologue, *self._make_tensors(), *code, *self.body]
        if graph_call is not None:
            code.extend([*failed, *wrong])
        for instruction in code:
            if instruction.positions is None:
                instruction.positions = positions
        return code

    def _draw(self, keeps_states: bool) -> list[Instruction]:
        """Draw the random numbers, which may have to be drawn again."""
        draws = self.attempt.before_graph.draws
        kept = self._emitted(lambda: emit_state_saves(self, draws)) if keeps_states else []
        drawn = [self._emitted(functools.partial(each.emit, self, load_formula)) for each in draws]
        return [*kept, *itertools.chain.from_iterable(drawn)]

    def random_state_restores(self) -> list[Instruction]:
        """What has the same random numbers drawn again."""
        return self._emitted(lambda: emit_state_restores(self, self.attempt.before_graph.draws))

    def _make_tensors(self) -> list[Instruction]:
        """Those that the graph takes, or the body loads."""
        found: list[Instruction] = []
        made = self.attempt.graph.made.items()
        for node, given in sorted(made, key=lambda pair: not pair[1].is_of_before):  # as others may get these data
            if node in self._made:
                args = [] if given.given is None else [self._emitted(functools.partial(self.load_source, given.given))]
                args += [] if given.of is None else [self._load_input(given.of)]
                found += [*emit.call_function([emit.load_const(given.make)], args), emit.store_fast(self._made[node])]
        return found

    def put_back(self) -> list[Instruction]:
        """Tensors that were changed before the graph are as they were again."""
        found: list[Instruction] = []
        for node, given in self.attempt.graph.made.items():
            if node in self._made and given.is_thawed:
                call = emit.call_function([emit.load_const(frozen)], [[emit.load_fast(self._made[node])]])
                found += [*call, emit.pop_top()]
        for source, (before, cls) in self.attempt.graph.replaced.items():
            tensor = self._emitted(functools.partial(self.load_source, source))
            args = [[emit.load_fast(self._made[before])], [emit.load_const(cls)], tensor]
            found += [*emit.call_function([emit.load_const(with_data)], args), emit.pop_top()]
        return found

    def _emitted(self, load: Load) -> list[Instruction]:
        """What a loader adds to the body, apart from it."""
        body, self.body = self.body, []
        try:
            load()
            return self.body
        finally:
            self.body = body

    def _load_input(self, given: GraphInput) -> list[Instruction]:
        formula = given.formula
        if given.make is not None:
            return [emit.load_fast(self._made[given.node])]
        if formula is not None:
            load = self._emitted(lambda: load_formula(self, formula))
        elif given.source.kind == "local":
            load = [emit.load_fast(given.source.arg)]
        else:
            index = self.attempt.guards.capture(given.source)
            load = [emit.load_fast(_C.CAPTURED_NAME), emit.load_const(index), emit.make("BINARY_SUBSCR")]
        if given.convert is None:
            return load
        return [emit.push_null(), emit.load_const(given.convert), *load, *emit.call(1, ())]

    def _graph_call(self, graph_call: _C.GraphCall, tensors: list[GraphInput]) -> list[Instruction]:
        captured = sum(each.captured for each in tensors)
        found = [emit.push_null(), emit.load_const(graph_call)]
        if graph_call.captured:
            found.append(emit.load_fast(_C.CAPTURED_NAME))
        for each in tensors[captured:]:
            found.extend(self._load_input(each))
        found.extend(emit.call(len(tensors) - captured + bool(graph_call.captured), ()))
        if not self.outputs:
            return [*found, emit.pop_top()]
        return [*found, *self._store_outputs()]

    def _direct_call(
        self, graph_call: _C.GraphCall, tensors: list[GraphInput]
    ) -> tuple[list[Instruction], list[Instruction]]:
        """The call of the backend's callable itself, and where it goes with a result that is none of the graph's."""
        found = [emit.push_null(), emit.load_const(graph_call.fn)]
        for each in tensors:
            found.extend(self._load_input(each))
        found.extend(emit.call(len(tensors), ()))
        unpack = self._store_outputs()
        wrong = [emit.store_fast(_RESULTS), emit.push_null(), emit.load_const(graph_call.wrong)]
        wrong += [emit.load_fast(_RESULTS), *emit.call(1, ()), emit.jump(unpack[0])]
        found += [emit.make("MATCH_SEQUENCE"), emit.jump_if_false(wrong[0]), emit.make("GET_LEN")]
        found += [emit.load_const(len(self.outputs)), emit.compare_op("=="), emit.jump_if_false(wrong[0])]
        return [*found, *unpack], wrong

    def _store_outputs(self) -> list[Instruction]:
        return [emit.unpack(len(self.outputs)), *map(emit.store_fast, self.outputs.values())]


def _is_one_object(value: Any) -> bool:
    """Whether equal constants are one object in CPython: small integers, short texts and interned ones."""
    if type(value) is int:
        return value in _SMALL_INTEGERS
    if type(value) is str:
        return len(value) < 2 or sys.intern(value[:1] + value[1:]) is value
    return type(value) is bytes and len(value) < 2
