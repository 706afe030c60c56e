"""Operators that take a number and are given a tensor: eager reads its value, a graph computes with it."""

from __future__ import annotations

from typing import Any

import torch

from .base import Args, Kwargs, VariableTracker
from .sequence import ListVariable
from .tensor import TensorVariable, record, rewrites


def _fits(number: VariableTracker, args: Args, ndim: int = 0) -> bool:
    """Whether a tensor stands for numbers that eager would read and multiply floating tensors by."""
    return (
        isinstance(number, TensorVariable)
        and number.fake.ndim == ndim
        and number.fake.dtype in _NUMBERS
        and not number.fake.requires_grad
        and all(isinstance(each, TensorVariable) and each.fake.is_floating_point() for each in args)
    )


_NUMBERS = (torch.float32, torch.float64, torch.int64, torch.int32)


def _scaled(tx: Any, value: Any, number: VariableTracker) -> VariableTracker:
    """The product in the dtype of ``value``: a number takes no part in promotion."""
    found: Any = record(tx, "call_function", torch.mul, [value, number], {})
    if found.fake.dtype is value.fake.dtype:
        return found
    return record(tx, "call_method", "to", [found, tx.make(value.fake.dtype)], {})


def _two_factors(name: str, combine: Any) -> None:
    """``self + value * combine(one, other)``."""

    @rewrites(name, name + "_")
    def rewrite(tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        if len(args) != 3 or set(kwargs) != {"value"} or not _fits(kwargs["value"], args):
            return None
        scaled = _scaled(tx, record(tx, "call_function", combine, args[1:], {}), kwargs["value"])
        return record(tx, "call_method", "add_" if name.endswith("_") else "add", [args[0], scaled], {})


def _many_factors(combine: Any, add: dict[str, Any]) -> None:
    """The same of lists, with a tensor that has a number for each."""

    @rewrites(*add)
    def rewrite(tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        numbers = args[3] if len(args) == 4 else kwargs.get("scalars")
        if numbers is None or not _fits(numbers, args[0].elements(tx), ndim=1):
            return None
        parts = ListVariable(record(tx, "call_method", "unbind", [numbers], {}).elements(tx))
        combined = record(tx, "call_function", combine, args[1:3], {})
        scaled = record(tx, "call_function", torch._foreach_mul, [combined, parts], {})
        return record(tx, "call_function", add[name], [args[0], scaled], {})


def _sums(name: str) -> None:
    """``self + alpha * other``."""

    @rewrites(name, name + "_")
    def rewrite(tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        if len(args) != 2 or set(kwargs) != {"alpha"} or not _fits(kwargs["alpha"], args):
            return None
        return record(tx, "call_method", name, [args[0], _scaled(tx, args[1], kwargs["alpha"])], {})


for _name, _combine in (("addcdiv", torch.div), ("addcmul", torch.mul)):
    _two_factors(_name, _combine)
for _name, _combine in (("_foreach_addcdiv", torch._foreach_div), ("_foreach_addcmul", torch._foreach_mul)):
    _many_factors(_combine, {_name: torch._foreach_add, _name + "_": torch._foreach_add_})
for _name in ("add", "sub"):
    _sums(_name)
