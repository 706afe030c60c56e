"""The program sets torch's default dtype or device.

While tracing it is set for real, as long as the attempt lasts. The graph is run with what was there before, for who
compiles it may ask as well: its operators are told what they would have found, and the new default is set after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._device import _device_constructors

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedOperation
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models

from .mutated_arguments import tensors_in


class DefaultSetting:
    """A default that the program set: kept among the contexts of the attempt, and replayed."""

    ends_with_graph = True

    def __init__(self, setter: Callable[[Any], None], before: Any, replayed: Callable[[Any], None]) -> None:
        self.setter = setter
        self.before = before
        self.now = before
        self.replayed = replayed

    def leave_graph(self, graph: Any) -> None:
        """There is nothing of it in the graph."""

    def leave(self) -> None:
        self.setter(self.before)

    @property
    def is_left(self) -> bool:
        """Whether it is another one in the end than it was."""
        return self.now is not self.before

    def replay(self, cg: Codegen) -> None:
        if self.is_left:
            cg.call(self.replayed, [lambda: cg.load_const(self.now)])
            cg.pop_top()


def _setting(
    tx: Translator, setter: Callable[[Any], None], before: Any, replayed: Callable[[Any], None]
) -> DefaultSetting:
    for each in tx.attempt.torch_state.contexts:
        if isinstance(each, DefaultSetting) and each.setter is setter:
            return each
    made = DefaultSetting(setter, before, replayed)
    tx.effects.note(made)
    tx.attempt.torch_state.contexts.append(made)
    return made


@models(torch._C._set_default_dtype)
def _set_default_dtype(tx: Translator, dtype: VariableTracker) -> VariableTracker:
    setter = torch._C._set_default_dtype
    wanted, before = tx.python_value(dtype), torch.get_default_dtype()
    if tx.effects.in_body:
        unsupported(UnknownCall("torch.set_default_dtype()", "it is called in a function that an operator runs"))
    tx.fold(setter, (wanted,))
    _setting(tx, setter, before, setter).now = wanted
    return ConstantVariable(None)


def dtype_to_say(
    tx: Translator, target: Any, kwargs: dict[str, Any], fake: Any, again: Callable[[], Any] | None
) -> torch.dtype | None:
    """Another default dtype is in force than the one that the graph is run with: what an operator, whose result is
    ``fake``, must be told for that; None: nothing. ``again``: computes the result once more; None: it can't be."""
    found: list[torch.Tensor] = []
    tensors_in([fake], found)
    if again is None and "out" in kwargs:
        unsupported(UnsupportedOperation("out= with another default dtype", "an operator"))
    if again is None or not any(each.is_floating_point() or each.is_complex() for each in found):
        return None
    now = torch.get_default_dtype()
    torch._C._set_default_dtype(tx.graph.default_dtype)
    try:
        with tx.graph.fake_mode.shape_env.ignore_fresh_unbacked_symbols():
            other: list[torch.Tensor] = []
            tensors_in([again()], other)
    finally:
        torch._C._set_default_dtype(now)
    if [each.dtype for each in other] == [each.dtype for each in found]:
        return None
    if target in _device_constructors() and kwargs.get("dtype") is None:
        return fake.dtype  # type: ignore[no-any-return]
    name = getattr(target, "__name__", target)
    unsupported(UnsupportedOperation(f"{name}(), whose result has the default dtype that was set before,", "these"))


def _set_device(device: Any) -> None:
    torch.set_default_device(device)


@models(torch.set_default_device)
def _set_default_device(tx: Translator, device: VariableTracker) -> VariableTracker:
    wanted = tx.python_value(device)
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    around = any(not isinstance(each, DefaultSetting) for each in tx.attempt.torch_state.contexts)
    if around or tx.effects.in_body or torch._C._len_torch_function_stack() > (context is not None):
        unsupported(UnknownCall("torch.set_default_device()", "another context of torch's is around it"))
    setting = _setting(tx, _set_device, None if context is None else context.device, torch.set_default_device)
    if wanted is None and setting.before is not None:  # another call may have that by a ``with`` around it
        unsupported(UnknownCall("torch.set_default_device()", "what is the default without one is not known"))
    tx.fold(torch.set_default_device, (wanted,))
    setting.now = wanted
    return ConstantVariable(None)
