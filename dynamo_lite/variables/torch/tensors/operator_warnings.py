"""Operators that warn: eager shows it at the program's line, as often as its filters say.

A graph's code has other lines, and other backends run other operators. So an operator that warns each time breaks the
graph, and CPython runs it. What it warns of once in a process, as torch does of what is deprecated, is shown while
tracing as from the program's line: the operator in the graph says nothing of it then.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import OperatorWarns
from dynamo_lite.records import code_origin
from dynamo_lite.records.captured_warnings import CapturedWarning, CapturedWarnings, action_for
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.protocols import Translator

from .fake_calls import operator_name
from .mutated_arguments import version


def run_heard(tx: Translator, target: Any, operands: list[torch.Tensor], run: Callable[[], Any]) -> Any:
    """Run an operator on fakes. ``operands``: the tensors among its arguments.

    The graph runs under the filters that are in force around it. An operator that would warn from there, at another
    line or although a block inside ignores it, breaks the graph.
    """
    versions = [version(each) for each in operands]
    with CapturedWarnings() as first:
        result = run()
    if not first.heard:
        return result
    place, around = _place(tx), tx.attempt.torch_state.filters_at_graph_call
    shown = [each for each in first.heard if _action(each, around, *place) != "ignore"]
    shown = shown or [
        each for each in first.heard if each.is_shown_at_caller and action_for(each, around, "", 0) != "ignore"
    ]
    told = [(_action(each, warnings.filters, *place), each) for each in first.heard]
    raises = any(action == "error" for action, _ in told)
    if shown and (raises or versions != [version(each) for each in operands] or _warns(run)):
        unsupported(OperatorWarns(operator_name(target), _first_line(shown[0])))
    for action, each in told:
        if action != "ignore":
            _show(each, *place)
    return result


def _first_line(warning: CapturedWarning) -> str:
    return str(warning.message).strip().partition("\n")[0]


def _warns(run: Callable[[], Any]) -> bool:
    with CapturedWarnings() as listening:
        run()
    return bool(listening.heard)


def _place(tx: Translator) -> tuple[str, int, dict[str, Any]]:
    """File, line and globals of the program's code that calls the operator."""
    while code_origin.is_polyfill(tx.code) and tx.parent is not None:
        tx = tx.parent
    place = tx.place()
    return place.filename, place.lineno or 0, tx.scope.namespace


def _action(warning: CapturedWarning, filters: Any, filename: str, lineno: int, namespace: dict[str, Any]) -> str:
    if warning.is_shown_at_caller:
        return action_for(warning, filters, str(namespace.get("__name__")), lineno)
    return action_for(warning, filters, _module_of(warning.filename), warning.lineno)


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
