"""Operators that warn: eager shows it at the program's line, as often as its filters say.

A graph's code has other lines, and other backends run other operators. So an operator that warns each time breaks the
graph, and CPython runs it. What it warns of once in a process, as torch does of what is deprecated, is shown while
tracing as from the program's line: the operator in the graph says nothing of it then.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import KernelWarns, MayWarn, OperatorWarns
from dynamo_lite.records import code_origin
from dynamo_lite.records.captured_warnings import Listening, Overheard, action_for
from dynamo_lite.variables.core.base import unsupported

from .fake_calls import operator_name
from .mutated_arguments import version
from .operator_trials import Untried, heard_in_trial


def run_heard(
    tx: Any,
    called: tuple[str, Any],
    given: tuple[list[Any], dict[str, Any]],
    operands: list[torch.Tensor],
    run: Callable[[], Any],
) -> Any:
    """Run an operator on fakes. ``operands``: the tensors among what it is given. What filters keep still at the
    program's line alone would show from the graph."""
    target, versions = called[1], [version(each) for each in operands]
    if tx.attempt.catching or tx.attempt.catches_outside:
        _check_kernels(called, given)
    with Listening() as first:
        result = run()
    if not first.heard:
        return result
    place = _place(tx)
    catching = tx.attempt.catching
    told = [each for each in first.heard if catching or _action(each, *place) != "ignore"]
    shown = told or [each for each in first.heard if each.is_callers and action_for(each, "", 0) != "ignore"]
    if shown and (catching or versions != [version(each) for each in operands] or _warns(run)):
        unsupported(OperatorWarns(operator_name(target), _first_line(shown[0])))
    for each in told:
        _show(each, *place)
    return result


def leaves_catching(values: Iterable[Any]) -> bool:
    """Whether there is the exit of a ``catch_warnings`` that goes on over a break, among what a frame was given."""
    for each in values:
        if type(each) is types.MethodType and type(each.__self__) is warnings.catch_warnings:
            return True
        if type(each) is tuple and leaves_catching(each):
            return True
    return False


def _check_kernels(called: tuple[str, Any], given: tuple[list[Any], dict[str, Any]]) -> None:
    """Where the program sees warnings: whether the operator's kernels have none."""
    if warnings.filters and warnings.filters[0] == _IGNORES_ALL:
        return
    try:
        heard = heard_in_trial(*called, *given)
    except Untried as error:
        unsupported(MayWarn(operator_name(called[1]), str(error)))
    if heard:
        unsupported(KernelWarns(operator_name(called[1]), _first_line(heard[0])))


_IGNORES_ALL = ("ignore", None, Warning, None, 0)


def _first_line(warning: Overheard) -> str:
    return str(warning.message).strip().partition("\n")[0]


def _warns(run: Callable[[], Any]) -> bool:
    with Listening() as listening:
        run()
    return bool(listening.heard)


def _place(tx: Any) -> tuple[str, int, dict[str, Any]]:
    """File, line and globals of the program's code that calls the operator."""
    while code_origin.is_polyfill(tx.code) and tx.parent is not None:
        tx = tx.parent
    place = tx.place()
    return place.filename, place.lineno or 0, tx.scope.namespace


def _action(warning: Overheard, filename: str, lineno: int, namespace: dict[str, Any]) -> str:
    if warning.is_callers:
        return action_for(warning, str(namespace.get("__name__")), lineno)
    return action_for(warning, _module_of(warning.filename), warning.lineno)


def _module_of(filename: str) -> str:
    loaded = list(sys.modules.items())
    return next((name for name, each in loaded if getattr(each, "__dict__", {}).get("__file__") == filename), filename)


def _show(warning: Overheard, filename: str, lineno: int, namespace: dict[str, Any]) -> None:
    if not warning.is_callers:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return
    shown = namespace.setdefault("__warningregistry__", {})
    name = str(namespace.get("__name__"))
    warnings.warn_explicit(warning.message, warning.category, filename, lineno, name, shown)
