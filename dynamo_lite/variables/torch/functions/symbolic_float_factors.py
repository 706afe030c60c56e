"""Symbolic floats as factors inside an operator: a learning rate, ``alpha`` of a sum, ``value`` of ``addcmul``.

The recorded operators take a tensor in place of the float, and round no intermediate result that eager doesn't round.
"""

from __future__ import annotations

from typing import Any

import torch

from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.torch.tensors.equivalent_operators import takes_floats
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .scalar_arguments import converted, fits_float32, float_as_tensor, is_differentiated


def _factor(tx: Translator, number: VariableTracker, tensors: Args) -> VariableTracker | None:
    """The float as a tensor of the type that all these tensors have, if eager computes in that."""
    dtypes = {
        each.fake.dtype if isinstance(each, TensorVariable) and not each.has_torch_function else None
        for each in tensors
    }
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or not fits_float32(number, tx, dtype):
        return None
    return converted(tx, float_as_tensor(tx, number), dtype)


def _only(name: str, kwargs: Kwargs) -> VariableTracker | None:
    return kwargs[name].realize() if set(kwargs) == {name} else None


def _is_alike(one: VariableTracker, other: VariableTracker) -> bool:
    """Whether two tensors have one shape and no broadcast dimension: over those eager's loop rounds differently."""
    assert isinstance(one, TensorVariable) and isinstance(other, TensorVariable)
    fakes = one.fake, other.fake
    strides = [stride for fake in fakes for size, stride in zip(fake.shape, fake.stride()) if size != 1]
    return fakes[0].shape == fakes[1].shape and 0 not in strides


# -- sums --------------------------------------------------------------------------------------------------------------

_SUMS: dict[str, Kwargs] = {"add": {}, "sub": {"value": ConstantVariable(-1)}}


def _rule_for_sum(name: str, more: Kwargs) -> None:
    """``self + alpha * other`` rounds once; so does ``addcmul``."""

    @takes_floats(getattr(torch, name), name, name + "_")
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        alpha = _only("alpha", kwargs)
        factor = None if alpha is None or len(args) != 2 else _factor(tx, alpha, args)
        if factor is None or not _is_alike(*args):
            return None
        method = "addcmul_" if target == name + "_" else "addcmul"
        return record(tx, "call_method", method, [*args, factor], more)


def _rule_for_sum_of_lists(name: str, write: str, more: Kwargs) -> None:
    @takes_floats(getattr(torch, name + write))
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        alpha = _only("alpha", kwargs)
        lists = _lists(tx, args)
        factor = None if alpha is None or len(lists) != 2 else _factor(tx, alpha, [*lists[0], *lists[1]])
        if factor is None or not all(_is_alike(one, other) for one, other in zip(*lists)):
            return None
        factors = ListVariable([factor] * len(lists[0]))
        return record(tx, "call_function", getattr(torch, f"_foreach_addcmul{write}"), [*args, factors], more)


for _name, _more in _SUMS.items():
    _rule_for_sum(_name, _more)
    for _write in ("", "_"):
        _rule_for_sum_of_lists(f"_foreach_{_name}", _write, _more)


def _lists(tx: Translator, args: Args) -> list[list[VariableTracker]]:
    """The items of these lists; no lists if an argument is another value."""
    if not all(isinstance(arg, (ListVariable, TupleVariable)) for arg in args):
        return []
    return [[each.realize() for each in arg.elements(tx)] for arg in args]


# -- products ----------------------------------------------------------------------------------------------------------


def _rule_for_products(name: str) -> None:
    """``self + value * one * other`` or ``self + value * one / other``, from left to right."""

    @takes_floats(getattr(torch, name), name, name + "_")
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        value = _only("value", kwargs)
        if value is None or len(args) != 3 or is_differentiated(args):
            return None
        factor = _factor(tx, value, args)
        if factor is None:
            return None
        first = record(tx, "call_function", torch.mul, [args[1], factor], {})
        return record(tx, "call_method", name + "_" * (target == name + "_"), [args[0], first, args[2]], {})


def _rule_for_products_of_lists(target: Any) -> None:
    @takes_floats(target)
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        value = args[3] if len(args) == 4 and not kwargs else _only("value", kwargs)
        lists = [each for items in _lists(tx, args[:3]) for each in items]
        factor = None if value is None or is_differentiated(lists) else _factor(tx, value, lists)
        if factor is None:
            return None
        first = record(tx, "call_function", torch._foreach_mul, [args[1], factor], {})
        return record(tx, "call_function", target, [args[0], first, args[2]], {})


for _name in ("addcmul", "addcdiv"):
    _rule_for_products(_name)
    for _write in ("", "_"):
        _rule_for_products_of_lists(getattr(torch, f"_foreach_{_name}{_write}"))


@takes_floats(*(getattr(torch, f"_foreach_{name}{write}") for name in ("add", "mul", "div") for write in ("", "_")))
def _lists_and_float(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``target(tensors, float)``."""
    lists = _lists(tx, args[:1])
    factor = _factor(tx, args[1], lists[0]) if lists and len(args) == 2 and not kwargs else None
    if factor is None:
        return None
    return record(tx, "call_function", target, [args[0], ListVariable([factor] * len(lists[0]))], {})


@takes_floats(torch._foreach_lerp, torch._foreach_lerp_)
def _lerp_of_lists(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    lists = _lists(tx, args[:2])
    factor = _factor(tx, args[2], [*lists[0], *lists[1]]) if lists and len(args) == 3 and not kwargs else None
    if factor is None:
        return None
    return record(tx, "call_function", target, [*args[:2], ListVariable([factor] * len(lists[0]))], {})
