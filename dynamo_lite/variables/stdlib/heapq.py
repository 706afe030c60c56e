"""The C functions of the module ``heapq``, by polyfills."""

from __future__ import annotations

from typing import Any

from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, refuse_arguments
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.polyfills import heapq
from dynamo_lite.variables.python.containers.sequences import ListVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable

_LARGEST = 2500
"""``heapify`` in C takes the items of longer lists in another order."""


def _model_list_function(real: Any, polyfill: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        heap = args[0].realize() if args else None
        if kwargs or not isinstance(heap, ListVariable) or len(heap.items) > _LARGEST:
            refuse_arguments(f"heapq.{real.__name__}")
        return tx.call(FunctionVariable(polyfill, None), args, kwargs)

    models_raw(real, model)


for _real, _polyfill in heapq.TABLE.items():
    _model_list_function(_real, _polyfill)
