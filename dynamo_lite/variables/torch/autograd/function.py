"""``torch.autograd.Function``: forward and backward are traced, and run as a Function of the graph's."""

from __future__ import annotations

import builtins
import itertools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx, once_differentiable

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute
from dynamo_lite.records.restart import FunctionsUntraced, Restart
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.inner_tensors import storages
from dynamo_lite.variables.core.attributes import MISSING, BuiltinMethodVariable, bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    NotConstant,
    ObservedException,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import is_read_later, mutable_objects, refuse_read
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.torch.higher_order.bodies import (
    BodyVariable,
    NodesVariable,
    PlainVariable,
    given,
    leaves,
    reachable,
    trace_body,
)
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

_METHODS = ("save_for_backward", "mark_non_differentiable", "mark_dirty", "set_materialize_grads", "save_for_forward")


class FunctionContext(VariableTracker):
    """``ctx``: what the forward hands to the backward."""

    __slots__ = ("function", "attrs", "saved", "non_differentiable", "dirty", "needs", "materializes")

    def __init__(self, function: type[torch.autograd.Function], needs: list[bool]) -> None:
        self.source = None
        self.function = function
        self.attrs: dict[str, VariableTracker] = {}
        self.saved: list[VariableTracker] = []
        self.non_differentiable: list[VariableTracker] = []
        self.dirty: list[VariableTracker] = []
        """The inputs that the forward writes to, which it returns."""
        self.needs = needs
        self.materializes = True
        """Whether the backward gets zeros, and not None, where there is no gradient."""

    def python_type(self) -> type:
        return FunctionCtx

    def describe(self) -> str:
        return "a Function's ctx"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in self.attrs:
            if is_read_later(tx):
                self._check_read(tx, name)
            return self.attrs[name]
        if name == "saved_tensors":
            return TupleVariable(list(self.saved))
        if name == "needs_input_grad":
            return tx.make(tuple(self.needs))
        if name in _METHODS:
            return BuiltinMethodVariable(self, name)
        unsupported(UnsupportedAttribute(self.describe(), name))

    def _check_read(self, tx: Translator, name: str) -> None:
        """A backward reads an attribute. Of tensors it has these very ones."""
        for part in mutable_objects(self.attrs[name]):
            if isinstance(part, TensorVariable):
                continue
            inside = [each for each in reachable([part]) if not isinstance(each, TensorVariable)]
            if any(each.source is not None and next(mutable_objects(each), None) is not None for each in inside):
                refuse_read(f"ctx.{name}, a mutable object")
            tx.attempt.provenance.kept_on_ctx.append(KeptOnCtx(self.function, inside, tx.effects.count))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if class_lookup(FunctionCtx, name) is not MISSING or hasattr(torch._C._FunctionBase, name):
            unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))
        self.attrs[name] = value

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant(self.describe())

    def method_save_for_backward(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self.saved = list(tensors)
        return ConstantVariable(None)

    def method_mark_non_differentiable(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self.non_differentiable = list(tensors)
        return ConstantVariable(None)

    def method_mark_dirty(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        self.dirty = list(dict.fromkeys(each.realize() for each in tensors))
        return ConstantVariable(None)

    def method_save_for_forward(self, tx: Translator, *tensors: VariableTracker) -> VariableTracker:
        return ConstantVariable(None)

    def method_set_materialize_grads(self, tx: Translator, value: VariableTracker) -> VariableTracker:
        self.materializes = tx.truth(value)
        return ConstantVariable(None)


class KeptOnCtx(NamedTuple):
    """Mutable objects that the trace made, which a backward reads from ``ctx``. ``writes``: how many came before."""

    function: type[torch.autograd.Function]
    objects: list[VariableTracker]
    writes: int


def check_kept_on_ctx(attempt: Attempt, has_made: Callable[[VariableTracker], bool]) -> None:
    """Another attempt leaves to CPython what keeps objects on ``ctx`` that are changed after the call, or that the
    program has too, by `has_made`."""
    changing = {
        kept.function
        for kept in attempt.provenance.kept_on_ctx
        if any(attempt.effects.last(each) > kept.writes or has_made(each) for each in kept.objects)
    }
    if changing:
        raise Restart(FunctionsUntraced(frozenset(changing)))


class GradientVariable(TensorVariable):
    """What the backward is given: of known sizes, but of strides that are only known when it runs."""

    __slots__ = ()

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("stride", "is_contiguous", "storage_offset", "dim_order"):
            unsupported(UnsupportedAttribute("a gradient", name, "its strides are not known"))
        return super().call_method(tx, name, args, kwargs)


@models(torch.autograd.Function.apply.__func__)  # type: ignore[attr-defined]
def apply(tx: Translator, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """``Function.apply``."""
    value = cls.as_constant()
    tensors = list(dict.fromkeys(arg for arg in args if isinstance(arg, TensorVariable)))
    differentiable = [each for each in tensors if each.fake.requires_grad and torch.is_grad_enabled()]
    summed = any(args.count(each) > 1 for each in differentiable)  # the gradients of one tensor would be
    plain = _is_plain(tx, value, {body.transform for body in tx.graph.bodies if body.transform})
    if kwargs or torch._C._are_functorch_transforms_active() or not plain or summed:
        unsupported(UnknownCall(f"{value.__qualname__}.apply", "only the ordinary ways to use a Function are traced"))
    if value in tx.attempt.restart_facts.untraced_functions:
        refuse_read("a mutable object on ctx, which the program keeps or changes")
    leaves(tx, TupleVariable(list(tensors)))
    needs = [isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args]
    ctx = FunctionContext(value, needs)
    tx.attempt.provenance.created(ctx)
    return _Application(tx, value, list(args), tensors, ctx).run()


def _is_plain(tx: Translator, cls: type[torch.autograd.Function], transforms: set[str]) -> bool:
    """``transforms``: those of torch.func that it is called under, for which it may have rules, and of which torch may
    refuse it. For dual numbers, which calls in a ``dual_level`` may bring, it may have one too."""
    base = torch.autograd.Function
    static = all(isinstance(class_lookup(cls, name), staticmethod) for name in ("forward", "backward"))
    if not static or class_lookup(cls, "vjp") is not class_lookup(base, "vjp"):
        return False
    if class_lookup(cls, "jvp") is not class_lookup(base, "jvp") and not _no_dual_numbers(tx):
        return False
    if "vmap" in transforms and (cls.generate_vmap_rule is not True or cls.vmap is not base.vmap):
        return False
    return not transforms or cls.setup_context is not base.setup_context and transforms <= _BY_OPERATORS


def _no_dual_numbers(tx: Translator) -> bool:
    """Whether no level of them is entered, in this call and in others."""
    place = tx.guards.const(forward_ad).child("instance_dict").child("dict_item", "_current_level")
    place.check("equals", forward_ad._current_level)
    return forward_ad._current_level < 0


_BY_OPERATORS = frozenset({"grad", "grad_and_value", "vjp", "jacrev", "vmap"})
"""Transforms that have no more of the function than the operators of its forward and backward."""


Pattern = tuple[bool, ...]
"""Of each result whether there is a gradient."""
Case = tuple[bool, Pattern]
"""Whether a backward is differentiated again, where that makes a difference to it; and the gradients that there are."""
_MOST_OPEN = 3
"""Results of which nobody knows whether there are gradients: the backward is traced for each case."""


class Backward(NamedTuple):
    """A traced backward, and for each input where its gradient is among the results."""

    body: BodyVariable
    slots: list[int]
    raises: tuple[str, ...] = ()
    """The name and arguments of the error that it raises instead."""


class _Application:
    """One call of ``apply``."""

    def __init__(
        self,
        tx: Translator,
        cls: type[torch.autograd.Function],
        args: Args,
        tensors: list[TensorVariable],
        ctx: FunctionContext,
    ) -> None:
        self.tx = tx
        self.cls = cls
        self.args = args
        self.tensors = tensors
        self.ctx = ctx
        self.single = False

    def run(self) -> VariableTracker:
        """Without a gradient to be had it is a plain call of the forward."""
        tx = self.tx
        enabled = tx.graph.read_grad_mode()
        if not enabled or not any(self.ctx.needs):
            for around in tx.graph.bodies if enabled else ():
                around.differentiates = True  # it would, of what has a history
            torch._C._set_grad_enabled(False)
            outputs = self._forward()
            torch._C._set_grad_enabled(enabled)
            for each in self.ctx.dirty:
                if each.fake.requires_grad:  # type: ignore[attr-defined]
                    unsupported(UnknownCall(f"{self.cls.__qualname__}.apply", "it returns a detached argument"))
                record(tx, "call_function", graph_functions.count_write, [each], {})
            return self._result(outputs)
        torch._C._set_grad_enabled(False)
        body = tx.graph.open(False)
        body.overwritten = []
        for tensor in self.tensors:
            body.lift(tensor.node)
        outputs = self._forward()
        self._check_writes(body)
        if any(each.node.graph is not body.graph and each not in self.ctx.dirty for each in outputs):
            unsupported(UnknownCall(f"{self.cls.__qualname__}.apply", "it returns a tensor from outside"))
        backwards, once = self._backwards(outputs)
        torch._C._set_grad_enabled(enabled)
        return self._record(body, outputs, backwards, once)

    # -- forward ---------------------------------------------------------------------------------------------------

    def _static(self, name: str) -> VariableTracker:
        return bind(self.tx, class_lookup(self.cls, name), name, None, self.cls).realize()

    def _forward(self) -> list[VariableTracker]:
        tx, cls = self.tx, self.cls
        at_once = cls.setup_context is torch.autograd.Function.setup_context
        if not at_once:
            output = tx.call(self._static("forward"), list(self.args), {}).realize()
            tx.call(self._static("setup_context"), [self.ctx, TupleVariable(list(self.args)), output], {})
        else:
            output = tx.call(self._static("forward"), [self.ctx, *self.args], {}).realize()
        self.single = not isinstance(output, TupleVariable)
        outputs = [output] if self.single else [item.realize() for item in output.items]
        for each in outputs:
            if not isinstance(each, TensorVariable):
                unsupported(UnknownCall(f"{cls.__qualname__}.apply", f"it returns {each.describe()}"))
            untouched = each in self.tensors and each not in self.ctx.dirty
            if untouched and not at_once:  # it is refused if it is kept for the backward
                unsupported(UnknownCall(f"{cls.__qualname__}.apply", "it returns an argument"))
        if len(set(outputs)) < len(outputs):
            unsupported(UnknownCall(f"{cls.__qualname__}.apply", "it returns one tensor twice"))
        if not all(each in self.tensors and each in outputs for each in self.ctx.dirty):
            unsupported(UnknownCall("ctx.mark_dirty", "it is given what is no argument, or is not returned"))
        return [self._returned(each) for each in outputs]

    def _returned(self, output: Any) -> VariableTracker:
        """What `apply` gives for what the forward returned: for an argument that it didn't write to a view of it."""
        if output not in self.tensors or output in self.ctx.dirty:
            return output  # type: ignore[no-any-return]
        return record(self.tx, "call_method", "view_as", [output, output], {})

    def _check_writes(self, body: Any) -> None:
        """What the forward writes into of what is outside is to be known to autograd."""
        said = {storage for each in self.ctx.dirty for storage in storages(each.fake)}  # type: ignore[attr-defined]
        if not all(said.issuperset(storages(fake)) for fake in body.overwritten):
            unsupported(UnknownCall(f"{self.cls.__qualname__}.forward", "it writes to what it doesn't mark as dirty"))
        if self.ctx.dirty and any(each.transform for each in self.tx.graph.bodies):
            unsupported(UnknownCall("ctx.mark_dirty", "it is called under a transform"))

    # -- backward --------------------------------------------------------------------------------------------------

    def _backwards(self, outputs: list[Any]) -> tuple[dict[Case, Backward], bool]:
        """A backward for each case, and whether it can't be differentiated again."""
        function, once = _without_once(self._static("backward"))
        found: dict[Case, Backward] = {}
        for pattern in self._patterns(outputs):
            found[False, pattern] = self._backward(function, outputs, pattern, False)
            if found[False, pattern].body.reads_grad_mode and not once:
                found[True, pattern] = self._backward(function, outputs, pattern, True)
        return found, once

    def _patterns(self, outputs: list[Any]) -> list[Pattern]:
        """For which results there may be gradients."""
        if self.ctx.materializes:
            return [(True,) * len(outputs)]
        marked = self.ctx.non_differentiable
        may = [each not in marked and (each.fake.is_floating_point() or each.fake.is_complex()) for each in outputs]
        if sum(may) > _MOST_OPEN:
            unsupported(UnknownCall("ctx.set_materialize_grads(False)", "which gradients there are is not known"))
        return list(itertools.product(*((True, False) if each else (False,) for each in may)))

    def _backward(self, function: VariableTracker, outputs: list[Any], pattern: Pattern, again: bool) -> Backward:
        tx = self.tx
        kept: list[VariableTracker] = []
        slots: list[int] = []

        def run() -> VariableTracker:
            tx.graph.bodies[-1].is_backward = True
            # Expanded, so that nothing is taken for contiguous that may not be.
            fakes = [each.fake.detach().new_empty(()).expand(each.fake.shape) for each in outputs]
            for fake in fakes:
                if again and (fake.is_floating_point() or fake.is_complex()):
                    fake.requires_grad_()
            there = iter(given(tx, [(None, fake) for fake in itertools.compress(fakes, pattern)], GradientVariable))
            gradients = [next(there) if each else ConstantVariable(None) for each in pattern]
            return tx.call(function, [self.ctx, *gradients], {}).realize()

        def results(output: VariableTracker) -> list[VariableTracker]:
            found = [item.realize() for item in output.items] if isinstance(output, TupleVariable) else [output]
            self._check_gradients(found)
            for at, arg in enumerate(self.args):
                if isinstance(arg, TensorVariable) and arg not in self.args[:at]:
                    here = isinstance(found[at], TensorVariable)
                    slots.append(len(kept) if here else -1)
                    kept.extend(found[at : at + here])
            return kept

        outside = [function, *self.args, *self.ctx.attrs.values()]
        depth = len(tx.graph.bodies)
        try:
            return Backward(trace_body(tx, run, outside, results, again, later=True), slots)
        except ObservedException as observed:  # it would be raised when the backward is run
            args = [each.as_constant() if each.is_constant() else None for each in observed.error.args]
            name = observed.error.cls.__name__
            raises = name if getattr(builtins, name, None) is observed.error.cls else None, *args
        except Unsupported as refused:
            if all(pattern) or not isinstance(refused.__context__, TypeError):
                raise
            raises = TypeError.__name__, str(refused.__context__)  # as an operator has it of None
        reads_grad_mode = tx.graph.bodies[depth].reads_grad_mode
        del tx.graph.bodies[depth:]
        torch._C._set_grad_enabled(False)
        if reads_grad_mode or not all(type(each) is str for each in raises):
            unsupported(UnknownCall(f"{self.cls.__qualname__}.backward", "it raises"))
        return Backward(BodyVariable(tx.graph, "", []), [], raises)

    def _check_gradients(self, found: list[VariableTracker]) -> None:
        name = f"{self.cls.__qualname__}.backward"
        if len(found) < len(self.args) or not all(self.tx.is_none(each) for each in found[len(self.args) :]):
            unsupported(UnknownCall(name, f"it returns {len(found)} gradients for {len(self.args)} arguments"))
        for arg, gradient in zip(self.args, found):
            if not isinstance(gradient, TensorVariable) and not self.tx.is_none(gradient):
                unsupported(UnknownCall(name, f"it returns {gradient.describe()}"))
            if isinstance(gradient, TensorVariable) and not isinstance(arg, TensorVariable):
                unsupported(UnknownCall(name, "it returns a gradient for what is no tensor"))

    # -- the graph's node ------------------------------------------------------------------------------------------

    def _record(self, body: Any, outputs: list[Any], backwards: dict[Case, Backward], once: bool) -> VariableTracker:
        tx = self.tx
        inputs = [body.lifted[tensor.node] for tensor in self.tensors]
        extras = [node for node in body.lifted if body.lifted[node] not in inputs]
        results = [body.lifted.get(each.node, each.node) for each in outputs]
        places = {body.lifted[node]: ("extras", at) for at, node in enumerate(extras)}
        places.update((node, ("inputs", at)) for at, node in enumerate(inputs))
        lifted = [node for each in backwards.values() for node in each.body.lifted]
        wanted = list(dict.fromkeys(lifted))
        for node in wanted:
            if node not in places:
                if node not in results:
                    results.append(node)
                places[node] = ("results", results.index(node))
        saved = {body.lifted.get(each.node, each.node) for each in leaves(tx, TupleVariable(self.ctx.saved))}
        if any(each not in outputs for each in self.ctx.non_differentiable):
            unsupported(UnknownCall("ctx.mark_non_differentiable", "it is given what is not returned"))
        marked = tuple(outputs.index(each) for each in self.ctx.non_differentiable)
        dirty = tuple(map(self.tensors.index, self.ctx.dirty))  # type: ignore[arg-type]
        forward = BodyVariable(tx.graph, tx.graph.close(body, results), [])
        ways = [
            (case, tuple(map(wanted.index, each.body.lifted)), tuple(each.slots), each.raises)
            for case, each in backwards.items()
        ]
        kept = tuple((*places[node], node in saved) for node in wanted)
        facts = PlainVariable((len(outputs), marked, dirty, kept, self.ctx.materializes, tuple(ways)))
        if all(each.raises for each in backwards.values()):
            unsupported(UnknownCall(f"{self.cls.__qualname__}.backward", "it raises"))
        some = next(each.body for each in backwards.values() if not each.raises)
        bodies = TupleVariable([forward, *(some if each.raises else each.body for each in backwards.values())])
        name = ConstantVariable(self.cls.__name__)
        arguments: Args = [name, bodies, NodesVariable(extras), facts, ConstantVariable(once), *self.tensors]
        found = leaves(tx, record(tx, "call_function", graph_functions.autograd_function, arguments, {}))
        for each in self.ctx.dirty:  # compilers take the write for one without a history
            if each.fake.requires_grad and tx.graph.inputs_in_storage(each.fake):  # type: ignore[attr-defined]
                unsupported(UnknownCall(f"{self.cls.__qualname__}.apply", "it writes to a tensor that was given"))
        return self._result(found)

    def _result(self, outputs: list[Any]) -> VariableTracker:
        return outputs[0] if self.single else TupleVariable(list(outputs))


def _without_once(function: VariableTracker) -> tuple[VariableTracker, bool]:
    """The function inside of ``once_differentiable``."""
    value = getattr(function, "value", None)
    wrapped = getattr(value, "__wrapped__", None)
    if not isinstance(value, types.FunctionType) or wrapped is None or value.__code__ is not _ONCE:
        return function, False
    return FunctionVariable(wrapped, None), True


_ONCE = once_differentiable(len).__code__  # type: ignore[attr-defined]
