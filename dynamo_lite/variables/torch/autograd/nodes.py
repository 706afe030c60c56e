"""Nodes of autograd's graph: what is asked of ``grad_fn`` and what is behind it.

Those of tensors made inside are as the operators on fakes left them, which are autograd's own: a compiler's are others,
so what the trace says of them is what eager says.
"""

from __future__ import annotations

from typing import Any

import torch

from dynamo_lite.insight.break_reasons import OperatorFailed, UnknownCall, UnsupportedAttribute
from dynamo_lite.records.replaced_data import history
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import NotConstant, VariableTracker, unsupported, wraps_if
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.torch.tensors.tensor import ATTRIBUTES, TensorVariable


def _is_node(value: Any) -> bool:
    """Whether it is a node in C++ of a class of its own, which says what its name is."""
    kind = type(value)
    return getattr(torch._C._functions, kind.__name__, None) is kind and hasattr(kind, "next_functions")


class GradFnVariable(VariableTracker):
    """A node. ``tensor``: made inside, of which this is the ``grad_fn``; None: it was found, or is behind one."""

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
            return self._behind(tx, name)
        if not hasattr(type(self.value), name):
            tx.raise_error(AttributeError, f"'{type(self.value).__name__}' object has no attribute {name!r}")
        unsupported(UnsupportedAttribute(self.describe(), name))

    def method_name(self, tx: Translator) -> VariableTracker:
        return ConstantVariable(self.value.name())

    def _behind(self, tx: Translator, name: str) -> VariableTracker:
        found = getattr(self.value, name)
        if self.source is not None:
            return tx.attempt.values.wrap(found, self.source.child("c_attr", name))  # type: ignore[no-any-return]
        if name == "variable":
            known = tx.attempt.values.fakes.get(id(found))
            if known is None or known.fake is not found:
                unsupported(UnsupportedAttribute(self.describe(), name, "it is no tensor of the graph's"))
            return known  # type: ignore[no-any-return]
        return TupleVariable([TupleVariable([_made(tx, node, None), ConstantVariable(index)]) for node, index in found])

    def reconstruct(self, cg: Codegen) -> None:
        if self.tensor is None or self.tensor.fake.grad_fn is not self.value:
            raise NotConstant(self.describe())
        cg.load(self.tensor)
        cg.load_attr("grad_fn")


def _made(tx: Translator, node: Any, tensor: TensorVariable | None) -> VariableTracker:
    """One that an operator on fakes left, or that stands for what was there."""
    if node is None:
        return ConstantVariable(None)
    known = tx.attempt.values.memo.get(id(node))
    if known is None:
        if not _is_node(node) or node in _outside(tx):
            unsupported(UnknownCall("Tensor.grad_fn", "a Function of the program's, or of before, is another one here"))
        found = GradFnVariable(node, None, tensor)
        tx.attempt.provenance.created(found)
        known = tx.attempt.values.memo[id(node)] = node, found
    return known[1]  # type: ignore[no-any-return]


def _outside(tx: Translator) -> set[Any]:
    """What stands for the history of tensors that were found."""
    given = [each for each in tx.graph.tensors if each.value.requires_grad and not each.value.is_leaf]
    return set(history(each.fake for each in given))


def _is_written_view(tensor: TensorVariable) -> bool:
    fake = tensor.fake
    return fake._is_view() and not fake.is_inference() and bool(fake._version) and fake.requires_grad


def _grad_fn(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tensor.getattr(tx, "is_leaf").as_constant():
        return ConstantVariable(None)
    if tensor.has_torch_function or tx.graph.bodies:
        unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn"))
    if tx.graph.symbols.has_symbols or tx.graph.symbols.has_floats:  # for which other operators are recorded
        unsupported(OperatorFailed("Tensor.grad_fn", "it is asked beside numbers that differ", over_operands=True))
    if tx.graph.writes and any(map(_is_written_view, tx.attempt.values.fakes.values())):
        unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn", "a view of it, or it, is written to"))
    if tensor.source is None:
        return _made(tx, tensor.fake.grad_fn, tensor)
    if tensor.source in tx.graph.written:
        unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn", "it is written to"))
    return tx.attempt.values.wrap(tensor.value.grad_fn, tensor.source.child("c_attr", "grad_fn"))  # type: ignore[no-any-return]


ATTRIBUTES["grad_fn"] = _grad_fn


@wraps_if(_is_node, order=58)
def _wrap_node(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("type", type(value))
    return GradFnVariable(value, source)
