"""The module ``copy``: copies of containers are modelled here; other objects are copied by their classes' methods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import CopyOfValue
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.attributes import MethodVariable
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import mro
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import key_of
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import (
    MutableSequence,
    SizeVariable,
    StructSequenceVariable,
    TupleVariable,
)
from dynamo_lite.variables.python.containers.sets import SetVariable
from dynamo_lite.variables.python.functions.builtin_callable import BuiltinVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable, NestedFunctionVariable
from dynamo_lite.variables.python.objects.enumeration import EnumVariable
from dynamo_lite.variables.python.objects.identifiers import IdVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.autograd.created_leaves import spans_storage
from dynamo_lite.variables.torch.modules.nn_module import NNModuleVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

Copier = Callable[[Any, Any], VariableTracker]
"""Takes the translator (or a `_DeepCopy`) and the original, returns the copy."""


def _itself(tx: Translator, of: VariableTracker) -> VariableTracker:
    return of


def _copy_object(tx: Translator, of: VariableTracker) -> VariableTracker:
    return tx.call(tx.make(polyfills.copy.copy_object), [of], {})


_ATOMIC = frozenset(
    {ConstantVariable, ClassVariable, FunctionVariable, NestedFunctionVariable, BuiltinVariable, EnumVariable}
)
"""Kinds whose copy is the object itself, subclasses included."""
_COPIERS: dict[type, Copier] = {
    **dict.fromkeys(_ATOMIC, _itself),
    **dict.fromkeys((MutableSequence, DictVariable, SetVariable), lambda tx, of: of.call_method(tx, "copy", [], {})),
    TupleVariable: _itself,
    SizeVariable: lambda tx, of: of.make(list(of.items)),
    StructSequenceVariable: lambda tx, of: of.like(list(of.items)),
    UserObjectVariable: _copy_object,
    NNModuleVariable: _copy_object,
}
"""`copy.copy`, by the kind of the original."""
_EXACT = frozenset({UserObjectVariable, TupleVariable})
"""Kinds whose rows don't hold for their subclasses."""


def _copier(table: dict[type, Any], of: VariableTracker) -> Any:
    """The row of a value's kind, or of its first base that has one."""
    kind = type(of)
    return next((table[base] for base in mro(kind) if base in table and (base is kind or base not in _EXACT)), None)


@models(copy.copy)
def _copy(tx: Translator, of: VariableTracker) -> VariableTracker:
    copier = _copier(_COPIERS, of)
    if copier is None:
        unsupported(CopyOfValue("copy.copy", of.describe()))
    return copier(tx, of)


class MemoVariable(DictVariable):
    """The memo of a deep copy in progress: ids of originals -> their copies."""

    __slots__ = ()


@models(copy.deepcopy)
def _deepcopy(tx: Translator, of: VariableTracker, memo: VariableTracker | None = None) -> VariableTracker:
    if memo is None or tx.is_none(memo):
        memo = MemoVariable({})
    if not isinstance(memo, MemoVariable):
        unsupported(CopyOfValue("copy.deepcopy", f"{of.describe()}, with a memo,"))
    return _DeepCopy(tx, memo).copy(of)


class _DeepCopy:
    """One call of ``copy.deepcopy``."""

    def __init__(self, tx: Translator, memo: MemoVariable) -> None:
        self._tx = tx
        self._memo = memo

    def copy(self, of: VariableTracker) -> VariableTracker:
        of = of.realize()
        copier = _copier(_DEEP_COPIERS, of)
        if copier is _itself:
            return of
        existing = self._memo.items.get(key_of(self._tx, IdVariable(of)))
        if existing is not None:
            return existing.realize()
        if copier is None:
            unsupported(CopyOfValue("copy.deepcopy", of.describe()))
        copied: VariableTracker = copier(self, of)
        return copied if copied is of else self._remember(of, copied)

    def _remember(self, of: VariableTracker, copied: Any) -> Any:
        self._memo.put(self._tx, IdVariable(of), copied)
        return copied

    def _sequence(self, of: MutableSequence) -> VariableTracker:
        copied = self._remember(of, of.make([]))
        copied.items.extend(self.copy(item) for item in of.items)
        return copied

    def _tuple(self, of: TupleVariable) -> VariableTracker:
        items = [self.copy(item) for item in of.items]
        existing = self._memo.items.get(key_of(self._tx, IdVariable(of)))  # copied with an item that contains it
        if existing is not None:
            return existing.realize()
        return of if all(a is b.realize() for a, b in zip(items, of.items)) else TupleVariable(items)

    def _struct_sequence(self, of: StructSequenceVariable) -> VariableTracker:
        return of.like([self.copy(item) for item in of.items])

    def _dict(self, of: DictVariable) -> Any:
        copied = self._remember(of, of.like({}, {}))
        for key, value in of.items.items():
            copied.put(self._tx, self.copy(of.key_variable(key)), self.copy(value))
        return copied

    def _set(self, of: SetVariable) -> VariableTracker:
        return SetVariable.of(self._tx, [self.copy(item) for item in of.elements(self._tx)], of.cls)

    def _method(self, of: MethodVariable) -> VariableTracker:
        return MethodVariable(of.function, self.copy(of.receiver))

    def _object(self, of: UserObjectVariable) -> VariableTracker:
        return self._tx.call(self._tx.make(polyfills.copy.deepcopy_object), [of, self._memo], {}).realize()

    def _tensor(self, of: TensorVariable) -> VariableTracker:
        """A parameter is copied by its class's method.

        ``Tensor.__deepcopy__`` copies the whole storage, and tensors that share it share the copy. So only a tensor
        that is alone in its storage is copied here.
        """
        tx = self._tx
        if of.cls is torch.nn.Parameter:
            return tx.call(tx.make(torch.nn.Parameter.__deepcopy__), [of, self._memo], {}).realize()
        is_plain = of.cls is torch.Tensor and not of.has_torch_function and not of.attrs
        is_leaf = is_plain and of.getattr(tx, "is_leaf").as_constant()
        if not is_leaf or not tx.is_none(of.getattr(tx, "grad")) or not _owns_memory(tx.graph, of):
            unsupported(CopyOfValue("copy.deepcopy", of.describe()))
        data = of.getattr(tx, "data")
        clone = tx.call(data.getattr(tx, "clone"), [], {"memory_format": tx.make(torch.preserve_format)})
        return tx.call(clone.getattr(tx, "requires_grad_"), [], {}) if of.fake.requires_grad else clone.realize()


def _owns_memory(graph: GraphBuilder, of: TensorVariable) -> bool:
    """Whether a tensor covers its whole storage, is the only tensor in it, and has no attributes; guarded."""
    if of.source is None or of.value is None:
        return False
    of.source.child("instance_dict").check("length", 0)
    graph.alone.add(of.source)
    return not vars(of.value) and spans_storage(graph, of.fake) and len(graph.inputs_in_storage(of.fake)) == 1


_DEEP_COPIERS: dict[type, Any] = {
    **dict.fromkeys(_ATOMIC, _itself),
    MutableSequence: _DeepCopy._sequence,
    TupleVariable: _DeepCopy._tuple,
    SizeVariable: lambda deep_copy, of: of.make(list(of.items)),
    StructSequenceVariable: _DeepCopy._struct_sequence,
    DictVariable: _DeepCopy._dict,
    SetVariable: _DeepCopy._set,
    MethodVariable: _DeepCopy._method,
    UserObjectVariable: _DeepCopy._object,
    NNModuleVariable: _DeepCopy._object,
    TensorVariable: _DeepCopy._tensor,
}
"""`copy.deepcopy`, by the kind of the original."""
