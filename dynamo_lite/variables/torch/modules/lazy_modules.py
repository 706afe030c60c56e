"""Lazy modules (``nn.LazyLinear``) create their parameters in the first call, which breaks the graph there."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from dynamo_lite.insight.break_reasons import LazyModuleCalled
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type


@models(LazyModuleMixin.__dict__["_infer_parameters"])
def _break_at_first_call(tx: Translator, *args: VariableTracker) -> NoReturn:
    unsupported(LazyModuleCalled(args[1].describe()))


@wraps_type(UninitializedParameter, UninitializedBuffer)
def _wrap_uninitialized(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "it has no data before the first call of its module")
