"""``torch.cuda.nvtx``: ranges and marks for Nvidia's profilers. A graph has nodes for them, as for `record_function`.

A backend that compiles the graph drops these nodes: a profile of it doesn't show the ranges inside.
"""

from __future__ import annotations

from functools import partial

import torch
from torch.cuda import nvtx

from dynamo_lite.insight.break_reasons import DeviceNotCaptured
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models


class _DepthVariable(VariableTracker):
    """How many ranges are open on the thread."""

    __slots__ = ()

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return "the depth of nested nvtx ranges"


def _record(name: str, tx: Translator, msg: VariableTracker | None = None) -> VariableTracker:
    if not torch.cuda.is_available():
        unsupported(DeviceNotCaptured("an nvtx range", "there is no CUDA device, so it raises"))
    arguments = [] if msg is None else [tx.python_value(msg)]
    tx.graph.call("call_function", graph_functions.nvtx, (name, *arguments), {}, None)
    return ConstantVariable(None) if name == "mark" else _DepthVariable()


for _name in ("range_push", "range_pop", "mark"):
    models(getattr(nvtx, _name))(partial(_record, _name))
