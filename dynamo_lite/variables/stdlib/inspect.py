"""``inspect.isfunction`` and ``typing.cast``."""

from __future__ import annotations

import inspect
import types
import typing

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models


@models(inspect.isfunction)
def _isfunction(tx: Translator, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(of.python_type() is types.FunctionType)


@models(typing.cast)
def _cast(tx: Translator, kind: VariableTracker, value: VariableTracker) -> VariableTracker:
    return value
