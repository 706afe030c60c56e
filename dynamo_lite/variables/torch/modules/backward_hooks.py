"""Full backward hooks of modules (``register_full_backward_hook``), which `Module.__call__` runs by a `BackwardHook`.

They are traced into the graph, as hooks on created tensors are, if they read nothing but the gradients and invariant
values. The graph breaks if several results require gradients, since only the backward knows which of them get one; and
if no argument of the module requires gradients, since torch warns then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeGuard

import torch
from torch.utils.hooks import BackwardHook

from dynamo_lite.insight.break_reasons import HookNotTraced, HookReads, UnsupportedAttribute
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import Args, NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.torch.autograd.function import GradientVariable
from dynamo_lite.variables.torch.autograd.tensor_hooks import depends_on_gradient_only
from dynamo_lite.variables.torch.higher_order.bodies import (
    LiteralVariable,
    NodesVariable,
    NodeVariable,
    body_parameters,
    tensor_leaves,
    trace_body,
)
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record, result


def _refuse(why: str) -> NoReturn:
    unsupported(HookNotTraced("a full backward hook", why))


class BackwardHookVariable(VariableTracker):
    """A `BackwardHook`. ``node``: its node in the graph, None if no argument requires gradients."""

    __slots__ = ("module", "hooks", "pre_hooks", "node", "inputs")

    def __init__(self, tx: Translator, module: VariableTracker, hooks: Args, pre_hooks: Args) -> None:
        self.source = None
        self.module = HookedModuleVariable(module)
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.node: torch.fx.Node | None = None
        self.inputs: list[VariableTracker] = []
        """The module's arguments, with the tensors that pass through the hook."""
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return BackwardHook

    def truth(self, tx: Translator) -> bool:
        return True

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in ("setup_input_hook", "setup_output_hook"):
            return BuiltinMethodVariable(self, name)
        unsupported(UnsupportedAttribute("a module's backward hooks", name))

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant("a module's backward hooks")

    def method_setup_input_hook(self, tx: Translator, args: VariableTracker) -> VariableTracker:
        self.inputs = [each.realize() for each in args.elements(tx)]
        tensors = _tensors(self.inputs)
        if not _are_differentiated(tensors):
            return args
        operands = [*_count_and_indices(self.inputs), *tensors]
        nodes, fakes = zip(*(each.as_fx() for each in operands), strict=True)
        fake = compute("call_function", graph_functions.module_inputs, list(fakes), {})
        node = tx.graph.call("call_function", graph_functions.module_inputs, nodes, {}, fake)
        self.node = tx.graph.item(node, 0, fake[0])
        passed: Args = [result(tx, tx.graph.item(node, at, fake[at]), fake[at]) for at in range(1, len(fake))]
        self.inputs = _replace_tensors(self.inputs, passed)
        return TupleVariable(list(self.inputs))

    def method_setup_output_hook(self, tx: Translator, output: VariableTracker) -> VariableTracker:
        output = output.realize()
        single = not issubclass(output.python_type(), tuple)
        outputs = [output] if single else [each.realize() for each in output.elements(tx)]
        tensors = _tensors(outputs)
        if not _are_differentiated(tensors):
            return output
        of_outputs = [each if _requires_grad(each) else None for each in outputs]
        has_one_gradient = sum(map(_requires_grad, outputs)) == 1
        if self.node is None or not has_one_gradient or not (single or type(output) is TupleVariable):
            _refuse("which gradients it gets is not known before the backward")
        of_inputs = [each if isinstance(each, TensorVariable) else None for each in self.inputs]  # at least zeros
        groups = [of_inputs, of_outputs]
        hooks, pre_hooks = (
            TupleVariable([self._trace_hook(tx, hook, each) for hook in some])
            for some, each in ((self.hooks, groups), (self.pre_hooks, groups[1:]))
        )
        operands = [NodeVariable(self.node), hooks, pre_hooks, *_count_and_indices(outputs), *tensors]
        passed = tensor_leaves(record(tx, "call_function", graph_functions.module_outputs, operands, {}))
        outputs = _replace_tensors(outputs, passed)
        return outputs[0] if single else TupleVariable(outputs)

    def _trace_hook(self, tx: Translator, hook: VariableTracker, groups: Sequence[Gradients]) -> VariableTracker:
        """Trace a hook as an operand of the operator. It may replace the gradients of the first group."""
        values = [each for group in groups for each in group]
        present = {at: each for at, each in enumerate(values) if each is not None}
        slots: list[int] = []

        def run() -> VariableTracker:
            fakes = [each.fake.detach().new_empty(()).expand(each.fake.shape) for each in present.values()]
            parameters = dict(zip(present, body_parameters(tx, fakes, GradientVariable), strict=True))
            gradients = iter([parameters.get(at) or ConstantVariable(None) for at in range(len(values))])
            arguments = [TupleVariable([next(gradients) for _ in group]) for group in groups]
            return tx.call(hook, [self.module, *arguments], {}).realize()

        def results(output: VariableTracker) -> list[VariableTracker]:
            items = [] if tx.is_none(output) else _replacements(tx, output, groups[0])
            kept = [each for each in items if not tx.is_none(each)]
            slots.extend(-1 if tx.is_none(each) else kept.index(each) for each in items)
            return kept

        body = trace_body(tx, run, [hook], results, grad_mode=False, later=True)
        if body.reads_grad_mode:  # double backward runs it in another grad mode
            _refuse("it depends on the grad mode")
        replacements = LiteralVariable(None if tx.is_none(body.output) else tuple(slots))
        return TupleVariable([body, NodesVariable(body.lifted), LiteralVariable(tuple(present)), replacements])


class HookedModuleVariable(VariableTracker):
    """The module argument of a hook. Its attributes may change before the backward runs."""

    __slots__ = ("module",)

    def __init__(self, module: VariableTracker) -> None:
        self.source = None
        self.module = module

    def python_type(self) -> type:
        return self.module.python_type()

    def describe(self) -> str:
        return "the module argument of a backward hook"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        unsupported(UnsupportedAttribute(self.describe(), name, "it may change before the hook runs"))

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant(self.describe())


def _tensors(values: Args) -> list[TensorVariable]:
    return [each for each in values if isinstance(each, TensorVariable)]


Gradients = Sequence[TensorVariable | None]
"""The tensors whose gradients a hook gets; None for a None."""


def _requires_grad(value: VariableTracker) -> TypeGuard[TensorVariable]:
    return isinstance(value, TensorVariable) and value.fake.requires_grad


def _are_differentiated(tensors: list[TensorVariable]) -> bool:
    result = torch.is_grad_enabled() and any(map(_requires_grad, tensors))
    if result and any(each.has_torch_function or each.is_wrapper for each in tensors):
        _refuse("the module's arguments or results are tensor subclasses")
    return result


def _count_and_indices(values: Args) -> list[VariableTracker]:
    """The number of values, and the indices of the tensors among them."""
    places = tuple(at for at, each in enumerate(values) if isinstance(each, TensorVariable))
    return [ConstantVariable(len(values)), LiteralVariable(places)]


def _replace_tensors(values: Args, tensors: Iterable[VariableTracker]) -> Args:
    new = iter(tensors)
    return [next(new) if isinstance(each, TensorVariable) else each for each in values]


def _replacements(tx: Translator, output: VariableTracker, gradients: Gradients) -> list[VariableTracker]:
    """The gradients that a hook returned, to replace the given ones."""
    items = [each.realize() for each in output.items] if isinstance(output, (TupleVariable, ListVariable)) else []
    if len(items) != len(gradients) or not all(_fits(tx, *pair) for pair in zip(items, gradients)):
        _refuse("it returns something else than a gradient for each argument of the module")
    return items


def _fits(tx: Translator, item: VariableTracker, of: TensorVariable | None) -> bool:
    if of is None or tx.is_none(item):
        return tx.is_none(item) and (of is None or not of.fake.requires_grad)
    return isinstance(item, TensorVariable) and (item.fake.shape, item.fake.dtype) == (of.fake.shape, of.fake.dtype)


@models(BackwardHook)
def _backward_hook(
    tx: Translator, module: VariableTracker, user_hooks: VariableTracker, user_pre_hooks: VariableTracker
) -> VariableTracker:
    hooks, pre_hooks = ([each.realize() for each in some.elements(tx)] for some in (user_hooks, user_pre_hooks))
    if tx.graph.read_grad_mode():
        if tx.graph.bodies:
            _refuse("it is called in a function that an operator runs")
        if not all(depends_on_gradient_only(tx, each) for each in (*hooks, *pre_hooks)):
            unsupported(HookReads("a full backward hook of a module"))
    return BackwardHookVariable(tx, module, hooks, pre_hooks)
