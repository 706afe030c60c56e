"""Queries of an accelerator's devices, and the current device.

What the process can't change (counts, properties, what a build supports) needs no guard. For what it can change (the
current device, whether a stream is being captured) the guard calls the query again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isbuiltin

import torch
import torch.backends.cudnn

from dynamo_lite.insight.break_reasons import DeviceNotCaptured
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models, models_raw
from dynamo_lite.variables.core.wrapping import wraps_type

from .torch_functions import InvariantObjectVariable


def _query(function: Callable[[], object], tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    try:
        return tx.make(tx.guards.query(function))
    except RuntimeError as error:  # a build with CUDA, on a machine without
        if torch.cuda.is_available():
            unsupported(DeviceNotCaptured(f"{function.__name__}()", f"it raises {type(error).__name__}"))
        tx.raise_error(type(error), *error.args)


def _constant(function: Callable[..., object], tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    try:
        return tx.fold_call(function, args, kwargs)
    except AssertionError as error:  # the build has no CUDA
        tx.raise_error(AssertionError, *error.args)


def _in_c(*names: str) -> list[Callable[..., object]]:
    """torch's C functions of these names. A build without CUDA lacks some, and has a class that can't be
    instantiated for others (`torch._utils._dummy_type`)."""
    found = [getattr(torch._C, name, None) for name in names]
    return [each for each in found if isbuiltin(each)]


for _function in _in_c(
    *("_cuda_getDevice", "_cuda_isCurrentStreamCapturing", "_cuda_isInBadFork", "_accelerator_getDeviceIndex"),
    *("_get_cublas_allow_fp16_accumulation",),
):
    models_raw(_function, partial(_query, _function))
for _function in (
    *_in_c("_cuda_getArchFlags", "_cuda_getDeviceCount", "_accelerator_getAccelerator", "_accelerator_deviceCount"),
    *(torch.cuda._lazy_init, torch.backends.cudnn.version, torch.backends.cudnn.is_available),
    torch.cpu.device_count,
):
    models_raw(_function, partial(_constant, _function))


@models(torch.cuda.get_device_properties)
def _properties(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    given = ConstantVariable(None) if device is None else device
    index = tx.call(tx.make(torch.cuda._utils._get_device_index), [given, ConstantVariable(True)], {})
    return tx.make(tx.fold(torch.cuda.get_device_properties, (tx.python_value(index),)))


if hasattr(torch._C, "_CudaDeviceProperties"):
    wraps_type(torch._C._CudaDeviceProperties)(InvariantObjectVariable.by_identity)


# -- the current device ------------------------------------------------------------------------------------------------


def _exchange(current: Callable[[], int], tx: Translator, index: VariableTracker) -> VariableTracker:
    """Set the current device, given its index, and return the one before. A negative index changes nothing."""
    number = tx.python_value(index)
    if number < 0:
        return ConstantVariable(-1)
    if number != tx.guards.query(current):
        unsupported(DeviceNotCaptured("setting the current device", "a graph runs on one"))
    return ConstantVariable(number)


for _kind, _current in (("_cuda_", "_cuda_getDevice"), ("_accelerator_", "_accelerator_getDeviceIndex")):
    for _name in ("exchangeDevice", "maybeExchangeDevice", "setDevice", "setDeviceIndex"):
        if hasattr(torch._C, _kind + _name):
            models(getattr(torch._C, _kind + _name))(partial(_exchange, getattr(torch._C, _current)))
