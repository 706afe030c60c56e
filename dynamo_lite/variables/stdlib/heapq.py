"""The module ``heapq``: what of it is in C."""

from __future__ import annotations

from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.polyfills import heapq
from dynamo_lite.variables.python.containers.sequence import ListVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable

_LARGEST = 2500
"""Above, the C code takes another order."""


def _of_lists(real: Any, replacement: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        heap = args[0].realize() if args else None
        if kwargs or not isinstance(heap, ListVariable) or len(heap.items) > _LARGEST:
            unsupported(UnsupportedOperation(f"heapq.{real.__name__}()", "these arguments"))
        return tx.call(FunctionVariable(replacement, None), args, kwargs)

    models_raw(real, model)


for _real, _replacement in heapq.TABLE.items():
    _of_lists(_real, _replacement)
