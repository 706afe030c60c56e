"""Hooks on tensors (``register_hook``).

A hook on a pre-existing tensor is registered after the graph, since no backward runs before. A hook on a tensor created
during tracing is traced into the graph, as the backward of a Function is: it may read nothing that changes before the
backward runs (`invariant_reads`).
"""

from __future__ import annotations

import functools
from collections import OrderedDict

import torch
from torch.utils.hooks import RemovableHandle

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import BackwardReads, HookNotTraced, UnsupportedAttribute
from dynamo_lite.plan.rows import Attribute, Value
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Attempt, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import check_value
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.torch.higher_order.bodies import body_parameters, trace_body
from dynamo_lite.variables.torch.higher_order.later_calls import LaterFunction, is_checked_later, lift_tensors
from dynamo_lite.variables.torch.tensors.hook_handles import remove_hook
from dynamo_lite.variables.torch.tensors.later_states import gradient_like
from dynamo_lite.variables.torch.tensors.tensor import METHODS, TensorVariable

_HOOK = "register_hook"
_HOOK_AFTER_ACCUMULATION = "register_post_accumulate_grad_hook"


class TensorHookVariable(VariableTracker):
    """The handle that `register_hook` returns. ``node``: the call in the graph, None if it comes after the graph."""

    __slots__ = ("tensor", "method", "hook", "before", "node", "removed")

    def __init__(
        self,
        tx: Translator,
        tensor: TensorVariable,
        method: str,
        hook: VariableTracker,
        node: torch.fx.Node | None = None,
    ) -> None:
        self.source = None
        self.tensor = tensor
        self.method = method
        self.hook = hook
        handles = tx.attempt.provenance.all_of(TensorHookVariable)
        self.before = handles[-1] if handles else None
        """The hook that was registered before this one. Generated code registers it first."""
        self.node = node
        self.removed = False
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return RemovableHandle

    def describe(self) -> str:
        return "the handle of a tensor's hook"

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in ("id", "hooks_dict_ref", "extra_dict_ref"):
            unsupported(UnsupportedAttribute(self.describe(), name, "it exists only after the graph"))
        return None

    def construct(self, plan: Planner) -> Value:
        if self.removed:  # what it refers to is gone
            return plan.call(RemovableHandle, plan.call(OrderedDict))
        if self.node is not None or self._is_moved(plan.attempt):
            raise NotConstant(self.describe())
        if self.before is not None:
            self.before.replay(plan)
        return plan.call(Attribute(plan.value(self.tensor), self.method), self.hook)

    def _is_moved(self, attempt: Attempt) -> bool:
        """Whether the tensor has another ``grad_fn`` after the graph, because the graph mutates it."""
        return not self.tensor.value.is_leaf and self.tensor.source in attempt.graph.written

    def replay(self, plan: Planner) -> None:
        if self.node is None and not self.removed:
            plan.value(self)


def _register(method: str, tx: Translator, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    if tx.graph.scope.is_nested:
        unsupported(HookNotTraced(f"{method}()", "it is called in a function that an operator runs"))
    if tensor.has_torch_function or not tensor.fake.requires_grad:
        unsupported(HookNotTraced(f"{method}() of {tensor.describe()}", "it requires no gradients, or is a subclass's"))
    hook = hook.realize()
    if tensor.source is None:
        return _register_in_graph(method, tx, tensor, hook)
    is_leaf = tensor.getattr(tx, "is_leaf").as_constant()  # guarded
    if method != _HOOK and not is_leaf:
        unsupported(HookNotTraced(f"{method}() of {tensor.describe()}", "it is no leaf"))
    handle = TensorHookVariable(tx, tensor, method, hook)
    tx.effects.note(handle)
    return handle


def _register_in_graph(method: str, tx: Translator, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    described = f"a hook of {tensor.describe()}"
    if method != _HOOK or tensor.fake.is_leaf:
        unsupported(HookNotTraced(described, "it is one of a leaf that is created in the graph"))

    is_checked = is_checked_later(tx)

    def run() -> VariableTracker:
        if is_checked:
            lift_tensors(tx.graph, [hook])
        return tx.call(hook, list(body_parameters(tx, [gradient_like(tensor.fake, False)])), {}).realize()

    def results(output: VariableTracker) -> list[VariableTracker]:
        return [] if tx.is_none(output) else [output]

    try:
        body = trace_body(tx, run, [hook], results, grad_mode=False, runs="hook")
    except Unsupported as error:
        raise _not_traced(described, error) from None
    if body.reads_grad_mode:  # double backward runs it in another grad mode
        unsupported(HookNotTraced("Tensor.register_hook()", "the hook depends on the grad mode"))
    if not tx.is_none(body.output) and not _is_like(body.output, tensor.fake):
        unsupported(HookNotTraced("Tensor.register_hook()", "the hook returns no gradient like the tensor"))
    later = LaterFunction(tx, body, lambda what: HookNotTraced(described, f"it reaches {what}"), hook).later
    if later is None:
        _check_parts(tx, described, hook)
    arguments = (body.as_fx()[0], later, tensor.node, *body.lifted)
    node = tx.graph.call("call_function", graph_functions.hook, arguments, {}, None)
    if tensor.fake._is_view():
        tx.attempt.provenance.hooked_views[tensor.node] = tx.attempt.provenance.step
    return TensorHookVariable(tx, tensor, method, hook, node)


def _check_parts(tx: Translator, described: str, hook: VariableTracker) -> None:
    """Break the graph if a hook reads a mutable object, and the graph doesn't check that when it calls the hook."""
    try:
        for each in _parts(tx, hook):
            check_value(each, "an object that it is a method or a partial of", in_hook=True)
    except Unsupported as error:
        raise _not_traced(described, error) from None


def _not_traced(described: str, error: Unsupported) -> Unsupported:
    if not isinstance(error.reason, BackwardReads):
        return error
    why = f"it reads {error.reason.place}, which may change before the backward runs"
    return Unsupported(HookNotTraced(described, why), error.user_stack)


def _is_like(value: VariableTracker, fake: torch.Tensor) -> bool:
    return isinstance(value, TensorVariable) and value.fake.shape == fake.shape and value.fake.dtype is fake.dtype


def _parts(tx: Translator, hook: VariableTracker) -> list[VariableTracker]:
    """The function and the arguments of a ``functools.partial``; else the hook itself."""
    if hook.python_type() is not functools.partial:
        return [hook]
    function, args, keywords = (hook.getattr(tx, name).realize() for name in ("func", "args", "keywords"))
    return [function, *(args.structure_items() or ()), *(keywords.structure_items() or ())]


def has_pending_hooks(tx: Translator) -> bool:
    """Whether a pre-existing tensor gets a hook after the graph."""
    handles = tx.attempt.provenance.all_of(TensorHookVariable)
    return any(each.node is None and not each.removed for each in handles)


def _remove(tx: Translator, handle: VariableTracker, *error: VariableTracker) -> VariableTracker:
    if not isinstance(handle, TensorHookVariable):
        return remove_hook(tx, handle)
    if tx.graph.scope.is_nested:
        unsupported(HookNotTraced("RemovableHandle.remove()", "it is called in a function that an operator runs"))
    if handle.node is not None and not handle.removed:
        tx.graph.drop(handle.node)
    handle.removed = True
    return ConstantVariable(None)


models(RemovableHandle.remove, RemovableHandle.__exit__)(_remove)


@models(RemovableHandle.__enter__)
def _enter(tx: Translator, handle: VariableTracker) -> VariableTracker:
    return handle


for _name in (_HOOK, _HOOK_AFTER_ACCUMULATION):
    METHODS[_name] = lambda tx, tensor, hook, name=_name: _register(name, tx, tensor, hook)
