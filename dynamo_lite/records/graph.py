"""The FX graph of one attempt: its placeholders, the operators recorded in it, and what it writes into."""

from __future__ import annotations

import contextlib
import functools
import logging
import operator
import threading
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.amp import autocast_mode

from dynamo_lite import _C, config
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import DataDependentValue, EffectInOperatorFunction, UnsupportedValue
from dynamo_lite.runtime.graph_functions import (
    call_by_names,
    enter_inference_mode,
    enter_sdpa_kernel,
    plain_tensor,
)
from dynamo_lite.runtime.inner_tensors import is_wrapper
from dynamo_lite.runtime.node_text import is_name, is_text, with_attributes
from dynamo_lite.runtime.shared_memory import (
    all_memory_of,
    memory_of,
    memory_ranges,
    overlap,
    overlaps_itself,
)
from dynamo_lite.shapes.expressions import (
    Expression,
    NoProgram,
    Operation,
    Symbol,
    compile_expression,
    hint_of,
    symbolic_shapes,
)
from dynamo_lite.shapes.float_formulas import ComputedInt, Formula
from dynamo_lite.shapes.policy import SymbolicDims
from dynamo_lite.shapes.symbols import Symbols
from dynamo_lite.sources.source import Source

from .captured_warnings import CAPTURED_WARNINGS
from .fakes import fake_mode, fake_of, uncounted_writes
from .node_origin import NodeMeta, NodeOrigin
from .subgraphs import Runs, Scope, forget_source_with

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


_STATE_CHANGERS = frozenset(
    {torch._C._set_grad_enabled, autocast_mode._enter_autocast, enter_inference_mode, enter_sdpa_kernel}
)


float_tensor = functools.partial(torch.scalar_tensor, dtype=torch.float64, device="cpu")
"""Makes the tensor of a float input. Implemented in C, since it runs before each call of the graph."""


def tensor_of_scalar(value: Any) -> torch.Tensor:
    """A tensor with a copy of a numpy scalar."""
    return torch.from_numpy(value.reshape(1).reshape(()))


@dataclass
class GraphInput:
    """A placeholder: where a call gets its value, the value during tracing, and its fake tensor or symbol.

    The value is a tensor, or an integer."""

    source: Source
    value: Any
    node: torch.fx.Node
    fake: Any
    convert: Callable[[Any], torch.Tensor] | None = None
    """Converts the value at the source to the tensor; None: it is the tensor."""
    formula: Formula | None = None
    """Computes it from several sources, of which ``source`` is the first; None: it is the value at the source."""
    is_thawed: bool = False
    """Whether it is an existing leaf that requires gradients only after the program sets ``requires_grad``."""
    step: int = 0
    """The root's step at which it was added."""
    is_part: bool = False
    """Whether it is an inner tensor of another input."""

    @property
    def captured(self) -> bool:
        """Whether a call passes it as the guard check captured it."""
        is_unchanged = self.convert is None and self.formula is None and not self.is_thawed
        return is_unchanged and self.source.kind != "local"

    @property
    def stays_in_place(self) -> bool:
        """Whether its address rarely changes: a module's parameter or buffer, or marked by `mark_static_address`."""
        if self.convert is not None or self.is_thawed:
            return False
        holder = self.source.parent
        if holder is not None and holder.kind == self.source.kind == "dict_item":
            if holder.arg in ("_parameters", "_buffers"):
                return True
        return "_dynamo_static_input_type" in vars(self.value)

    @property
    def is_array(self) -> bool:
        """Whether it has the memory of a numpy array, or the value of a numpy scalar."""
        return self.convert in (torch.from_numpy, tensor_of_scalar)

    @property
    def may_share_memory(self) -> bool:
        """Whether it may share memory with anything: it is converted from an object that is no tensor."""
        has_known_memory = self.convert in (None, plain_tensor) or self.is_array
        return not has_known_memory and self.formula is None

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.fake, torch.Tensor)

    @property
    def example(self) -> Any:
        """The example input for the backend."""
        return self.value if self.is_tensor else self.fake


_tracing = threading.local()


def _is_not_tracing(record: logging.LogRecord) -> bool:
    """Drop torch's log message for each operator that fails on fakes: while tracing, the error becomes a break reason
    or an exception of the program."""
    return not getattr(_tracing, "on", False)


logging.getLogger(FakeTensorMode.__module__).addFilter(_is_not_tracing)


DENSE, OVERLAPS = 0, 1
"""MemOverlap::No and ::Yes, of ``torch._debug_has_internal_overlap``."""
_COPIED_BYTES = 1 << 20
"""Inputs up to this size are copied before each call at little cost: statistics and counters, not activations."""


def _node_name(target: object) -> str | None:
    """The name that FX derives from a target by a regular expression, without one; None where FX has to derive it."""
    name = target if isinstance(target, str) else getattr(target, "__name__", None)
    return name if isinstance(name, str) and name.islower() and not name.startswith("__") else None


def _is_copyable(given: GraphInput) -> bool:
    """Whether the content of an input can be saved by a copy, and restored by ``copy_``."""
    value = given.value
    is_unconverted = given.convert is None or given.is_array
    plain = is_unconverted and not value.is_inference() and not given.fake.requires_grad
    return plain and not is_wrapper(value) and torch._debug_has_internal_overlap(given.fake) != OVERLAPS


def _shape_env(of_data: bool) -> ShapeEnv:
    """``of_data``: numbers read from tensors, and sizes that depend on data, are symbols."""
    # duck_shape=False: sizes that are equal in this call get different symbols.
    return symbolic_shapes().ShapeEnv(
        allow_scalar_outputs=of_data, allow_dynamic_output_shape_ops=of_data, duck_shape=False
    )


class GraphBuilder:
    """Records operators. Its fake mode is active during the attempt, from the first tensor or operator on."""

    reads_inside = False
    """Whether operators that backends turn into loops read numbers from tensors."""
    origin: Callable[[], NodeOrigin | None] = staticmethod(lambda: None)
    """Where the program is."""

    def __init__(self, captures_data: bool = False) -> None:
        self.captures_data: bool = captures_data or config.in_force("capture_scalar_outputs")
        """Whether numbers read from tensors, and sizes that depend on data, are symbols."""
        self.symbols = Symbols(functools.partial(_shape_env, self.captures_data))
        self._fake_mode: FakeTensorMode | None = None
        self._is_active = False
        self._floats: dict[Formula, GraphInput] = {}
        self._numbers: dict[Any, torch.fx.Node] = {}
        """Expression of symbols -> the node that computes it."""
        self._results: dict[Any, tuple[torch.fx.Node, Any]] = {}
        """Symbol that depends on data -> the node whose result brings it, and the path in that result."""
        self._asserted: set[Expression] = set()
        """Conditions on data that the graph asserts."""
        self._root_scope = self.scope = Scope(torch.is_grad_enabled())
        self.graph = self.scope.graph
        self.inputs: list[GraphInput] = []
        self._unused: dict[torch.fx.Node, GraphInput] = {}
        self._layouts: dict[int, tuple[Any, Any]] = {}
        """id of an input's fake -> its initial shape and strides."""
        self._no_outputs: set[int] = set()
        """Memory that the backward of a Function may write into: its tensors may be no outputs of the graph."""
        self._last_placeholder = self.graph._root  # which all nodes follow
        self.step = 0  # the root's
        self.operators = 0
        """Nodes that are calls."""
        self._written: dict[Source, int] = {}  # with the root's step of the first write
        self._thawed: set[int] = set()  # the real storages of inputs that require gradients only inside
        self.alone: set[Source] = set()
        """Sources of tensors that are not written into, and yet may not share memory with others."""
        self.writes = 0
        """How many operators wrote, or may have written, into tensors."""
        self.fails_handled = False
        """Whether it has runtime assertions, or a failing operator that an exception handler of the program covers."""
        self.may_fail = False
        """Whether it has an operator that may fail, depending on data."""
        self.communicates = False
        """Whether it has a collective: its frame is never run again, since the other processes don't run theirs."""
        self.differentiates = False  # whether it has `torch.autograd.grad`
        self.handled_failure = ""
        """The first operator that may fail and that an exception handler covers; empty: none."""
        self.indexing = 0
        """How many contexts are active in which tensors without dimensions are used as indices."""
        self._root = torch.nn.Module()
        self._modules = 0
        self._attributes = 0

    def input(
        self,
        source: Source,
        value: torch.Tensor,
        convert: Callable[[Any], torch.Tensor] | None = None,
        free: SymbolicDims | None = None,
    ) -> GraphInput:
        """Add a placeholder. Its fake has the value's class, metadata and ``requires_grad``. ``free``: the symbolic
        sizes and strides."""
        fake = self._fake(source, value, free)  # may be refused
        return self._add_input(source, value, fake, convert)

    def input_like(
        self, source: Source, value: torch.Tensor, like: torch.Tensor, free: SymbolicDims | None
    ) -> GraphInput:
        """Add a placeholder with the fake of another tensor (``like``)."""
        fake = self._fake(source, like, free)
        self.fake_mode.fake_tensor_converter.set_tensor_memo(value, fake)  # type: ignore[arg-type]
        return self._add_input(source, value, fake)

    def array(self, source: Source, value: torch.Tensor, free: SymbolicDims) -> GraphInput:
        """Add a placeholder for a numpy array. ``value``: a tensor with its memory."""
        fake = self.symbols.fake_of_array(self.fake_mode, source, value, free)
        return self._add_input(source, value, fake, torch.from_numpy)

    def float(self, formula: Formula) -> GraphInput:
        """The input for a symbolic float: a float64 tensor without dimensions on the CPU."""
        found = self._floats.get(formula)
        if found is None:
            with unset_fake_temporarily():
                value = float_tensor(formula.value)
            fake = self.fake_mode.from_tensor(value, static_shapes=True)
            source = self.symbols.first_source(formula)
            found = self._floats[formula] = self._add_input(source, value, fake, float_tensor, formula)
        return found

    def enable_grad_on_input(self, given: GraphInput) -> None:
        """An existing leaf requires gradients from here on. In the graph it does from the beginning, so operators
        recorded so far get its ``detach()`` instead. Views would require gradients too: no other input may share its
        memory."""
        self.alone.add(given.source)
        self._thawed.add(memory_of(given.value))
        if given.node.users:
            with self.graph.inserting_after(self._last_placeholder):
                data = self.graph.call_method("detach", (given.node,))
            data.meta["example_value"] = given.fake.detach()
            self.operators += 1
            given.node.replace_all_uses_with(data, delete_user_cb=lambda user: user is not data)
        given.fake.requires_grad_()
        given.is_thawed = True
        with unset_fake_temporarily():
            given.value = given.value.detach().requires_grad_()
        self.fake_mode.fake_tensor_converter.set_tensor_memo(given.value, given.fake)

    def may_be_output(self, fake: torch.Tensor) -> bool:
        """Whether a tensor may be an output of the graph."""
        return memory_of(fake) not in self._no_outputs

    def _add_input(
        self, source: Source, value: Any, fake: Any, convert: Any = None, formula: Formula | None = None
    ) -> GraphInput:
        with self.graph.inserting_after(self._last_placeholder):
            name = f"arg{len(self.inputs)}"
            node = self._last_placeholder = self.graph.create_node("placeholder", name, name=name)
        node.meta["example_value"] = fake
        found = GraphInput(source, value, node, fake, convert, formula, step=self.step)
        if found.is_tensor:
            self._layouts[id(fake)] = (fake.shape, fake.stride())
            if found.stays_in_place:
                node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"}  # as AOTAutograd wants it noted
        self.inputs.append(found)
        return found

    def number(self, number: torch.SymInt | torch.SymFloat) -> torch.fx.Node:
        """The node that computes a symbolic number from the inputs.

        Raises:
            NoProgram: the expression has a function that a graph can't compute.
        """
        expression = number.node.expr
        found = self._numbers.get(expression)
        if found is None:
            found = self._numbers[expression] = self._compute(expression)
            found.meta["example_value"] = number
        return found

    def _compute(self, expression: Expression) -> Any:
        """The node that computes an expression of symbols; a number if it has none."""
        stack: list[Any] = []
        for step in compile_expression(expression, lambda symbol: ("node", self._symbol(symbol)), False):
            if isinstance(step, Operation):
                operands = tuple(stack[-step.operands :])
                stack[-step.operands :] = [self.graph.call_function(step.function, operands)]
            else:
                stack.append(step[1])
        (found,) = stack
        return found

    def assert_assumptions(self) -> None:
        """Record assertions of what operators assumed of numbers that depend on data (that two such sizes are equal).
        Where one fails, the frame runs again in eager.

        Raises:
            Unsupported: the graph can't compute such a condition.
        """
        for condition in self.symbols.assumptions():
            if condition in self._asserted or not all(map(self._is_in_root, condition.free_symbols)):
                continue
            try:
                node = self._compute(condition)
            except NoProgram:
                raise Unsupported(DataDependentValue(f"the condition {condition} on numbers of tensors")) from None
            self._assert(condition, node)

    def assert_condition(self, condition: torch.SymBool, node: torch.fx.Node) -> None:
        """Record an assertion of a condition on data, which torch assumes from here on."""
        expression = condition.node.expr
        torch._check(condition)
        if expression not in self._asserted:
            self._assert(expression, node)

    def _assert(self, condition: Expression, node: object) -> None:
        self._asserted.add(condition)
        self.call("call_function", torch.ops.aten._assert_scalar.default, (node, str(condition)), {}, None)
        self.may_fail = True
        if self.can_restore_inputs():
            self.fails_handled = True

    def _is_in_root(self, symbol: Symbol) -> bool:
        """Whether the outermost graph can read a symbol: an operator of it brings it, or a call does. Others are those
        of functions that operators run."""
        found = self._results.get(symbol)
        return symbol in self.symbols.places if found is None else found[0].graph is self.graph

    def _symbol(self, symbol: Symbol) -> torch.fx.Node:
        """The node for a symbol: an input of its own, or a size, stride or offset of an input."""
        if symbol in self._numbers:
            return self._numbers[symbol]
        if symbol in self._results:
            found = self._numbers[symbol] = self._within(*self._results[symbol])
            return found
        place = self.symbols.places[symbol]
        number = self.symbols.number_of(symbol)
        if isinstance(place, ComputedInt):
            source, formula = self.symbols.first_source(place.formula), place.formula
            found = self._add_input(source, formula.value, number, formula=formula).node
        elif place.kind == "int":
            found = self._add_input(place.source, hint_of(number), number).node
        else:
            of = next(each.node for each in self.inputs if each.source is place.source)
            args = (of,) if place.kind == "offset" else (of, place.dim)
            found = self.graph.call_method({"offset": "storage_offset"}.get(place.kind, place.kind), args)
            found.meta["example_value"] = number
        self._numbers[symbol] = found
        return found

    def _within(self, node: torch.fx.Node, path: Any) -> torch.fx.Node:
        """The node at a path (items and methods) in a node's result."""
        for key in path:
            method = getattr(key, "name", None)
            if method is not None:
                node = self.graph.call_method(method, (node,))
            else:
                node = self.graph.call_function(operator.getitem, (node, key.idx))
        return node

    def define(self, node: torch.fx.Node, result: object) -> None:
        """Record the symbols that an operator's result brings, which depend on data."""
        bound = self.symbols.new_in(result)
        if bound:
            node.meta["unbacked_bindings"] = bound
            self._results.update((symbol, (node, path)) for symbol, path in bound.items())

    @property
    def tensors(self) -> list[GraphInput]:
        """The inputs that are tensors."""
        return [each for each in self.inputs if each.is_tensor]

    @property
    def fake_mode(self) -> FakeTensorMode:
        return self.ensure_fake_mode()

    def ensure_fake_mode(self) -> FakeTensorMode:
        """The mode, created with the first tensor or operator: many frames have neither, and what it imports is slow to
        import."""
        if self._fake_mode is None:
            with unset_fake_temporarily():
                self._fake_mode = fake_mode(self.symbols.env)
            if self._is_active:
                self._fake_mode.__enter__()
        return self._fake_mode

    @property
    def uncounted_writes(self) -> list[torch.Tensor]:
        """The fakes that operators wrote into without counting it. Whoever runs an operator clears it before."""
        return uncounted_writes(self.fake_mode)

    def enter(self) -> None:
        """Run this thread's operators on fakes, until `leave`."""
        self._is_active = True
        if self._fake_mode is not None:
            self._fake_mode.__enter__()
        _tracing.on = True

    def leave(self) -> None:
        _tracing.on = self._is_active = False
        if self._fake_mode is not None:
            self._fake_mode.__exit__(None, None, None)

    def _fake(self, source: Source, value: torch.Tensor, free: SymbolicDims | None) -> torch.Tensor:
        if self._thawed and value.layout is torch.strided and memory_of(value) in self._thawed:
            raise Unsupported(
                UnsupportedValue("a tensor", "it shares memory with a leaf on which the program sets requires_grad")
            )
        mode = self.fake_mode  # what its creation imports may warn
        with contextlib.ExitStack() as stack:
            if value.requires_grad and not value.is_leaf:  # the converter reads .grad, and torch warns about that
                stack.enter_context(CAPTURED_WARNINGS)
            if free is not None and any(free):
                return self.symbols.fake(mode, source, value, free)
            return fake_of(mode, value)

    def call(
        self, kind: str, target: object, args: tuple[Any, ...], kwargs: dict[str, Any], fake: object
    ) -> torch.fx.Node:
        """Record an operator, whose result on fakes was ``fake``, in the thread's grad mode."""
        graph = self._follow_grad_mode(torch.is_grad_enabled())
        if self._modules or self.scope.is_nested:
            args, kwargs = torch.fx.node.map_arg((args, kwargs), self.here)
        self.operators += 1
        return self._create(graph, kind, target, args, kwargs, fake)

    def _create(
        self, graph: torch.fx.Graph, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fake: Any
    ) -> torch.fx.Node:
        called = kind, target
        if not all(map(is_name, kwargs)):
            args, kwargs = (target, args, tuple(kwargs), tuple(kwargs.values())), {}
            called = "call_function", call_by_names
        if not is_text((*args, *kwargs.values())):
            args, kwargs = with_attributes((args, kwargs), functools.partial(self._attribute, graph))
        node = graph.create_node(*called, args, kwargs, _node_name(called[1]))
        origin = self.origin()
        if origin is not None:
            node.meta = NodeMeta(origin, node.name, target)
        node.meta["example_value"] = fake
        return node

    def _attribute(self, graph: torch.fx.Graph, value: object) -> torch.fx.Node:
        """The node of a value that can't stand in the graph's code as text."""
        name = f"constant{self._attributes}"
        self._attributes += 1
        setattr(self._root, name, value)
        node = graph.create_node("get_attr", name)
        node.meta["example_value"] = value
        return node

    def constant(self, value: object) -> torch.fx.Node:
        """The node of an immutable value, as an attribute of the innermost graph."""
        return self._attribute(self.scope.graph, value)

    def _follow_grad_mode(self, mode: bool) -> torch.fx.Graph:
        """The graph to record into, after switching its grad mode to ``mode``."""
        body = self.scope
        if mode != body.grad_mode:
            body.graph.create_node("call_function", torch._C._set_grad_enabled, (mode,))
            self.note_grad_mode(mode)
        return body.graph

    def note_grad_mode(self, mode: bool) -> None:
        """Note that the last recorded operator has set the grad mode."""
        self.scope.grad_mode = mode
        self.read_grad_mode()

    def read_grad_mode(self) -> bool:
        """Whether gradients are enabled. Notes that enclosing bodies depend on the mode that they are called in."""
        for body in self.scope.nesting:
            body.reads_grad_mode = True
        return torch.is_grad_enabled()

    def drop(self, node: torch.fx.Node) -> None:
        """Remove an operator whose result is unused."""
        node.graph.erase_node(node)
        self.operators -= 1

    def drop_last(self, node: torch.fx.Node) -> bool:
        """Remove an operator if it was recorded last. Whether it was."""
        is_last = node.next.op == "root"
        if is_last:
            self.drop(node)
        return is_last

    def item(self, node: torch.fx.Node, index: int, fake: object) -> torch.fx.Node:
        """The node of one of several results."""
        return self._create(node.graph, "call_function", operator.getitem, (node, index), {}, fake)

    def here(self, node: torch.fx.Node) -> torch.fx.Node:
        """The node that represents a node of an enclosing graph in the innermost one."""
        graphs = [self.graph, *(body.graph for body in self.scope.nesting)]
        if node.graph not in graphs:
            raise Unsupported(
                UnsupportedValue(
                    "a tensor created in a function that an operator runs", "it is used outside that function"
                )
            )
        for body in self.scope.nesting[graphs.index(node.graph) :]:
            node = body.lift(node)
        return node

    def open(self, grad_mode: bool, runs: Runs = "now") -> Scope:
        """Begin a nested graph, of a function that will be called in this grad mode."""
        self.scope = Scope(grad_mode, self.scope, runs)
        return self.scope

    def close(self, body: Scope, outputs: list[Any]) -> str:
        """End the innermost graph, which becomes a submodule. Returns the name of its ``get_attr``."""
        outputs = torch.fx.node.map_arg(outputs, self.here)
        assert self.scope is body
        self._follow_grad_mode(body.initial_grad_mode)
        body.graph.output(tuple(outputs))
        self.end(body)
        name = f"body{self._modules}"
        self._modules += 1
        module = torch.fx.GraphModule(self._root, body.graph, "Body")
        cls: Any = type(module)  # of this module alone
        cls._wrapped_call = staticmethod(torch.nn.Module.__call__)  # FX's prints the code where an operator raises
        forget_source_with(module)
        self._root.add_module(name, module)
        return name

    def end(self, body: Scope) -> None:
        """Go on in the scope around the innermost one. What was recorded in that is dropped unless it is closed."""
        assert self.scope is body and body.outer is not None
        self.scope = body.outer

    def discard(self, body: Scope) -> None:
        """Drop the innermost graph, which has no operators."""
        assert not body.has_operators
        self.end(body)

    def module(self, name: str) -> tuple[torch.fx.Node, torch.nn.Module]:
        """The ``get_attr`` node of a closed body in the innermost graph, and its module."""
        module = self._root.get_submodule(name)
        node = self.scope.graph.get_attr(name)
        node.meta["example_value"] = module
        return node, module

    def inputs_in_storage(self, fake: torch.Tensor) -> list[GraphInput]:
        """The inputs that share a tensor's memory."""
        memory = all_memory_of(fake)
        return [each for each in self.tensors if not memory.isdisjoint(all_memory_of(each.fake))]

    def is_written(self, fake: torch.Tensor) -> bool:
        """Whether the graph has written into an input that shares a tensor's memory."""
        return bool(self._written) and any(each.source in self._written for each in self.inputs_in_storage(fake))

    def is_resized(self, fake: torch.Tensor) -> bool:
        """Whether it is an input whose shape or strides were changed in place."""
        return self._layouts.get(id(fake), (fake.shape, fake.stride())) != (fake.shape, fake.stride())

    def note_writes(self, fakes: list[torch.Tensor], hidden: bool = False) -> None:
        """Record that an operator wrote, or may have written, into tensors. ``hidden``: autograd doesn't know of it."""
        self.writes += 1
        for body in self.scope.nesting:
            memory = set().union(*map(all_memory_of, body.existing()))
            outside = [fake for fake in fakes if not (memory.isdisjoint(all_memory_of(fake)) or body.maps_over(fake))]
            if hidden and (body.overwritten is not None or body.is_backward and self._may_be_lost(outside)):
                continue
            if body.overwritten is not None:
                body.overwritten += outside
            elif outside:
                raise Unsupported(EffectInOperatorFunction("it writes into a tensor from outside"))
        for fake in fakes:
            is_recorded = fake.requires_grad and torch.is_grad_enabled() and not hidden
            for each in self.inputs_in_storage(fake):
                self._written.setdefault(each.source, self.step)
                if is_recorded and _C.accepts_writes(each.value):
                    each.source.check("accepts_writes")

    def _may_be_lost(self, fakes: list[torch.Tensor]) -> bool:
        """Whether the backward of a Function may write into these values of its forward. Then they may be no outputs of
        the graph: after the backward they have in eager what was written, and perhaps not if it was compiled."""
        if any(self.inputs_in_storage(fake) for fake in fakes):
            return False
        self._no_outputs.update(map(memory_of, fakes))
        return True

    @property
    def changes_state(self) -> bool:
        """Whether the graph changes grad mode, inference mode or autocast."""
        return any(node.target in _STATE_CHANGERS for node in self.graph.nodes if node.op == "call_function")

    @property
    def written(self) -> Set[Source]:
        """The sources of inputs whose memory was written to, or may have been."""
        return self._written.keys()

    def can_restore_inputs(self, fakes: Iterable[torch.Tensor] = ()) -> bool:
        """Whether the mutated inputs, these included, can be restored for running the frame again
        (`rerun.restoring_inputs`), by a copy before each call."""
        if self.communicates:
            return False
        sources = self._written.keys() | {each.source for fake in fakes for each in self.inputs_in_storage(fake)}
        given = [each for each in self.tensors if each.source in sources]
        return all(_is_copyable(each) for each in given) and sum(each.value.nbytes for each in given) <= _COPIED_BYTES

    def writes_shared_memory(self) -> int | None:
        """The root's first step at which a mutated input shares memory with another input, or may; 0 if the step is
        unknown, None if there is no such input."""
        alone = self._written.keys() | self.alone
        if not alone:
            return None
        if len(self.inputs) > 1 and any(each.may_share_memory for each in self.inputs):
            return 0  # a converted value may share memory with anything
        # Inner tensors without users were only checked, not used.
        ranges = [(each, memory_ranges(each.value)) for each in self.tensors if each.node.users or not each.is_part]
        steps = [each.step for each, mine in ranges if each.source in alone and overlaps_itself(mine)]
        steps += [
            max(self._written.get(each.source, each.step), other.step)
            for each, mine in ranges
            if each.source in alone
            for other, theirs in ranges
            if other is not each and overlap(mine, theirs)
        ]
        return min(steps, default=None)

    def arrange_inputs(self) -> None:
        """Remove the inputs that no operator uses: only their metadata was read. Of the others, those that the guard
        check captures come first, among the placeholders too."""
        for each in self.inputs:
            if not each.node.users:
                self.graph.erase_node(each.node)
                self._unused[each.node] = each
        used = [each for each in self.inputs if each.node.users]
        self.inputs = sorted(used, key=lambda each: not each.captured)
        for each in reversed(self.inputs):
            self.graph._root.append(each.node)

    def unused_input(self, node: torch.fx.Node) -> GraphInput | None:
        """The input of a node that was removed because no operator uses it."""
        if self.operators:
            return self._unused.get(node)
        return next((each for each in self.inputs if each.node is node), None)

    def finish(self, outputs: list[torch.fx.Node]) -> torch.fx.GraphModule:
        """Close the graph. It returns a tuple of ``outputs`` and restores the grad mode."""
        self._follow_grad_mode(self._root_scope.initial_grad_mode)
        if self._fake_mode is not None:
            self._fake_mode.allow_scalar_outputs = self.reads_inside
        self.graph.output(tuple(outputs))
        made = torch.fx.GraphModule(self._root, self.graph, "GraphModule")
        forget_source_with(made)
        return made
