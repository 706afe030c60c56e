"""``torch.set_default_dtype`` and ``torch.set_default_device`` called by the program.

While tracing, the default is really set, until the attempt ends. The graph runs under the default from before, because
a backend that compiles it may read the default too. So the graph's operators get the dtype and device that they would
have taken as explicit arguments, and the new default is set after the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._device import _device_constructors

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedOperation
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models

from .mutated_arguments import tensors_in


class DefaultSetting:
    """A default that the program set. It is one of the attempt's contexts, and is replayed after the graph."""

    ends_with_graph = True

    def __init__(self, setter: Callable[[Any], None], before: Any, replayed: Callable[[Any], None]) -> None:
        self.setter = setter
        self.before = before
        self.now = before
        self.replayed = replayed

    def leave_graph(self, graph: GraphBuilder) -> None:
        """The graph has no node for it."""

    def leave(self) -> None:
        self.setter(self.before)

    @property
    def is_left(self) -> bool:
        """Whether the final default differs from the one before."""
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
    created = DefaultSetting(setter, before, replayed)
    tx.effects.note(created)
    tx.attempt.torch_state.contexts.append(created)
    return created


@models(torch._C._set_default_dtype)
def _set_default_dtype(tx: Translator, dtype: VariableTracker) -> VariableTracker:
    setter = torch._C._set_default_dtype
    wanted, before = tx.python_value(dtype), torch.get_default_dtype()
    if tx.effects.in_body:
        unsupported(UnknownCall("torch.set_default_dtype()", "it is called in a function that an operator runs"))
    tx.fold(setter, (wanted,))
    _setting(tx, setter, before, setter).now = wanted
    return ConstantVariable(None)


def explicit_dtype(
    tx: Translator, target: Any, kwargs: Mapping[str, Any], fake: Any, recompute: Callable[[], Any] | None
) -> torch.dtype | None:
    """The ``dtype`` argument that an operator needs in the graph, where the default dtype differs from the graph's.

    Args:
        fake: the operator's result under the program's default.
        recompute: computes the result again; None where that isn't possible.
    """
    results = tensors_in([fake])
    if recompute is None and "out" in kwargs:
        unsupported(UnsupportedOperation("out= with another default dtype", "an operator"))
    if recompute is None or not any(each.is_floating_point() or each.is_complex() for each in results):
        return None
    now = torch.get_default_dtype()
    shape_env = tx.graph.fake_mode.shape_env
    assert shape_env is not None
    torch._C._set_default_dtype(tx.graph.default_dtype)
    try:
        with shape_env.ignore_fresh_unbacked_symbols():
            others = tensors_in([recompute()])
    finally:
        torch._C._set_default_dtype(now)
    if [each.dtype for each in others] == [each.dtype for each in results]:
        return None
    if target in _device_constructors() and kwargs.get("dtype") is None:
        return results[0].dtype
    name = getattr(target, "__name__", target)
    unsupported(UnsupportedOperation(f"{name}(), whose result depends on the default dtype,", "its arguments"))


def _set_device(device: torch.device | None) -> None:
    torch.set_default_device(device)


@models(torch.set_default_device)
def _set_default_device(tx: Translator, device: VariableTracker) -> VariableTracker:
    wanted = tx.python_value(device)
    mode = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    has_context = any(not isinstance(each, DefaultSetting) for each in tx.attempt.torch_state.contexts)
    if has_context or tx.effects.in_body or torch._C._len_torch_function_stack() > (mode is not None):
        unsupported(UnknownCall("torch.set_default_device()", "it is called inside another context of torch"))
    setting = _setting(tx, _set_device, None if mode is None else mode.device, torch.set_default_device)
    if wanted is None and setting.before is not None:  # in another call, a `with` block may have set it
        unsupported(UnknownCall("torch.set_default_device()", "the default that None restores is not known"))
    tx.fold(torch.set_default_device, (wanted,))
    setting.now = wanted
    return ConstantVariable(None)
