"""The module ``inspect``: ``isfunction``. Its other functions are inlined."""

from __future__ import annotations

import inspect
import types

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.classes.isinstance_checks import is_instance


@models(inspect.isfunction)
def _isfunction(tx: Translator, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(is_instance(tx, of, tx.make(types.FunctionType)))
