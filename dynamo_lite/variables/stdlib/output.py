"""Calls with output: ``print``, ``input``, and log records that a logger would emit. They break the graph."""

from __future__ import annotations

from dynamo_lite.insight.break_reasons import OutputCall
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models


@models(print)
def _print(tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("print"))


@models(input)
def _input(tx: Translator, *args: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("input"))


@models(polyfills.logging.emit_record)
def _log(tx: Translator, name: VariableTracker) -> VariableTracker:
    unsupported(OutputCall(tx.python_value(name)))
