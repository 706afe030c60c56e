"""The module ``importlib``: imports of modules that are loaded already."""

from __future__ import annotations

import importlib

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.classes.classes import loaded_module


@models(importlib.import_module)
def _import_module(tx: Translator, name: VariableTracker, package: VariableTracker | None = None) -> VariableTracker:
    given = tx.python_value(name)
    module = loaded_module(tx, given) if isinstance(given, str) and not given.startswith(".") else None
    if module is None:
        unsupported(UnknownCall("importlib.import_module()", "the module is not loaded yet, or its name is relative"))
    return module
