"""``torch.set_default_dtype`` called by the program.

While tracing, the default is really set, until the attempt ends. The graph runs under the default from before, because
a backend that compiles it may read the default too. So the graph's operators get the dtype that they would have taken
as an explicit argument, and the new default is set after the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.utils._device import _device_constructors

from dynamo_lite.insight.break_reasons import DefaultDeviceSet, DefaultDtypeMatters, UnknownCall
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models

from .fake_computation import operator_name
from .mutated_arguments import tensors_in


class DefaultDtype:
    """The default dtype that the program set. It is one of the attempt's contexts, and is replayed after the graph."""

    def __init__(self, now: torch.dtype) -> None:
        self.before = torch.get_default_dtype()
        self.now = now

    def leave(self) -> None:
        torch._C._set_default_dtype(self.before)

    @property
    def is_left(self) -> bool:
        """Whether the final default differs from the one before."""
        return self.now is not self.before

    def replay(self, cg: Codegen) -> None:
        if self.is_left:
            cg.call(torch._C._set_default_dtype, [lambda: cg.load_const(self.now)])
            cg.pop_top()


@models(torch._C._set_default_dtype)
def _set_default_dtype(tx: Translator, dtype: VariableTracker) -> VariableTracker:
    if tx.effects.in_body:
        unsupported(UnknownCall("torch.set_default_dtype()", "it is called in a function that an operator runs"))
    contexts = tx.attempt.torch_state.contexts
    setting = DefaultDtype(tx.python_value(dtype))
    tx.fold(torch._C._set_default_dtype, (setting.now,))
    for each in contexts:
        if isinstance(each, DefaultDtype):
            each.now = setting.now
            return ConstantVariable(None)
    tx.effects.note(setting)
    contexts.append(setting)
    return ConstantVariable(None)


@models(torch.set_default_device)
def _set_default_device(tx: Translator, device: VariableTracker) -> VariableTracker:
    unsupported(DefaultDeviceSet())


def explicit_dtype(
    tx: Translator, target: object, kwargs: Mapping[str, object], fake: object, recompute: Callable[[], object] | None
) -> torch.dtype | None:
    """The ``dtype`` argument that an operator needs in the graph, where the default dtype differs from the graph's.

    Args:
        fake: the operator's result under the program's default.
        recompute: computes the result again; None where that isn't possible.
    """
    results = tensors_in([fake])
    if recompute is None and "out" in kwargs:
        unsupported(DefaultDtypeMatters(f"{operator_name(target)} with out="))
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
    unsupported(DefaultDtypeMatters(operator_name(target)))
