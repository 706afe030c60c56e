"""What leaves the program: print, input, loggers that are on."""

from __future__ import annotations

from typing import Any

from ...reasons import OutputCall
from .. import polyfills
from ..base import VariableTracker, unsupported
from ..registry import models


@models(print)
def _print(tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("print"))


@models(input)
def _input(tx: Any, *args: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("input"))


@models(polyfills.logging.speak)
def _log(tx: Any, name: VariableTracker) -> VariableTracker:
    unsupported(OutputCall(tx.python_value(name)))
