"""``torch.autograd.Function``: its forward and backward are traced as bodies of one operator of the graph.

When the graph runs, the operator applies a Function of ours that calls these bodies.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NoReturn

import torch
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx, once_differentiable

from dynamo_lite.insight.break_reasons import AttributeChange, AutogradFunction, UnsupportedAttribute
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.guards import Guards
from dynamo_lite.records.restart import FunctionsUntraced
from dynamo_lite.records.subgraphs import Scope
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.later_calls import Called, CalledFunctions
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.runtime.traced_functions import AttributeTensor, FunctionFacts
from dynamo_lite.variables.core.attributes import MISSING, BuiltinMethodVariable, bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import is_read_later, mutable_objects, refuse_read
from dynamo_lite.variables.core.reachable import reachable
from dynamo_lite.variables.core.registry import models_class_method
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SizeVariable, TupleVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.torch.higher_order.bodies import (
    BodyVariable,
    body_parameters,
    tensor_leaves,
    trace_body,
    tuple_of_nodes,
)
from dynamo_lite.variables.torch.tensors.later_states import gradient_like
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .function_arguments import positional_arguments

_METHODS = (
    *("save_for_backward", "save_for_forward", "mark_non_differentiable", "mark_dirty"),
    "set_materialize_grads",
)


class FunctionContext(VariableTracker):
    """``ctx``, which carries values from the forward to the backward."""

    __slots__ = (
        *("function", "attrs", "saved", "saved_for_forward", "non_differentiable", "dirty", "needs"),
        *("is_complete", "reads_saved", "materializes"),
    )

    def __init__(self, function: type[torch.autograd.Function], needs: list[bool]) -> None:
        self.source = None
        self.function = function
        self.attrs: dict[str, VariableTracker] = {}
        self.saved: list[VariableTracker] = []
        self.non_differentiable: list[VariableTracker] = []
        self.saved_for_forward: list[VariableTracker] = []
        self.dirty: list[VariableTracker] = []
        self.needs = needs
        """``needs_input_grad``."""
        self.is_complete = False
        """Whether the forward has returned: from then on only the backward has it."""
        self.materializes = True
        """Whether gradients that are undefined are zeros in the backward; otherwise None."""
        self.reads_saved = False
        """Whether the backward reads ``saved_tensors``, where torch checks that none of them was written into."""

    def python_type(self) -> type:
        return FunctionCtx

    def describe(self) -> str:
        return "the ctx of a torch.autograd.Function"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in self.attrs:
            if is_read_later(tx):
                self._check_read(tx, name)
            return self.attrs[name]
        if name == "saved_tensors":
            self.reads_saved = self.is_complete
            return TupleVariable(list(self.saved if self.is_complete else self.saved_for_forward))
        if name == "needs_input_grad":
            return tx.make(tuple(self.needs))
        if name in _METHODS:
            return BuiltinMethodVariable(self, name)
        kind = self.function._backward_cls
        if tx.lookup(kind, name) is MISSING:
            tx.raise_error(AttributeError, f"{kind.__name__!r} object has no attribute {name!r}")
        unsupported(UnsupportedAttribute(self.describe(), name))

    def _check_read(self, tx: Translator, name: str) -> None:
        """Check an attribute that the backward reads: it may change between the forward and the backward."""
        for part in mutable_objects(self.attrs[name]):
            if isinstance(part, TensorVariable):
                continue
            objects = [each for each in reachable([part]) if not isinstance(each, (TensorVariable, LazyVariable))]
            if any(each.source is not None and next(mutable_objects(each), None) is not None for each in objects):
                refuse_read(f"ctx.{name}, a mutable object")
            tx.attempt.state(KeptOnContexts).append(KeptOnCtx(self.function, objects, tx.effects.count))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if class_lookup(FunctionCtx, name) is not MISSING or hasattr(torch._C._FunctionBase, name):
            unsupported(AttributeChange(self.describe(), name, "written"))
        self._check_is_forward(f"writes ctx.{name}")
        self.attrs[name] = value

    def _check_is_forward(self, effect: str) -> None:
        """Break the graph at what a backward does to ``ctx``, which a later run of it would see."""
        if self.is_complete:
            unsupported(AutogradFunction(self.function.__qualname__, f"its backward {effect}"))

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())

    def method_save_for_backward(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self._check_is_forward("calls ctx.save_for_backward")
        self.saved = list(tensors)
        return ConstantVariable(None)

    def method_save_for_forward(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self._check_is_forward("calls ctx.save_for_forward")
        self.saved_for_forward = list(tensors)
        return ConstantVariable(None)

    def method_mark_non_differentiable(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self._check_is_forward("calls ctx.mark_non_differentiable")
        self.non_differentiable = list(tensors)
        return ConstantVariable(None)

    def method_mark_dirty(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self._check_is_forward("calls ctx.mark_dirty")
        self.dirty = list(tensors)
        return ConstantVariable(None)

    def method_set_materialize_grads(self, tx: Translator, value: VariableTracker) -> VariableTracker:
        self._check_is_forward("calls ctx.set_materialize_grads")
        self.materializes = bool(tx.python_value(value))
        return ConstantVariable(None)


class KeptOnCtx(NamedTuple):
    """Mutable objects created during tracing that a backward reads from ``ctx``.

    ``writes``: the number of side effects before the read.
    """

    function: type[torch.autograd.Function]
    objects: list[VariableTracker]
    writes: int


class KeptOnContexts(list[KeptOnCtx]):
    """What the traced backwards of an attempt read."""


def outdated_on_ctx(attempt: Attempt, has_created: Callable[[VariableTracker], bool]) -> FunctionsUntraced | None:
    """The Functions that have objects on ``ctx`` which are mutated after the call, or reach the program
    (``has_created``): the graph must break at their calls."""
    outdated = {
        kept.function
        for kept in attempt.state(KeptOnContexts)
        if any(attempt.effects.last(each) > kept.writes or has_created(each) for each in kept.objects)
    }
    return FunctionsUntraced(frozenset(outdated)) if outdated else None


@models_class_method(torch.autograd.Function, "apply")
def apply(tx: Translator, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """``Function.apply``."""
    value = cls.as_constant()
    is_transformed = (
        any(body.transform for body in tx.graph.scope.nesting) or torch._C._are_functorch_transforms_active()
    )
    reasons = {
        "torch.func transforms it": is_transformed,
        "it is called in a torch.autograd.forward_ad.dual_level": _is_in_dual_level(tx.guards),
        "its forward or backward is not a static method": not _has_static_methods(value),
        "it has a vjp": not _has_defaults(tx, value, "vjp"),
        **{f"it sets {name}": not _has_defaults(tx, value, name) for name in _OPTIONS},
    }
    for why, holds in reasons.items():
        if holds:
            unsupported(AutogradFunction(value.__qualname__, why))
    if value in tx.attempt.restart_facts.untraced_functions:
        refuse_read("a mutable object on ctx, which the program keeps or changes")
    tx.lookup(value, "setup_context")
    has_setup = value.setup_context is not torch.autograd.Function.setup_context
    passed = positional_arguments(tx, value, _static(tx, value, "forward"), [*args], kwargs, has_setup)
    ctx = FunctionContext(value, [isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in passed])
    tx.attempt.provenance.created(ctx)
    return _Application(tx, value, passed, ctx, has_setup).run()


def _is_in_dual_level(guards: Guards) -> bool:
    """Whether tensors may have tangents, for which a Function needs a jvp; guarded."""
    level = forward_ad._current_level
    guards.const(forward_ad).instance_item("_current_level").check("equals", level)
    return level >= 0


_OPTIONS = ("boxed_grads_call", "clear_saved_tensors_on_access")


def _static(tx: Translator, cls: type[torch.autograd.Function], name: str) -> VariableTracker:
    """A static method of a Function."""
    return bind(tx, class_lookup(cls, name), name, None, cls).realize()


def _tensors_or_wrappers(values: Sequence[VariableTracker]) -> list[TensorVariable]:
    """The tensors among values. Of subclasses there may be wrappers that require no gradients, such as quantized
    weights: autograd creates no gradients of theirs."""
    wrappers = [each for each in values if each.is_wrapper and not each.fake.requires_grad]  # type: ignore[attr-defined]
    others = tensor_leaves(TupleVariable([each for each in values if each not in wrappers]))
    return [each for each in values if each in wrappers or each in others]  # type: ignore[misc]


def _has_static_methods(cls: type[torch.autograd.Function]) -> bool:
    """Whether a Function is called without an instance, a backward that is a plain function through the class."""
    is_static = isinstance(class_lookup(cls, "forward"), staticmethod)
    return is_static and isinstance(class_lookup(cls, "backward"), (staticmethod, types.FunctionType))


def _has_defaults(tx: Translator, cls: type[torch.autograd.Function], *names: str) -> bool:
    """Whether a Function inherits these attributes of ``torch.autograd.Function``."""
    return all(tx.lookup(cls, name) is class_lookup(torch.autograd.Function, name) for name in names)


class _Application:
    """One call of ``apply``."""

    def __init__(
        self,
        tx: Translator,
        cls: type[torch.autograd.Function],
        args: Args,
        ctx: FunctionContext,
        has_setup: bool,
    ) -> None:
        self.tx = tx
        self.cls = cls
        self.args = args
        self.inputs = [arg for arg in args if isinstance(arg, TensorVariable)]
        self.tensors = list(dict.fromkeys(self.inputs))
        """The distinct tensors among the arguments."""
        self.ctx = ctx
        self.has_setup = has_setup
        self.returned: list[VariableTracker] = []
        """The forward's results."""
        self.returns_one = False
        """Whether the forward returns a tensor instead of a tuple."""

    def refuse(self, why: str) -> NoReturn:
        unsupported(AutogradFunction(self.cls.__qualname__, why))

    def run(self) -> VariableTracker:
        """Trace the call. If no gradient is needed it is a plain call of the forward."""
        tx = self.tx
        enabled = tx.graph.read_grad_mode()
        if not enabled or not any(self.ctx.needs):
            if enabled:
                for body in tx.graph.scope.nesting:
                    body.differentiates = True  # with other inputs, the Function might need gradients
            with torch.no_grad():
                outputs = self._forward()
            return self._result(outputs)
        _tensors_or_wrappers(self.tensors)
        torch._C._set_grad_enabled(False)
        body = tx.graph.open(False)
        body.overwritten, body.takes_wrappers = [], True
        for tensor in self.tensors:
            body.lift(tensor.node)
        effects = tx.effects.count
        try:
            outputs = self._forward()
        except ObservedException:
            if body.has_operators:  # random ones, for instance, must still run
                self.refuse("forward raises after an operator")
            tx.graph.discard(body)
            torch._C._set_grad_enabled(enabled)
            raise
        self._check_writes(body.overwritten, [each.fake for each in outputs], "forward returns")
        self._check_dirty()
        if tx.effects.count > effects and any(
            isinstance(each, TensorVariable) and each.node.graph is body.graph for each in reachable(tx.effects.written)
        ):
            self.refuse("forward keeps a tensor that it computes elsewhere than on ctx")
        if any(each.node.graph is not body.graph and each not in self.ctx.dirty for each in outputs):
            self.refuse("forward returns a tensor that it didn't create")
        backwards, once = self._backwards(outputs)
        read = [node.meta["example_value"] for each in backwards.values() for node in each.lifted]
        self._check_writes(body.overwritten, read, "backward reads")
        torch._C._set_grad_enabled(enabled)
        return self._record(body, outputs, backwards, once)

    def _check_writes(self, overwritten: list[torch.Tensor], used: list[torch.Tensor], use: str) -> None:
        """Check the tensors from outside that the forward has written into: statistics, counters."""
        if overwritten and any(each.is_wrapper for each in self.tensors):  # it may be an inner tensor
            self.refuse("forward writes into a tensor from outside, and gets a wrapper subclass")
        dirty = [each.fake for each in self.ctx.dirty if isinstance(each, TensorVariable)]
        used = [each for each in used if not any(each is written for written in dirty)]
        for written in overwritten:
            if any(written is each for each in dirty) and not any(share_memory(written, each) for each in used):
                continue
            tensors = [each.fake for each in self.tensors if each.fake.requires_grad]
            if written.requires_grad or any(share_memory(written, each) for each in tensors):
                self.refuse("forward writes into an argument that requires gradients")
            if any(share_memory(written, each) for each in used):
                self.refuse(f"forward writes into a tensor from outside that {use}")

    # -- forward ---------------------------------------------------------------------------------------------------

    def _forward(self) -> list[TensorVariable]:
        tx, cls = self.tx, self.cls
        forward = _static(tx, cls, "forward")
        if self.has_setup:
            output = tx.call(forward, list(self.args), {}).realize()
            tx.call(_static(tx, cls, "setup_context"), [self.ctx, TupleVariable(list(self.args)), output], {})
        else:
            output = tx.call(forward, [self.ctx, *self.args], {}).realize()
        self.ctx.is_complete = True
        self.returns_one = not isinstance(output, TupleVariable)
        outputs: list[TensorVariable] = []
        for each in output.items if isinstance(output, TupleVariable) else [output]:
            each = each.realize()
            self.returned.append(each)
            if not isinstance(each, TensorVariable):
                if any(isinstance(part, TensorVariable) for part in reachable([each])):
                    self.refuse(f"forward returns {each.describe()}")
                continue
            outputs.append(each)
            if (
                each in self.tensors and each not in self.ctx.dirty and self.has_setup
            ):  # torch refuses it if it is saved for the backward
                self.refuse("with setup_context, forward returns an argument")
        if len(set(outputs)) < len(outputs):
            self.refuse("forward returns one tensor twice")
        if any(self.inputs.count(each) != 1 or each not in outputs for each in self.ctx.dirty):  # type: ignore[arg-type]
            self.refuse("it passes other tensors to ctx.mark_dirty than arguments that it returns")
        return [self._returned(each) for each in outputs]

    def _check_dirty(self) -> None:
        """Check the arguments that the forward writes into by ``ctx.mark_dirty``: autograd gives them a new history,
        which compilers see of tensors that the graph computes."""
        for each in self.ctx.dirty:
            assert isinstance(each, TensorVariable)
            is_view = each.fake._is_view() or (each.fake.is_leaf and each.fake.requires_grad)
            if is_view or self.tx.graph.inputs_in_storage(each.fake):
                self.refuse("by ctx.mark_dirty, forward writes into a leaf, a view or an input of the graph")

    def _returned(self, output: TensorVariable) -> TensorVariable:
        """The result of `apply` for a result of the forward: a view, if it is an argument."""
        if output not in self.tensors or output in self.ctx.dirty:
            return output
        view = record(self.tx, "view_as", [output, output], {})
        assert isinstance(view, TensorVariable)
        return view

    # -- backward --------------------------------------------------------------------------------------------------

    def _backwards(self, outputs: list[TensorVariable]) -> tuple[dict[bool, BodyVariable], bool]:
        """The backward, by whether grad mode is on when it runs, and whether it is `once_differentiable`."""
        function, once = _unwrap_once_differentiable(_static(self.tx, self.cls, "backward"))
        traced = {False: self._backward(function, outputs, False)}
        if traced[False].reads_grad_mode and not once:
            traced[True] = self._backward(function, outputs, True)
        return traced, once

    def _backward(self, function: VariableTracker, outputs: list[TensorVariable], grad_mode: bool) -> BodyVariable:
        """Trace the backward. The body's results are the gradients of the tensors among the arguments, or None."""
        tx = self.tx

        def run() -> VariableTracker:
            fakes = [gradient_like(each.fake, grad_mode) for each in outputs]
            gradients = self._results(body_parameters(tx, fakes), ConstantVariable(None))
            return tx.call(function, [self.ctx, *gradients], {}).realize()

        def results(output: VariableTracker) -> list[VariableTracker]:
            returned = [item.realize() for item in output.items] if isinstance(output, TupleVariable) else [output]
            self._check_gradients(returned)
            return [each for arg, each in zip(self.args, returned) if isinstance(arg, TensorVariable)]

        outside = [function, *self.args, *self.ctx.attrs.values()]
        try:
            return trace_body(tx, run, outside, results, grad_mode, runs="backward", takes_wrappers=True)
        except ObservedException:
            self.refuse("backward raises")

    def _check_gradients(self, gradients: list[VariableTracker]) -> None:
        count = len(self.args)
        if len(gradients) < count or not all(map(self.tx.is_none, gradients[count:])):
            self.refuse(f"backward returns {len(gradients)} gradients for {count} arguments")
        for arg, gradient in zip(self.args, gradients):
            if not isinstance(gradient, TensorVariable) and not self.tx.is_none(gradient):
                self.refuse(f"backward returns {gradient.describe()}")
            if isinstance(gradient, TensorVariable) and not isinstance(arg, TensorVariable):
                self.refuse("backward returns a gradient for an argument that is no tensor")

    # -- the graph's node ------------------------------------------------------------------------------------------

    def _record(
        self, body: Scope, outputs: list[TensorVariable], backwards: dict[bool, BodyVariable], once: bool
    ) -> VariableTracker:
        tx = self.tx
        if any(each not in outputs for each in self.ctx.non_differentiable):
            self.refuse("it passes another tensor than a result to ctx.mark_non_differentiable")
        lifted = [body.lifted[tensor.node] for tensor in self.tensors]
        extras = [node for node in body.lifted if body.lifted[node] not in lifted]
        results = list(dict.fromkeys(self._in_body(body, each) for each in outputs))
        facts = self._facts(body, results, outputs, backwards)
        forward = BodyVariable(tx.graph, tx.graph.close(body, results))
        bodies = TupleVariable([forward, *backwards.values()])
        name = ConstantVariable(self.cls.__name__)
        arguments: Args = [
            *(name, bodies, tuple_of_nodes(extras), InvariantVariable(facts), ConstantVariable(once)),
            *self.inputs,
        ]
        with tx.attempt.torch_state.without_torch_function():  # `apply` isn't dispatched, what the bodies call was
            applied = tensor_leaves(record(tx, graph_functions.autograd_function, arguments, {}))
        return self._result([each if each in self.ctx.dirty else one for each, one in zip(outputs, applied)])

    def _in_body(self, body: Scope, tensor: VariableTracker) -> torch.fx.Node:
        """The node of a tensor in the forward's graph, or outside of all bodies."""
        assert isinstance(tensor, TensorVariable)
        return body.lifted.get(tensor.node, tensor.node)

    def _facts(
        self,
        body: Scope,
        results: list[torch.fx.Node],
        outputs: list[TensorVariable],
        backwards: dict[bool, BodyVariable],
    ) -> FunctionFacts:
        """How the bodies fit the call. Adds to ``results`` of the forward's graph what its node keeps."""

        def index(node: torch.fx.Node) -> int:
            if node not in results:
                results.append(node)
            return results.index(node)

        called = Called()
        called.methods[self.cls, "backward"] = class_lookup(self.cls, "backward")
        for each in backwards.values():
            called.add(each.called)
        wanted = list(dict.fromkeys(node for each in backwards.values() for node in each.lifted))
        kept = tuple(map(index, wanted))
        tensors = _tensors_or_wrappers(self.ctx.saved)
        attributes = dict(self._visible_attributes(lambda tensor: index(self._in_body(body, tensor))))
        has_all = attributes.keys() == self.ctx.attrs.keys()
        if not self.ctx.materializes and not (has_all and len(outputs) == 1):
            self.refuse("it calls ctx.set_materialize_grads(False), and has several results or an object on ctx")
        if any(each not in tensors and not self.tx.is_none(each) for each in self.ctx.saved):
            self.refuse("it passes other values than tensors to ctx.save_for_backward")
        return FunctionFacts(
            function=weakref.ref(self.cls),
            called=CalledFunctions(called),
            arguments=tuple(self.inputs.index(each) if each in self.inputs else None for each in self.args),
            distinct=tuple(map(self.inputs.index, self.tensors)),
            outputs=tuple(isinstance(each, TensorVariable) for each in self.returned),
            non_differentiable=tuple(at for at, each in enumerate(outputs) if each in self.ctx.non_differentiable),
            dirty=tuple(at for at, each in enumerate(outputs) if each in self.ctx.dirty),
            saved=tuple(index(self._in_body(body, each)) if each in tensors else None for each in self.ctx.saved),
            reads_saved=self.ctx.reads_saved,
            kept=kept,
            modes=tuple((mode, tuple(map(wanted.index, each.lifted))) for mode, each in backwards.items()),
            attributes=attributes,
            has_all_attributes=has_all,
            materializes=self.ctx.materializes,
        )

    def _visible_attributes(self, index: Callable[[TensorVariable], int]) -> Iterator[tuple[str, object]]:
        """The attributes of ``ctx`` that the graph sets on its node."""

        def template(value: VariableTracker) -> object:
            value = value.realize()
            if type(value) is TensorVariable and not value.is_wrapper:
                return AttributeTensor(index(value))
            if type(value) is TupleVariable:
                return tuple(map(template, value.items))
            if value.source is None and type(value) is ListVariable:
                return [*map(template, value.items)]
            if value.source is None and type(value) is DictVariable:
                return {key: template(each) for key, each in value.items.items()}
            if isinstance(value, SizeVariable):
                return torch.Size(value.as_constant())
            if isinstance(value, ConstantVariable):
                return value.value
            raise NotConstant(value.describe())

        for name, value in self.ctx.attrs.items():
            with contextlib.suppress(NotConstant):
                yield name, template(value)

    def _result(self, outputs: Sequence[VariableTracker]) -> VariableTracker:
        results = self._results(outputs)
        return results[0] if self.returns_one else TupleVariable(results)

    def _results(
        self, tensors: Sequence[VariableTracker], other: VariableTracker | None = None
    ) -> list[VariableTracker]:
        """One value for each result of the forward: these for its tensors; for others ``other``, or the result."""
        following = iter(tensors)
        return [next(following) if isinstance(each, TensorVariable) else other or each for each in self.returned]


def _unwrap_once_differentiable(function: VariableTracker) -> tuple[VariableTracker, bool]:
    """The function that ``once_differentiable`` wraps, and whether it does."""
    value = function.value
    wrapped = getattr(value, "__wrapped__", None)
    if not isinstance(value, types.FunctionType) or wrapped is None or value.__code__ is not _ONCE_DIFFERENTIABLE:
        return function, False
    return FunctionVariable(wrapped, None), True


_ONCE_DIFFERENTIABLE = once_differentiable(len).__code__
