"""Full backward hooks of modules. Without gradients `Module.__call__` asks for them and does nothing.

With gradients they are functions of the graph's, as hooks on tensors made inside are, if all that they do is a matter
of the gradients. Whether a result that is one of several gets a gradient is only known in the backward: that breaks, as
does a module none of whose arguments requires one, of which torch warns then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.hooks import BackwardHook

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import Args, NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import ListVariable, TupleVariable
from dynamo_lite.variables.torch.autograd.function import GradientVariable
from dynamo_lite.variables.torch.autograd.tensor_hooks import is_of_its_gradient
from dynamo_lite.variables.torch.higher_order.bodies import (
    LiteralVariable,
    NodesVariable,
    NodeVariable,
    body_parameters,
    tensor_leaves,
    trace_body,
)
from dynamo_lite.variables.torch.tensors.fake_calls import compute
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record, result

_NAME = "a full backward hook"


class BackwardHookVariable(VariableTracker):
    """What `Module.__call__` keeps between arguments and results. ``node``: it in the graph; None: it is of no use."""

    __slots__ = ("module", "hooks", "pre_hooks", "node", "inputs")

    def __init__(self, tx: Translator, module: VariableTracker, hooks: Args, pre_hooks: Args) -> None:
        self.source = None
        self.module = HookedModuleVariable(module)
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.node: Any = None
        self.inputs: list[VariableTracker] = []
        """The arguments, as they are passed on."""
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
        operands = [*_numbers(self.inputs), *tensors]
        nodes, fakes = zip(*(each.as_fx() for each in operands), strict=True)
        known = compute("call_function", graph_functions.module_inputs, list(fakes), {})
        found = tx.graph.call("call_function", graph_functions.module_inputs, nodes, {}, known)
        self.node = tx.graph.item(found, 0, known[0])
        passed = [result(tx, tx.graph.item(found, at, known[at]), known[at]) for at in range(1, len(known))]
        self.inputs = _replaced(self.inputs, passed)
        return TupleVariable(list(self.inputs))

    def method_setup_output_hook(self, tx: Translator, output: VariableTracker) -> VariableTracker:
        output = output.realize()
        single = not issubclass(output.python_type(), tuple)
        outputs = [output] if single else [each.realize() for each in output.elements(tx)]
        tensors = _tensors(outputs)
        if not _are_differentiated(tensors):
            return output
        there = [at for at, each in enumerate(outputs) if isinstance(each, TensorVariable) and each.fake.requires_grad]
        if self.node is None or len(there) > 1 or not (single or type(output) is TupleVariable):
            unsupported(UnknownCall(_NAME, "which gradients it is given is not known"))
        of_inputs = [each if isinstance(each, TensorVariable) else None for each in self.inputs]  # zeros at least
        groups: list[list[Any]] = [of_inputs, [each if at in there else None for at, each in enumerate(outputs)]]
        hooks, pre_hooks = (
            TupleVariable([self._traced(tx, hook, each) for hook in some])
            for some, each in ((self.hooks, groups), (self.pre_hooks, groups[1:]))
        )
        operands = [NodeVariable(self.node), hooks, pre_hooks, *_numbers(outputs), *tensors]
        found = tensor_leaves(record(tx, "call_function", graph_functions.module_outputs, operands, {}))
        outputs = _replaced(outputs, list(found))
        return outputs[0] if single else TupleVariable(outputs)

    def _traced(self, tx: Translator, hook: VariableTracker, groups: list[list[Any]]) -> VariableTracker:
        """A hook as an operand of the operator. ``groups``: the gradients that it is given, as the tensors that they
        are of, None where there is none. It may replace those of the first."""
        values = [each for group in groups for each in group]
        there = tuple(at for at, each in enumerate(values) if each is not None)
        wanted: list[int] = []

        def run() -> VariableTracker:
            fakes = [values[at].fake for at in there]
            fakes = [each.detach().new_empty(()).expand(each.shape) for each in fakes]
            known = dict(zip(there, body_parameters(tx, [each for each in fakes], GradientVariable), strict=True))
            gradients = iter([known.get(at) or ConstantVariable(None) for at in range(len(values))])
            arguments = [TupleVariable([next(gradients) for _ in group]) for group in groups]
            return tx.call(hook, [self.module, *arguments], {}).realize()  # type: ignore[no-any-return]

        def results(output: VariableTracker) -> list[VariableTracker]:
            items = [] if tx.is_none(output) else _replacements(tx, output, groups[0])
            kept = [each for each in items if not tx.is_none(each)]
            wanted.extend(-1 if tx.is_none(each) else kept.index(each) for each in items)
            return kept

        body = trace_body(tx, run, [hook], results, grad_mode=False, later=True)
        if body.reads_grad_mode:  # the backward may be differentiated again
            unsupported(UnknownCall(_NAME, "it hangs on the grad mode that it is called in"))
        slots = None if tx.is_none(body.output) else tuple(wanted)
        return TupleVariable([body, NodesVariable(body.lifted), LiteralVariable(there), LiteralVariable(slots)])


class HookedModuleVariable(VariableTracker):
    """The module that a hook is given: what it has may be another thing when the backward runs."""

    __slots__ = ("module",)

    def __init__(self, module: VariableTracker) -> None:
        self.source = None
        self.module = module

    def python_type(self) -> type:
        return self.module.python_type()

    def describe(self) -> str:
        return "the module of a backward hook"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        unsupported(UnsupportedAttribute(self.describe(), name, "it may change until the hook is run"))

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant(self.describe())


def _tensors(values: Args) -> list[TensorVariable]:
    return [each for each in values if isinstance(each, TensorVariable)]


def _are_differentiated(tensors: list[TensorVariable]) -> bool:
    found = torch.is_grad_enabled() and any(each.fake.requires_grad for each in tensors)
    if found and any(each.has_torch_function or each.is_wrapper for each in tensors):
        unsupported(UnknownCall(_NAME, "it is of tensors of the program's own classes"))
    return found


def _numbers(values: Args) -> list[VariableTracker]:
    """How many values there are, and where the tensors are among them."""
    places = tuple(at for at, each in enumerate(values) if isinstance(each, TensorVariable))
    return [ConstantVariable(len(values)), LiteralVariable(places)]


def _replaced(values: Args, tensors: list[Any]) -> Args:
    new = iter(tensors)
    return [next(new) if isinstance(each, TensorVariable) else each for each in values]


def _replacements(tx: Translator, output: VariableTracker, gradients: list[Any]) -> list[VariableTracker]:
    """What a hook returned in the place of the gradients of these tensors."""
    known = isinstance(output, (TupleVariable, ListVariable))
    items = [each.realize() for each in output.items] if known else []  # type: ignore[attr-defined]
    if len(items) != len(gradients) or not all(_fits(tx, *pair) for pair in zip(items, gradients)):
        unsupported(UnknownCall(_NAME, "it does more than to make other gradients"))
    return items


def _fits(tx: Translator, item: VariableTracker, of: TensorVariable | None) -> bool:
    if of is None or tx.is_none(item):
        return bool(tx.is_none(item)) and (of is None or not of.fake.requires_grad)
    facts = [(each.fake.shape, each.fake.dtype) for each in (item, of) if isinstance(each, TensorVariable)]
    return len(facts) == 2 and facts[0] == facts[1]


@models(BackwardHook)
def _backward_hook(
    tx: Translator, module: VariableTracker, user_hooks: VariableTracker, user_pre_hooks: VariableTracker
) -> VariableTracker:
    hooks, pre_hooks = ([each.realize() for each in some.elements(tx)] for some in (user_hooks, user_pre_hooks))
    if tx.graph.read_grad_mode():
        if tx.graph.bodies:
            unsupported(UnknownCall(_NAME, "it is called in a function that an operator runs"))
        if not all(is_of_its_gradient(tx, each) for each in (*hooks, *pre_hooks)):
            unsupported(UnknownCall(_NAME, "what it reads may change until it is run"))
    return BackwardHookVariable(tx, module, hooks, pre_hooks)
