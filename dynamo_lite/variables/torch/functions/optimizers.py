"""Functions of ``torch.optim`` that compute a step: with ``capturable=False`` some branch on the number of steps, which
they keep in a tensor.

torch.compile traces them with ``capturable=True``, which computes the same without a branch. Here that is done if a
trace fails without it.
"""

from __future__ import annotations

from typing import Any

from torch.optim import optimizer

from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models_closures_of
from dynamo_lite.variables.torch.functions.alternatives import in_either_way
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_OPTION = "capturable"


def _step(function: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    option = kwargs.get(_OPTION)
    if option is None or tx.truth(option) or not _are_on_one_device(args):
        return tx.inline(function, args, kwargs)
    capturable = {**kwargs, _OPTION: ConstantVariable(True)}
    return in_either_way(
        tx, function.value, lambda: tx.inline(function, args, kwargs), lambda: tx.inline(function, args, capturable)
    )


def _are_on_one_device(args: Args) -> bool:
    """Whether the tensors in these lists are on one device: those of the numbers of steps may be on another one."""
    items = [each.realize() for arg in args for each in arg.realize().structure_items() or ()]
    return len({each.fake.device for each in items if isinstance(each, TensorVariable)}) == 1


models_closures_of(lambda: optimizer._disable_dynamo_if_unsupported()(lambda: None), _step)
