"""Nodes of autograd's graph: ``grad_fn``, its name and its ``next_functions``.

A tensor created during tracing has the node that the operator on fake tensors left, as in eager. A compiled graph
leaves another node, so nodes are read while tracing alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import Node

from dynamo_lite.insight.break_reasons import OperatorFailed, UnknownCall, UnsupportedAttribute
from dynamo_lite.records.replaced_data import history
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import NotConstant, VariableTracker, unsupported, wraps_if
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.torch.tensors.tensor import ATTRIBUTES, TensorVariable


def _is_node(value: Any) -> bool:
    """Whether a value is a node of a C++ class of its own (not one that many operators share)."""
    kind = type(value)
    return getattr(torch._C._functions, kind.__name__, None) is kind and hasattr(kind, "next_functions")


class GradFnVariable(VariableTracker):
    """A node. ``tensor``: the created tensor whose ``grad_fn`` it is, if it is one's."""

    __slots__ = ("value", "tensor")

    def __init__(self, value: Any, source: Source | None, tensor: TensorVariable | None = None) -> None:
        self.source = source
        self.value = value
        self.tensor = tensor

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"a node of autograd's graph ({type(self.value).__name__})"

    def truth(self, tx: Translator) -> bool:
        return True

    def key(self) -> Any:
        return self

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.make(type(self.value))
        if name == "name":
            return BuiltinMethodVariable(self, name)
        if name in ("next_functions", "variable") and hasattr(self.value, name):
            return self._successors(tx, name)
        if not hasattr(type(self.value), name):
            tx.raise_error(AttributeError, f"'{type(self.value).__name__}' object has no attribute {name!r}")
        unsupported(UnsupportedAttribute(self.describe(), name))

    def method_name(self, tx: Translator) -> VariableTracker:
        return ConstantVariable(self.value.name())

    def _successors(self, tx: Translator, name: str) -> VariableTracker:
        """``next_functions``, or the leaf (``variable``) of a node that accumulates gradients."""
        value = getattr(self.value, name)
        if self.source is not None:
            return tx.attempt.values.wrap(value, self.source.child("c_attr", name))
        if name == "variable":
            tensor = tx.attempt.values.fakes.get(id(value))
            if not isinstance(tensor, TensorVariable) or tensor.fake is not value:
                unsupported(UnsupportedAttribute(self.describe(), name, "it is no tensor of the graph"))
            return tensor
        return TupleVariable([TupleVariable([_node(tx, node), ConstantVariable(index)]) for node, index in value])

    def reconstruct(self, cg: Codegen) -> None:
        if self.tensor is None or self.tensor.fake.grad_fn is not self.value:
            raise NotConstant(self.describe())
        cg.load(self.tensor)
        cg.load_attr("grad_fn")


def _node(tx: Translator, node: Node | None, tensor: TensorVariable | None = None) -> VariableTracker:
    """The tracker of a node that an operator on fake tensors left."""
    if node is None:
        return ConstantVariable(None)
    known = tx.attempt.values.memo.get(id(node))
    if known is None:
        if not _is_node(node) or node in _outside(tx):
            unsupported(UnknownCall("Tensor.grad_fn", "the node is an autograd.Function's, or from before the graph"))
        created = GradFnVariable(node, None, tensor)
        tx.attempt.provenance.created(created)
        known = tx.attempt.values.memo[id(node)] = node, created
    return known[1]


def _outside(tx: Translator) -> set[Node]:
    """The fake nodes that stand for the history of pre-existing tensors."""
    inputs = [each for each in tx.graph.tensors if each.value.requires_grad and not each.value.is_leaf]
    return set(history(each.fake for each in inputs))


def _is_mutated_view(tensor: TensorVariable) -> bool:
    fake = tensor.fake
    return fake._is_view() and not fake.is_inference() and bool(fake._version) and fake.requires_grad


def _grad_fn(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tensor.getattr(tx, "is_leaf").as_constant():
        return ConstantVariable(None)
    if tensor.has_torch_function or tx.graph.bodies:
        unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn", "it is read in an operator's function"))
    if tx.graph.symbols.has_symbols or tx.graph.symbols.has_floats:  # they may change which operators are recorded
        unsupported(OperatorFailed("Tensor.grad_fn", "it depends on symbolic numbers", over_operands=True))
    if tx.graph.writes and any(map(_is_mutated_view, tx.attempt.values.fakes.values())):
        unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn", "a view was mutated"))
    if tensor.source is None:
        return _node(tx, tensor.fake.grad_fn, tensor)
    if tensor.source in tx.graph.written:
        unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn", "the tensor is mutated"))
    return tx.attempt.values.wrap(tensor.value.grad_fn, tensor.source.child("c_attr", "grad_fn"))


ATTRIBUTES["grad_fn"] = _grad_fn


@wraps_if(_is_node, order=58)
def _wrap_node(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("type", type(value))
    return GradFnVariable(value, source)
