"""Calls with output: ``print``, ``input``, and log records that a logger would emit. They break the graph."""

from __future__ import annotations

import logging

from dynamo_lite.insight.break_reasons import OutputCall
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models

_LEVELS = {getattr(logging, name.upper()): name for name in ("debug", "info", "warning", "error", "critical")}


@models(print)
def _print(tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("print"))


@models(input)
def _input(tx: Translator, *args: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("input"))


@models(logging.Logger._log)
def _log(
    tx: Translator, logger: VariableTracker, level: VariableTracker, *args: object, **kwargs: object
) -> VariableTracker:
    """Emits a record. ``Logger.warning`` and the like call it if the logger is enabled for the level."""
    unsupported(OutputCall(f"Logger.{_LEVELS.get(tx.python_value(level), 'log')}"))
