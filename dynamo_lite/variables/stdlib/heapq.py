"""The functions of ``heapq`` that are implemented in C. The others (``merge``, ``nlargest``, …) are inlined."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.registry import Model, models_raw
from dynamo_lite.variables.python.functions.function import FunctionVariable


def _inlining(name: str, polyfill: Callable[..., Any]) -> Model:
    assert isinstance(polyfill, types.FunctionType)

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not args or kwargs or args[0].python_type() is not list:
            refuse_arguments(f"heapq.{name}")
        return tx.call(FunctionVariable(polyfill, None), args, kwargs)

    return model


for _function, _polyfill in polyfills.heapq.OF_HEAPS.items():
    models_raw(_function, _inlining(_function.__name__, _polyfill))
