"""Parameters and buffers of lazy modules (``nn.LazyLinear``): they have no data until ``materialize`` is called, which
breaks the graph. That happens once."""

from __future__ import annotations

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import VariableTracker, wraps_type
from dynamo_lite.variables.core.protocols import Attempt


@wraps_type(UninitializedParameter, UninitializedBuffer)
def _wrap_lazy(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "an uninitialized parameter or buffer")
