"""The module ``copy``, which `polyfills.copy` replaces: what is its own copy, and copies of tensors."""

from __future__ import annotations

import torch

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.functions.builtin_callable import BuiltinVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable, NestedFunctionVariable
from dynamo_lite.variables.python.objects.enumeration import EnumVariable
from dynamo_lite.variables.torch.autograd.created_leaves import spans_storage
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_ATOMIC = (ConstantVariable, ClassVariable, FunctionVariable, NestedFunctionVariable, BuiltinVariable, EnumVariable)


@models(polyfills.copy.is_atomic)
def _is_atomic(tx: Translator, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(isinstance(of, _ATOMIC))


@models(polyfills.copy.copy_tensor)
def _copy_tensor(tx: Translator, of: VariableTracker) -> VariableTracker:
    """``Tensor.__deepcopy__`` copies the whole storage, and tensors that share it share the copy. So a leaf is copied
    here only if it is alone in its storage."""
    if not isinstance(of, TensorVariable) or not _is_plain_leaf(tx, of) or not _owns_memory(tx, of):
        unsupported(UnsupportedOperation("copy.deepcopy()", of.describe()))
    data = of.getattr(tx, "data")
    clone = tx.call(data.getattr(tx, "clone"), [], {"memory_format": tx.make(torch.preserve_format)})
    return tx.call(clone.getattr(tx, "requires_grad_"), [], {}) if of.fake.requires_grad else clone


def _is_plain_leaf(tx: Translator, of: TensorVariable) -> bool:
    if of.has_torch_function or of.attrs:
        return False
    return bool(of.getattr(tx, "is_leaf").as_constant()) and tx.is_none(of.getattr(tx, "grad"))


def _owns_memory(tx: Translator, of: TensorVariable) -> bool:
    """Whether a tensor covers its whole storage, is the only tensor in it, and has no attributes; guarded."""
    if of.source is None or of.value is None:
        return False
    of.source.child("instance_dict").check("length", 0)
    tx.graph.alone.add(of.source)
    return not vars(of.value) and spans_storage(tx, of.fake) and len(tx.graph.inputs_in_storage(of.fake)) == 1
