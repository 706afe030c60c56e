"""Hooks on tensors. Those on tensors that were found are registered after the graph: no backward runs before.

Those on tensors that are made inside are functions of the graph's, if all that they do is a matter of the gradient:
what else they read may be another thing when the backward runs.
"""

from __future__ import annotations

import builtins
import types
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from .. import higher_order
from ..bytecode import decode
from ..reasons import UnknownCall, UnsupportedAttribute
from .autograd_function import GradientVariable
from .base import NotConstant, VariableTracker, unsupported
from .bodies import given, trace_body
from .constant import ConstantVariable
from .function import FunctionVariable, NestedFunctionVariable
from .registry import models
from .tensor import METHODS, TensorVariable

_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


class HandleVariable(VariableTracker):
    """What `register_hook` returns. ``node``: of the call in the graph, None where it comes after that."""

    __slots__ = ("tensor", "method", "hook", "before", "node", "removed")

    def __init__(self, tx: Any, tensor: TensorVariable, method: str, hook: VariableTracker, node: Any = None) -> None:
        self.source = None
        self.tensor = tensor
        self.method = method
        self.hook = hook
        handles = [each for each in tx.attempt.made_at if isinstance(each, HandleVariable)]
        self.before = handles[-1] if handles else None
        """The one to be registered before."""
        self.node = node
        self.removed = False
        tx.attempt.made_at[self] = tx.attempt.root_step

    def python_type(self) -> type:
        return RemovableHandle

    def describe(self) -> str:
        return "a hook's handle"

    def reconstruct(self, cg: Any) -> None:
        if self.node is not None or self.removed or self._moves(cg.attempt):
            raise NotConstant(self.describe())
        if self.before is not None:
            self.before.replay(cg)
        cg.load(self.tensor)
        cg.load_attr(self.method)
        cg.push_null()
        cg.swap()
        cg.finish_call([lambda: cg.load(self.hook)])

    def _moves(self, attempt: Any) -> bool:
        """Whether the tensor is another part of autograd's graph once the graph has written into it."""
        return not self.tensor.value.is_leaf and self.tensor.source in attempt.graph.written

    def replay(self, cg: Any) -> None:
        if self.node is None and not self.removed:
            cg.load(self)
            cg.pop_top()


def _register(method: str, tx: Any, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    if tensor.asks or tx.graph.bodies or not tensor.fake.requires_grad:
        unsupported(UnsupportedAttribute(tensor.describe(), method, "it changes the tensor object"))
    hook = hook.realize()
    if tensor.source is None:
        return _register_inside(method, tx, tensor, hook)
    if method != _HOOKS[0] and not tensor.getattr(tx, "is_leaf").as_constant():
        unsupported(UnsupportedAttribute(tensor.describe(), method, "it is no leaf"))
    tensor.getattr(tx, "is_leaf")
    made = HandleVariable(tx, tensor, method, hook)
    tx.effects.note(made)
    return made


def _register_inside(method: str, tx: Any, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    if method != _HOOKS[0] or tensor.fake.is_leaf or tensor.fake._is_view() or not _is_of_its_gradient(tx, hook):
        unsupported(UnsupportedAttribute(tensor.describe(), method, "what the hook reads may change until it is run"))

    def run() -> VariableTracker:
        fake = tensor.fake.detach().new_empty(()).expand(tensor.fake.shape)
        return tx.call(hook, list(given(tx, [(None, fake)], GradientVariable)), {}).realize()  # type: ignore[no-any-return]

    body = trace_body(tx, run, [hook], lambda output: [] if tx.is_none(output) else [output], grad_mode=False)
    output: Any = body.output
    fits = isinstance(output, TensorVariable) and output.fake.shape == tensor.fake.shape
    if body.lifted or not (tx.is_none(output) or (fits and output.fake.dtype == tensor.fake.dtype)):
        unsupported(UnknownCall("Tensor.register_hook()", "its hook does more than to make another gradient"))
    arguments = (body.as_fx()[0], tensor.node)
    return HandleVariable(
        tx, tensor, method, hook, tx.graph.call("call_function", higher_order.hook, arguments, {}, None)
    )


def _is_of_its_gradient(tx: Any, hook: VariableTracker) -> bool:
    """Whether a function reads nothing but its argument, constants, torch and builtins."""
    if not isinstance(hook, (FunctionVariable, NestedFunctionVariable)):
        return False
    code: types.CodeType = hook.code
    names = {each.argval for each in decode(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    plain = all(_is_fixed(hook.scope(tx), name) for name in names)
    return plain and not code.co_freevars and not hook.defaults(tx) and not hook.keyword_defaults(tx)


def _is_fixed(scope: Any, name: str) -> bool:
    found = scope.load(name)
    return hasattr(builtins, name) if found is None else getattr(found, "value", None) is torch


def _remove(tx: Any, handle: VariableTracker, *error: VariableTracker) -> VariableTracker:
    if not isinstance(handle, HandleVariable):
        unsupported(UnknownCall("RemovableHandle.remove()", "the hook was registered outside"))
    if tx.graph.bodies:
        unsupported(UnknownCall("RemovableHandle.remove()", "it is called in a function that an operator runs"))
    if handle.node is not None and not handle.removed:
        tx.graph.drop(handle.node)
    handle.removed = True
    return ConstantVariable(None)


models(RemovableHandle.remove, RemovableHandle.__exit__)(_remove)


@models(RemovableHandle.__enter__)
def _enter(tx: Any, handle: VariableTracker) -> VariableTracker:
    return handle


for _name in _HOOKS:
    METHODS[_name] = lambda tx, tensor, hook, name=_name: _register(name, tx, tensor, hook)
