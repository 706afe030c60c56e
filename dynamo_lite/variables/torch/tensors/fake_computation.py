"""Calls of operators on fake tensors: their results, and the graph breaks that their errors cause."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from dynamo_lite.insight.break_reasons import (
    DataDependentValue,
    OperatorFailed,
    OperatorNeedsSizes,
    TensorAsIndex,
)
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.runtime.node_text import bare_name
from dynamo_lite.variables.core.base import Translator, unsupported


def operator_name(target: object) -> str:
    """The name of a node's target in messages."""
    if isinstance(target, str):
        return f"Tensor.{target}"
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None) or str(target)
    return f"{module}.{name}" if isinstance(module, str) and not module.startswith("_") else name


OPERATOR_ERRORS: tuple[type[Exception], ...] = (Warning, AssertionError, *FOLDED_ERRORS)
"""Warnings are raised where the program's filters say so."""

_NO_DATA = "its data is not allocated yet"
"""In the message of a kernel that reads the data of a fake tensor."""
_SYMBOLIC = "on tensor with symbolic sizes/strides"
"""In the message of a kernel that can't compute with symbolic sizes."""


def call_on_fakes(kind: str, target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    if kind == "call_method":
        return getattr(fakes[0], target)(*fakes[1:], **kwargs)
    if getattr(target, "__module__", None) == graph_functions.__name__:
        return _call_with_bodies(target, fakes, kwargs)
    return target(*fakes, **kwargs)


def _call_with_bodies(target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call one of our graph functions, which may run torch.func transforms.

    The frames of a transform that fails hold guards of the dispatcher's thread-local state. Each guard restores that
    state when it is deallocated, so the frames are cleared here, under a guard that restores the state of before.
    """
    state = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(*state):
        try:
            return target(*fakes, **kwargs)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            raise


def compute(kind: str, target: object, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call an operator on fake tensors. An error breaks the graph, so that CPython runs the operator and raises it."""
    try:
        try:
            return call_on_fakes(kind, target, fakes, kwargs)
        except DataDependentOutputException:
            # Some operators read data only to check it. Their decompositions don't.
            with enable_python_dispatcher():
                return call_on_fakes(kind, target, fakes, kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        if operator_name(target) in _INDEXING and isinstance(error, DataDependentOutputException):
            unsupported(TensorAsIndex(_INDEXING[operator_name(target)]))
        unsupported(DataDependentValue(operator_name(target)))
    except UnsupportedOperatorException as error:
        unsupported(OperatorFailed(operator_name(target), f"no fake implementation of {error}"))
    except OPERATOR_ERRORS as error:
        reraise_if_asynchronous(error)
        first = str(error).strip().partition("\n")[0]
        if _NO_DATA in first:
            unsupported(DataDependentValue(operator_name(target)))
        if _SYMBOLIC in first:
            unsupported(OperatorNeedsSizes(operator_name(target)))
        unsupported(OperatorFailed(operator_name(target), f"{type(error).__name__}: {first}", over_operands=True))


_INDEXING = {"getitem": "indexing", "setitem": "an assignment"}


def compute_with_symbols(tx: Translator, kind: str, target: object, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """`compute` for tensors whose sizes may be symbolic."""
    symbols = tx.graph.symbols
    if not (symbols.has_symbols or symbols.of_data) or bare_name(target) in _NOT_DECOMPOSED:
        return compute(kind, target, fakes, kwargs)
    with enable_python_dispatcher():  # some decompositions are registered for symbolic sizes alone
        result = compute(kind, target, fakes, kwargs)
    tx.attempt.note_guards()
    return result


_NOT_DECOMPOSED = frozenset({"dropout"})
"""Operators whose decomposition returns a copy where the operator returns its argument."""
