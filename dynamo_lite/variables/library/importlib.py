"""The module ``importlib``: modules that are loaded already."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ...reasons import UnknownCall
from ..base import VariableTracker, unsupported
from ..classes import loaded_module
from ..registry import models


@models(importlib.import_module)
def _import_module(tx: Any, name: VariableTracker, package: VariableTracker | None = None) -> VariableTracker:
    given = tx.python_value(name)
    if not isinstance(given, str) or given.startswith(".") or sys.modules.get(given) is None:
        unsupported(UnknownCall("importlib.import_module()", "the module is not loaded yet, or not told by its name"))
    return loaded_module(tx, given)
