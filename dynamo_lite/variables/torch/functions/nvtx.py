"""``torch.cuda.nvtx``: ranges and marks for Nvidia's profilers. A graph has nodes for them, as for `record_function`.

A backend that compiles the graph drops these nodes: a profile of it doesn't show the ranges inside.
"""

from __future__ import annotations

import torch
from torch.cuda import nvtx

from dynamo_lite.insight.break_reasons import DeviceNotCaptured
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models


class _DepthVariable(VariableTracker):
    """How many ranges are open on the thread."""

    __slots__ = ()

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return "the depth of nested nvtx ranges"


def _record(tx: Translator, name: str, *args: VariableTracker) -> VariableTracker:
    if not torch.cuda.is_available():
        unsupported(DeviceNotCaptured("an nvtx range", "there is no CUDA device, so it raises"))
    tx.graph.call("call_function", graph_functions.nvtx, (name, *map(tx.python_value, args)), {}, None)
    return _DepthVariable()


@models(nvtx.range_push)
def _range_push(tx: Translator, msg: VariableTracker) -> VariableTracker:
    return _record(tx, "range_push", msg)


@models(nvtx.range_pop)
def _range_pop(tx: Translator) -> VariableTracker:
    return _record(tx, "range_pop")


@models(nvtx.mark)
def _mark(tx: Translator, msg: VariableTracker) -> VariableTracker:
    _record(tx, "mark", msg)
    return ConstantVariable(None)
