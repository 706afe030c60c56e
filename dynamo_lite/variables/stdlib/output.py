"""What leaves the program: print, input, loggers that are on."""

from __future__ import annotations

from typing import Any

from dynamo_lite.insight.break_reasons import OutputCall
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models


@models(print)
def _print(tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("print"))


@models(input)
def _input(tx: Any, *args: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("input"))


@models(polyfills.logging.speak)
def _log(tx: Any, name: VariableTracker) -> VariableTracker:
    unsupported(OutputCall(tx.python_value(name)))
