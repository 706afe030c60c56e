"""The module ``importlib``."""

from __future__ import annotations

import importlib

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.classes.imports import imported_module


@models(importlib.import_module)
def _import_module(tx: Translator, name: VariableTracker, package: VariableTracker | None = None) -> VariableTracker:
    given = tx.python_value(name)
    if not isinstance(given, str) or given.startswith("."):
        unsupported(UnknownCall("importlib.import_module()", "the name is relative"))
    return imported_module(tx, given)
