"""Operators that warn. In eager, the warning points at the program's line and obeys the warnings filters.

Code of a graph has other lines, and a backend may run other operators. So an operator that warns in each call breaks
the graph. An operator that warns once in a process (of something deprecated) doesn't: its warning is shown while
tracing, at the program's line, and the operator in the graph doesn't repeat it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from dynamo_lite.insight.break_reasons import OperatorWarns
from dynamo_lite.records import code_origin
from dynamo_lite.records.captured_warnings import CAPTURED_WARNINGS, CapturedWarning
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.protocols import Translator
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
    with CAPTURED_WARNINGS as given:
        result = run()
    if not given:
        return result
    place = _place(tx)
    outer_filters = tx.attempt.torch_state.filters_at_graph_call
    shown = [each for each in given if _action(each, outer_filters, *place) != "ignore"]
    at_caller = [each for each in given if each.is_shown_at_caller]
    shown = shown or [
        each for each in at_caller if action_of(str(each.message), each.category, "", 0, outer_filters) != "ignore"
    ]
    actions = [(_action(each, warnings.filters, *place), each) for each in given]
    raises = any(action == "error" for action, _ in actions)
    if shown and (raises or versions != [version(each) for each in operands] or _warns(run)):
        unsupported(OperatorWarns(operator_name(target), _first_line(shown[0])))
    for action, each in actions:
        if action != "ignore":
            _show(each, *place)
    return result


def _first_line(warning: CapturedWarning) -> str:
    return str(warning.message).strip().partition("\n")[0]


def _warns(run: Callable[[], object]) -> bool:
    with CAPTURED_WARNINGS as captured:
        run()
    return bool(captured)


def _place(tx: Translator) -> tuple[str, int, dict[str, Any]]:
    """File, line and globals of the user code that calls the operator."""
    while code_origin.is_polyfill(tx.code) and tx.parent is not None:
        tx = tx.parent
    place = tx.place()
    return place.filename, place.lineno or 0, tx.scope.namespace


def _action(warning: CapturedWarning, filters: Any, filename: str, lineno: int, namespace: dict[str, Any]) -> str:
    module = str(namespace.get("__name__"))
    if not warning.is_shown_at_caller:
        module, lineno = _module_of(warning.filename), warning.lineno
    return action_of(str(warning.message), warning.category, module, lineno, filters)


def _module_of(filename: str) -> str:
    loaded = list(sys.modules.items())
    return next((name for name, each in loaded if getattr(each, "__dict__", {}).get("__file__") == filename), filename)


def _show(warning: CapturedWarning, filename: str, lineno: int, namespace: dict[str, Any]) -> None:
    if not warning.is_shown_at_caller:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return
    shown = namespace.setdefault("__warningregistry__", {})
    name = str(namespace.get("__name__"))
    warnings.warn_explicit(warning.message, warning.category, filename, lineno, name, shown)
