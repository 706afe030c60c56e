"""Operators called on fakes: what they give, and what they raise."""

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

from dynamo_lite.insight.break_reasons import DataDependentValue, OperatorFailed
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.interrupts import reraise_if_from_signal
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.protocols import Translator


def operator_name(target: Any) -> str:
    """How a graph's target is called in messages."""
    if isinstance(target, str):
        return f"Tensor.{target}"
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None) or str(target)
    return f"{module}.{name}" if isinstance(module, str) and not module.startswith("_") else name


_OPERATOR_ERRORS = (
    Warning,  # where the program's filters make errors of them
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    NotImplementedError,
    AssertionError,
    KeyError,
    OverflowError,
    ZeroDivisionError,
)


def called_on(kind: str, target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    if kind == "call_method":
        return getattr(fakes[0], target)(*fakes[1:], **kwargs)
    if getattr(target, "__module__", None) == graph_functions.__name__:
        return _call_over_functions(target, fakes, kwargs)
    return target(*fakes, **kwargs)


def _call_over_functions(target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """What fails under transforms of torch.func leaves frames behind that hold guards of the dispatcher's state, which
    put back what there was inside whenever they die."""
    state = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(*state):
        try:
            return target(*fakes, **kwargs)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            raise


def compute(kind: str, target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """The call on fakes; what it raises breaks the graph, so that CPython raises it."""
    try:
        try:
            return called_on(kind, target, fakes, kwargs)
        except DataDependentOutputException:
            with enable_python_dispatcher():  # some decompositions read no data where the operator does, to check it
                return called_on(kind, target, fakes, kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException):
        unsupported(DataDependentValue(operator_name(target)))
    except UnsupportedOperatorException as error:
        unsupported(OperatorFailed(operator_name(target), f"no fake implementation of {error}"))
    except _OPERATOR_ERRORS as error:
        reraise_if_from_signal(error)
        first = str(error).strip().partition("\n")[0]
        unsupported(OperatorFailed(operator_name(target), f"{type(error).__name__}: {first}", over_operands=True))


def on_fakes(tx: Translator, kind: str, target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """The same, where sizes may be symbols."""
    name = target if kind == "call_method" else getattr(target, "__name__", "")
    if not tx.graph.symbols.has_symbols or name in _BETTER_WHOLE:
        return compute(kind, target, fakes, kwargs)
    with enable_python_dispatcher():  # some decompositions are for symbols alone
        found = compute(kind, target, fakes, kwargs)
    tx.attempt.note_guards()
    return found


_BETTER_WHOLE = frozenset({"dropout"})
"""Operators whose decompositions give something else: a copy, where it is what it was given."""
