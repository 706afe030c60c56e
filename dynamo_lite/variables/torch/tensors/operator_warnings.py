"""Operators that warn. In eager, the warning points at the program's line and obeys the warnings filters.

Code of a graph has other lines, and a backend may run other operators. So an operator that warns in each call breaks
the graph. An operator that warns once in a process (of something deprecated) doesn't: its warning is shown while
tracing, at the program's line, and the operator in the graph doesn't repeat it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch

from dynamo_lite.insight.break_reasons import OperatorWarns
from dynamo_lite.records import code_origin
from dynamo_lite.records.captured_warnings import CAPTURED_WARNINGS, CapturedWarning
from dynamo_lite.variables.core.base import Translator, unsupported
from dynamo_lite.variables.polyfills.warnings import action_of

from .fake_computation import operator_name
from .mutated_arguments import version

_Result = TypeVar("_Result")


def run_capturing_warnings(
    tx: Translator, target: object, operands: Sequence[torch.Tensor], run: Callable[[], _Result]
) -> _Result:
    """Run an operator on fake tensors. ``operands``: the tensors among its arguments.

    The graph runs under the warnings filters of its caller. An operator breaks the graph if it would warn under those,
    at a line of the graph's code or although the program ignores the warning in a ``with`` block.
    """
    versions = [version(each) for each in operands]
    with CAPTURED_WARNINGS as captured:
        result = run()
    if not captured:
        return result
    given = [(each, _place(tx, each)) for each in captured]
    outer_filters = tx.attempt.torch_state.filters_at_graph_call
    shown = [each for each, place in given if _action(each, outer_filters, place) != "ignore"]
    shown = shown or [
        each for each, _ in given if each.is_shown_at_caller and _action(each, outer_filters, _NOWHERE) != "ignore"
    ]
    actions = [_action(each, warnings.filters, place) for each, place in given]
    mutated = versions != [version(each) for each in operands]
    if shown and ("error" in actions or mutated or _warns(run)):
        first_line = str(shown[0].message).strip().partition("\n")[0]
        unsupported(OperatorWarns(operator_name(target), first_line))
    for (each, place), action in zip(given, actions):
        if action != "ignore":
            registry = None if place.namespace is None else place.namespace.setdefault("__warningregistry__", {})
            warnings.warn_explicit(each.message, each.category, place.filename, place.lineno, place.module, registry)
    return result


def _warns(run: Callable[[], object]) -> bool:
    with CAPTURED_WARNINGS as captured:
        run()
    return bool(captured)


class _Place(NamedTuple):
    """The line at which eager would show a warning. ``namespace``: the globals of its module, which record that it was
    shown; None if the line is in torch."""

    filename: str
    lineno: int
    module: str
    namespace: dict[str, Any] | None


_NOWHERE = _Place("", 0, "", None)
"""A line of the graph's code."""


def _place(tx: Translator, warning: CapturedWarning) -> _Place:
    filename = warning.filename
    if not warning.is_shown_at_caller:
        loaded = list(sys.modules.items())
        names = (name for name, each in loaded if getattr(each, "__dict__", {}).get("__file__") == filename)
        return _Place(filename, warning.lineno, next(names, filename), None)
    while code_origin.is_polyfill(tx.code) and tx.parent is not None:
        tx = tx.parent
    place, namespace = tx.place(), tx.scope.namespace
    return _Place(place.filename, place.lineno or 0, str(namespace.get("__name__")), namespace)


def _action(warning: CapturedWarning, filters: Any, place: _Place) -> str:
    return action_of(str(warning.message), warning.category, place.module, place.lineno, filters)
