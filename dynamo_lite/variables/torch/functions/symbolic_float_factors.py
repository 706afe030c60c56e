"""Symbolic floats as factors inside an operator: a learning rate, ``alpha`` of a sum, ``value`` of ``addcmul``.

The recorded operators take a tensor in place of the float, and round no intermediate result that eager doesn't round.
"""

from __future__ import annotations

import torch

from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.torch.tensors.equivalent_operators import takes_floats
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .scalar_arguments import Target, are_alike, converted, fits_float32, float_as_tensor, is_differentiated


def _factor(tx: Translator, number: VariableTracker, tensors: Args) -> VariableTracker | None:
    """The float as a tensor of the type that all these tensors have, if eager computes in that."""
    dtypes = {
        each.fake.dtype if isinstance(each, TensorVariable) and not each.has_torch_function else None
        for each in tensors
    }
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or not fits_float32(number, tx, dtype):
        return None
    return converted(tx, float_as_tensor(tx.graph, number), dtype)


def _sole_keyword(name: str, kwargs: Kwargs) -> VariableTracker | None:
    """The keyword argument of this name, if there is no other one."""
    return kwargs[name].realize() if set(kwargs) == {name} else None


def _tensors(arg: VariableTracker) -> Args:
    """The tensors of an argument: a list of tensors, or one tensor."""
    if isinstance(arg, (ListVariable, TupleVariable)):
        return [each.realize() for each in arg.items]
    return [arg]


def _beside(factor: VariableTracker, arg: VariableTracker) -> VariableTracker:
    """The factor as an operand: itself beside a tensor; beside a list of tensors, a list that repeats it."""
    is_list = isinstance(arg, (ListVariable, TupleVariable))
    return ListVariable([factor] * len(_tensors(arg))) if is_list else factor


# -- sums --------------------------------------------------------------------------------------------------------------


_SUMS: dict[Target, tuple[Target, Kwargs]] = {}
"""Sums, and the ``addcmul`` that rounds once as they do: its function and further arguments."""
for _name, _more in {"add": Kwargs(), "sub": Kwargs(value=ConstantVariable(-1))}.items():
    _SUMS[getattr(torch, _name)] = "addcmul", _more
    for _write in ("", "_"):
        _SUMS[_name + _write] = f"addcmul{_write}", _more
        _SUMS[getattr(torch, f"_foreach_{_name}{_write}")] = getattr(torch, f"_foreach_addcmul{_write}"), _more


@takes_floats(*_SUMS)
def _sum(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``self + alpha * other``."""
    alpha = _sole_keyword("alpha", kwargs)
    if alpha is None or len(args) != 2:
        return None
    one, other = map(_tensors, args)
    factor = _factor(tx, alpha, [*one, *other])
    if factor is None or not all(map(are_alike, one, other)):
        return None
    product, more = _SUMS[target]
    return record(tx, product, [*args, _beside(factor, args[0])], more)


# -- products ----------------------------------------------------------------------------------------------------------

_PRODUCTS = [
    each
    for name in ("addcmul", "addcdiv")
    for each in (getattr(torch, name), name, name + "_", *(getattr(torch, f"_foreach_{name}{w}") for w in ("", "_")))
]


@takes_floats(*_PRODUCTS)
def _products(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``self + value * one * other`` or ``self + value * one / other``, from left to right."""
    value = args[3] if len(args) == 4 and not kwargs else _sole_keyword("value", kwargs)
    tensors = [each for arg in args[:3] for each in _tensors(arg)]
    factor = None if value is None or is_differentiated(tensors) else _factor(tx, value, tensors)
    if factor is None:
        return None
    multiply = torch._foreach_mul if isinstance(args[1], (ListVariable, TupleVariable)) else torch.mul
    return record(tx, target, [args[0], record(tx, multiply, [args[1], factor], {}), args[2]], {})


@takes_floats(*(getattr(torch, f"_foreach_{name}{write}") for name in ("add", "mul", "div") for write in ("", "_")))
def _lists_and_float(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``target(tensors, float)``."""
    factor = _factor(tx, args[1], _tensors(args[0])) if len(args) == 2 and not kwargs else None
    return None if factor is None else record(tx, target, [args[0], _beside(factor, args[0])], {})
