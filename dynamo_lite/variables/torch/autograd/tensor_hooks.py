"""Hooks on tensors. Those on tensors that were found are registered after the graph: no backward runs before.

Those on tensors that are made inside are functions of the graph's, if all that they do is a matter of the gradient:
what else they read may be another thing when the backward runs.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from dynamo_lite.bytecode import decode
from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import find_in_root, is_assigned_once
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.functions.function import CellVariable, FunctionVariable, NestedFunctionVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber
from dynamo_lite.variables.torch.higher_order.bodies import body_parameters, trace_body
from dynamo_lite.variables.torch.tensors.hook_handles import remove_hook
from dynamo_lite.variables.torch.tensors.tensor import METHODS, TensorVariable

from .function import GradientVariable

_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


class HandleVariable(VariableTracker):
    """What `register_hook` returns. ``node``: of the call in the graph, None where it comes after that."""

    __slots__ = ("tensor", "method", "hook", "before", "node", "removed")

    def __init__(
        self, tx: Translator, tensor: TensorVariable, method: str, hook: VariableTracker, node: Any = None
    ) -> None:
        self.source = None
        self.tensor = tensor
        self.method = method
        self.hook = hook
        handles = tx.attempt.provenance.all_of(HandleVariable)
        self.before = handles[-1] if handles else None
        """The one to be registered before."""
        self.node = node
        self.removed = False
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return RemovableHandle

    def describe(self) -> str:
        return "a hook's handle"

    def reconstruct(self, cg: Codegen) -> None:
        if self.node is not None or self.removed or self._moves(cg.attempt):
            raise NotConstant(self.describe())
        if self.before is not None:
            self.before.replay(cg)
        cg.load(self.tensor)
        cg.load_attr(self.method)
        cg.push_null()
        cg.swap()
        cg.finish_call([lambda: cg.load(self.hook)])

    def _moves(self, attempt: Attempt) -> bool:
        """Whether the tensor is another part of autograd's graph once the graph has written into it."""
        return not self.tensor.value.is_leaf and self.tensor.source in attempt.graph.written

    def replay(self, cg: Codegen) -> None:
        if self.node is None and not self.removed:
            cg.load(self)
            cg.pop_top()


def _register(method: str, tx: Translator, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    if tensor.has_torch_function or tx.graph.bodies or not tensor.fake.requires_grad:
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


def _register_inside(method: str, tx: Translator, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    if method != _HOOKS[0] or tensor.fake.is_leaf or tensor.fake._is_view() or not is_of_its_gradient(tx, hook):
        unsupported(UnsupportedAttribute(tensor.describe(), method, "what the hook reads may change until it is run"))

    def run() -> VariableTracker:
        fake = tensor.fake.detach().new_empty(()).expand(tensor.fake.shape)
        return tx.call(hook, list(body_parameters(tx, [fake], GradientVariable)), {}).realize()  # type: ignore[no-any-return]

    def results(output: VariableTracker) -> list[VariableTracker]:
        return [] if tx.is_none(output) else [output]

    body = trace_body(tx, run, [hook], results, grad_mode=False, later=True)
    output: Any = body.output
    if body.reads_grad_mode:  # the backward may be differentiated again
        unsupported(UnknownCall("Tensor.register_hook()", "its hook hangs on the grad mode that it is called in"))
    fits = isinstance(output, TensorVariable) and output.fake.shape == tensor.fake.shape
    if not (tx.is_none(output) or (fits and output.fake.dtype == tensor.fake.dtype)):
        unsupported(UnknownCall("Tensor.register_hook()", "its hook does more than to make another gradient"))
    arguments = (body.as_fx()[0], tensor.node, *body.lifted)
    return HandleVariable(
        tx, tensor, method, hook, tx.graph.call("call_function", graph_functions.hook, arguments, {}, None)
    )


def is_of_its_gradient(tx: Translator, hook: VariableTracker) -> bool:
    """Whether a function reads nothing but its argument, torch and builtins, and what stays as it is."""
    if hook.python_type() is functools.partial and hook.source is None:
        function, args, keywords = (hook.getattr(tx, name).realize() for name in ("func", "args", "keywords"))
        parts = (*(args.structure_items() or ()), *(keywords.structure_items() or ()))
        return is_of_its_gradient(tx, function) and all(_stays(tx, each) for each in parts)
    if not isinstance(hook, (FunctionVariable, NestedFunctionVariable)):
        return False
    names = {each.argval for each in _instructions(hook.code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    if not all(_is_fixed(hook.scope(tx), name) for name in names):
        return False
    defaults = [*hook.defaults(tx), *hook.keyword_defaults(tx).values()]
    if defaults and isinstance(hook, FunctionVariable):  # they may be other ones by then
        return False
    return all(_stays(tx, each) for each in defaults) and all(_is_final(tx, each) for each in hook.cells(tx))


def _instructions(code: types.CodeType) -> Iterator[Any]:
    """Those of a function and of the functions that it makes."""
    yield from decode(code)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _instructions(const)


def _is_fixed(scope: Any, name: str) -> bool:
    found = scope.load(name)
    if found is None:
        return hasattr(builtins, name)
    value = getattr(found, "value", None)
    return type(value) is types.ModuleType and value.__name__.partition(".")[0] == torch.__name__


def _stays(tx: Translator, value: VariableTracker) -> bool:
    """Whether a value is the same when the backward runs: of a tensor, that it is this tensor."""
    value = value.realize()
    if isinstance(value, TupleVariable):
        return all(_stays(tx, item) for item in value.items)
    if isinstance(value, TensorVariable):
        return not value.has_torch_function and not value.attrs
    return isinstance(value, (ConstantVariable, SymbolicNumber)) or is_of_its_gradient(tx, value)


def _is_final(tx: Translator, cell: CellVariable) -> bool:
    """Whether a cell has the value that it will have for good: no code that may yet run stores another one."""
    if cell.creator is None and find_in_root(tx, cell)[0] is None or cell.content is None:
        return False
    return _stays(tx, cell.content) and is_assigned_once(tx, cell, "")


def hooks_wait(tx: Translator) -> bool:
    """Whether a tensor that was found gets a hook after the graph."""
    handles = tx.attempt.provenance.all_of(HandleVariable)
    return any(each.node is None and not each.removed for each in handles)


def _remove(tx: Translator, handle: VariableTracker, *error: VariableTracker) -> VariableTracker:
    if not isinstance(handle, HandleVariable):
        return remove_hook(tx, handle)
    if tx.graph.bodies:
        unsupported(UnknownCall("RemovableHandle.remove()", "it is called in a function that an operator runs"))
    if handle.node is not None and not handle.removed:
        tx.graph.drop(handle.node)
    handle.removed = True
    return ConstantVariable(None)


models(RemovableHandle.remove, RemovableHandle.__exit__)(_remove)


@models(RemovableHandle.__enter__)
def _enter(tx: Translator, handle: VariableTracker) -> VariableTracker:
    return handle


for _name in _HOOKS:
    METHODS[_name] = lambda tx, tensor, hook, name=_name: _register(name, tx, tensor, hook)
