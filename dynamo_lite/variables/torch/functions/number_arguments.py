"""Operators that take a number. Where they are given a tensor, eager reads its value and a graph computes with it. A
float that may differ from call to call is a tensor of the graph, where the operator with that gives the same bits."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE, SWAPPED
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.containers.sequence import ListVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicFloat, SymbolicNumber, SymNodeVariable
from dynamo_lite.variables.torch.tensors.equivalent_operators import rewrites, takes_floats
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .torch_functions import call_operator


def _stands_for_numbers(number: VariableTracker, args: Args, ndim: int = 0) -> bool:
    """Whether a tensor stands for numbers that eager would read and multiply floating tensors by."""
    return (
        isinstance(number, TensorVariable)
        and number.fake.ndim == ndim
        and number.fake.dtype in _NUMBERS
        and not number.fake.requires_grad
        and all(isinstance(each, TensorVariable) and each.fake.is_floating_point() for each in args)
    )


_NUMBERS = (torch.float32, torch.float64, torch.int64, torch.int32)


def _scaled(tx: Translator, value: Any, number: VariableTracker) -> VariableTracker:
    """The product in the dtype of ``value``: a number takes no part in promotion."""
    found: Any = record(tx, "call_function", torch.mul, [value, number], {})
    if found.fake.dtype is value.fake.dtype:
        return found
    return record(tx, "call_method", "to", [found, tx.make(value.fake.dtype)], {})


def _two_factors(name: str, combine: Any) -> None:
    """``self + value * combine(one, other)``."""

    @rewrites(name, name + "_")
    def rewrite(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        if len(args) != 3 or set(kwargs) != {"value"} or not _stands_for_numbers(kwargs["value"], args):
            return None
        scaled = _scaled(tx, record(tx, "call_function", combine, args[1:], {}), kwargs["value"])
        return record(tx, "call_method", "add_" if name.endswith("_") else "add", [args[0], scaled], {})


def _numbers(tx: Translator, numbers: VariableTracker, args: Args) -> ListVariable | None:
    """One by one, if they stand for numbers."""
    if isinstance(numbers, (ListVariable, TupleVariable)):
        items = [each.realize() for each in numbers.items]
        return ListVariable(items) if all(_stands_for_numbers(each, args) for each in items) else None
    if not _stands_for_numbers(numbers, args, ndim=1):
        return None
    return ListVariable(record(tx, "call_method", "unbind", [numbers], {}).elements(tx))


def _many_factors(combine: Any, add: dict[str, Any]) -> None:
    """The same of lists, with a number for each: a tensor that has all of them, or a list of such."""

    @rewrites(*add)
    def rewrite(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        numbers = args[3] if len(args) == 4 else kwargs.get("scalars")
        parts = None if numbers is None else _numbers(tx, numbers.realize(), args[0].elements(tx))
        if parts is None:
            return None
        combined = record(tx, "call_function", combine, args[1:3], {})
        scaled = record(tx, "call_function", torch._foreach_mul, [combined, parts], {})
        return record(tx, "call_function", add[name], [args[0], scaled], {})


def _sums(name: str) -> None:
    """``self + alpha * other``."""

    @rewrites(name, name + "_")
    def rewrite(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        if len(args) != 2 or set(kwargs) != {"alpha"} or not _stands_for_numbers(kwargs["alpha"], args):
            return None
        return record(tx, "call_method", name, [args[0], _scaled(tx, args[1], kwargs["alpha"])], {})


for _name, _combine in (("addcdiv", torch.div), ("addcmul", torch.mul)):
    _two_factors(_name, _combine)
for _name, _combine in (("_foreach_addcdiv", torch._foreach_div), ("_foreach_addcmul", torch._foreach_mul)):
    _many_factors(_combine, {_name: torch._foreach_add, _name + "_": torch._foreach_add_})
for _name in ("add", "sub"):
    _sums(_name)


def is_differentiated(tensors: Args) -> bool:
    """Whether gradients may be asked for of what is computed of these."""
    return torch.is_grad_enabled() and any(isinstance(t, TensorVariable) and t.fake.requires_grad for t in tensors)


@rewrites("pow", "pow_", "ipow", "__rpow__", "_foreach_pow", "_foreach_pow_")
def _power(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The formulas of its derivatives ask for the number. The code of a graph module has ``-2 ** x`` for
    ``(-2) ** x``."""
    known = [part.realize() for each in args for part in (each, *(each.realize().structure_items() or ()))]
    if is_differentiated(known):
        for each in known:
            if isinstance(each, SymNodeVariable) and not each.is_data_dependent:
                each.as_constant()
    if name != "pow" or len(args) != 2 or kwargs or not isinstance(args[1].realize(), TensorVariable):
        return None
    base = args[0].realize()
    is_negative = isinstance(base, ConstantVariable) and repr(base.value).startswith("-")
    if not is_negative and not isinstance(base, SymbolicFloat):
        return None
    return record(tx, "call_method", "__rpow__", [args[1], base], {})


# -- floats ------------------------------------------------------------------------------------------------------------


def float_beside(tx: Translator, number: SymbolicFloat, other: VariableTracker) -> VariableTracker | None:
    """The tensor that an operator is given in the place of a float, beside another tensor: one with which it promotes
    and computes as it does with a number. None: there is none."""
    if not isinstance(other, TensorVariable) or other.asks:
        return None
    fake = other.fake
    if fake.dtype in _REDUCED and not fake.ndim:
        return None  # eager computes with the whole float, which no tensor of the result's type has
    made = float_as_tensor(tx, number)
    if fake.ndim and (fake.is_floating_point() or fake.is_complex()):
        return made  # of one without dimensions nothing but the category counts
    wanted = torch.result_type(fake, 1.0)
    return converted(tx, made, _REAL.get(wanted, wanted))


_REDUCED = frozenset({torch.float16, torch.bfloat16, torch.complex32})
_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def float_as_tensor(tx: Translator, number: SymbolicFloat) -> TensorVariable:
    given = tx.graph.float(number.formula)
    return TensorVariable(given.node, given.fake, torch.Tensor)


def converted(tx: Translator, tensor: Any, dtype: torch.dtype) -> Any:
    if tensor.fake.dtype is dtype:
        return tensor
    return record(tx, "call_method", "to", [tensor, ConstantVariable(dtype)], {})


def _kind(target: Any) -> str:
    return "call_method" if isinstance(target, str) else "call_function"


def _elementwise(*targets: Any) -> None:
    """``target(tensor, float)``."""

    @takes_floats(*targets)
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        if len(args) != 2 or kwargs or not isinstance(args[1], SymbolicFloat):
            return None
        made = float_beside(tx, args[1], args[0])
        return None if made is None else record(tx, _kind(target), target, [args[0], made], {})


def _operator_of_two(
    function: Any, reflected: Callable[[Any, VariableTracker, VariableTracker], VariableTracker]
) -> None:
    """Python's operator, the float left or right. ``reflected``: what is recorded of ``float function tensor``."""

    @takes_floats(function)
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        left, right = args
        number, tensor = (left, right) if isinstance(left, SymbolicFloat) else (right, left)
        if not isinstance(number, SymbolicFloat):
            return None
        made = float_beside(tx, number, tensor)
        if made is None:
            return None
        return (
            reflected(tx, made, tensor) if number is left else record(tx, "call_function", target, [tensor, made], {})
        )


def _over(tx: Translator, number: VariableTracker, tensor: VariableTracker) -> VariableTracker:
    return record(
        tx, "call_function", operator.mul, [record(tx, "call_method", "reciprocal", [tensor], {}), number], {}
    )


_METHODS = ("add", "sub", "mul", "div", "gt", "ge", "lt", "le")

for _sign in ("+", "*"):
    _operator_of_two(BINARY[_sign], lambda tx, n, t, sign=_sign: record(tx, "call_function", BINARY[sign], [t, n], {}))
_operator_of_two(operator.sub, lambda tx, n, t: record(tx, "call_function", operator.sub, [n, t], {}))
_operator_of_two(BINARY["/"], _over)
for _sign in ("<", "<=", ">", ">="):
    _function, _swapped = COMPARE[_sign], COMPARE[SWAPPED[_sign]]
    _operator_of_two(_function, lambda tx, n, t, swapped=_swapped: record(tx, "call_function", swapped, [t, n], {}))
_elementwise(*(INPLACE[sign] for sign in "+-*/"))
for _name in _METHODS:
    _elementwise(_name, _name + "_", getattr(torch, _name))


def _filling(*targets: Any) -> None:
    """The float is converted to the type of the first argument."""

    @takes_floats(*targets)
    def rule(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        given = [*args, *kwargs.values()]
        if (
            set(kwargs) - {"value"}
            or not isinstance(args[0], TensorVariable)
            or not isinstance(given[-1], SymbolicFloat)
        ):
            return None
        if not args[0].fake.is_floating_point() or any(isinstance(each, SymbolicFloat) for each in given[:-1]):
            return None
        return record(tx, _kind(target), target, [*given[:-1], float_as_tensor(tx, given[-1])], {})


_filling(torch.masked_fill, "masked_fill", "masked_fill_", "fill_")


def fits(tx: Translator, number: VariableTracker, dtype: torch.dtype) -> bool:
    """Whether a float is given to an operator of floating tensors that refuses what float32 can't have: such floats are
    left to eager."""
    if not isinstance(number, SymbolicFloat) or dtype not in (torch.float32, torch.float64):
        return False
    return tx.truth(tx.compare("<=", tx.unary("abs", number), ConstantVariable(torch.finfo(torch.float32).max)))


@takes_floats(torch.lerp, "lerp", "lerp_")
def _lerp(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    if len(args) != 3 or kwargs or not isinstance(args[0], TensorVariable):
        return None
    dtype = args[0].fake.dtype
    if not fits(tx, args[2], dtype):
        return None
    return record(tx, _kind(target), target, [*args[:2], converted(tx, float_as_tensor(tx, args[2]), dtype)], {})


@takes_floats(torch.clamp, torch.clip, "clamp", "clamp_", "clip", "clip_")
def _clamp(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """One bound is a float, the other one another, a known number or not there."""
    bounds = dict(zip(("min", "max"), args[1:])) | {name: value.realize() for name, value in kwargs.items()}
    if not set(bounds) <= {"min", "max"} or not isinstance(args[0], TensorVariable) or not args[0].fake.ndim:
        return None
    made: dict[str, VariableTracker] = {}
    for name, bound in bounds.items():
        if isinstance(bound, ConstantVariable) and type(bound.value) in (int, float):
            made[name] = _scalar_tensor(tx, bound, torch.float64)
        elif fits(tx, bound, args[0].fake.dtype):
            made[name] = float_as_tensor(tx, bound)
        elif not tx.is_none(bound):
            return None
    return record(tx, _kind(target), target, args[:1], made)


@takes_floats(torch.full, torch.full_like, "new_full")
def _full(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    if len(args) != 2 + (target == "new_full") or not set(kwargs) <= {"dtype", "device"}:
        return None
    default = args[0].fake.dtype if isinstance(args[0], TensorVariable) else torch.get_default_dtype()
    dtype = kwargs["dtype"].as_constant() if "dtype" in kwargs else None
    *given, number = args
    if not fits(tx, number, default if dtype is None else dtype):
        return None
    empty = record(tx, _kind(target), target, [*given, ConstantVariable(0.0)], kwargs)
    return record(tx, "call_function", torch.fill, [empty, float_as_tensor(tx, number)], {})


# -- tensors made of numbers -------------------------------------------------------------------------------------------

_CPU = torch.device("cpu")


def _scalar_tensor(
    tx: Translator, number: VariableTracker, dtype: torch.dtype, device: torch.device = _CPU
) -> VariableTracker:
    named = {"dtype": ConstantVariable(dtype), "device": ConstantVariable(device)}
    return record(tx, "call_function", torch.scalar_tensor, [number], named)


def _tensor(function: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Numbers and tensors of one number are read: where some may differ from call to call the graph makes a tensor of
    each."""
    data = args[0].realize() if len(args) == 1 else None
    plain = set(kwargs) <= {"dtype", "device"} and all(each.is_constant() for each in kwargs.values())
    plain = plain and not (tx.graph.bodies or torch._C._len_torch_function_stack())
    if data is not None and plain and not isinstance(data, TensorVariable):
        given = {name: each.as_constant() for name, each in kwargs.items()}
        device = _CPU if given.get("device") in (None, "cpu") else given["device"]
        items = _numbers_in(data, device)
        if items is not None and any(isinstance(each, (SymbolicNumber, TensorVariable)) for each in items):
            dtypes = {_dtype_of(each) for each in items}
            wanted = given.get("dtype") or functools.reduce(torch.promote_types, dtypes)
            exact = wanted in (torch.float32, torch.float64) or dtypes == {torch.bool} == {wanted}
            if exact or (wanted is torch.int64 and not any(each.is_floating_point for each in dtypes)):
                return _stacked(tx, data, wanted, device)
    return call_operator(function)(tx, args, kwargs)


for _each in (torch.tensor, torch.as_tensor):
    models_raw(_each, functools.partial(_tensor, _each))


def _numbers_in(data: VariableTracker, device: torch.device) -> list[VariableTracker] | None:
    """A number, or all those in a list of lists of numbers; None where anything else is there, or there is none."""
    if isinstance(data, (ListVariable, TupleVariable)):
        found: list[VariableTracker] = []
        for each in data.items:
            inner = _numbers_in(each.realize(), device)
            if inner is None:
                return None
            found += inner
        return found or None
    if isinstance(data, TensorVariable):
        return [data] if _holds_a_number(data, device) else None
    is_number = isinstance(data, (SymbolicNumber, ConstantVariable)) and data.python_type() in (int, float, bool)
    return [data] if is_number else None


def _holds_a_number(of: TensorVariable, device: torch.device) -> bool:
    """Whether eager reads a number of it, and says nothing of that."""
    fake = of.fake
    plain = of.cls is torch.Tensor and not fake.ndim and fake.device == device and not fake.requires_grad
    return plain and fake.dtype in _READ


_READ = (*_NUMBERS, torch.float16, torch.bfloat16, torch.int16, torch.int8, torch.uint8, torch.bool)


def _dtype_of(item: Any) -> torch.dtype:
    if isinstance(item, TensorVariable):
        return item.fake.dtype
    return {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}[item.python_type()]


def _stacked(tx: Translator, data: VariableTracker, dtype: torch.dtype, device: torch.device) -> VariableTracker:
    if isinstance(data, (ListVariable, TupleVariable)):
        parts = ListVariable([_stacked(tx, each.realize(), dtype, device) for each in data.items])
        return record(tx, "call_function", torch.stack, [parts], {})
    if isinstance(data, SymbolicFloat) and device == _CPU:
        named = {"copy": ConstantVariable(True)}
        return record(tx, "call_method", "to", [float_as_tensor(tx, data), ConstantVariable(dtype)], named)
    if isinstance(data, TensorVariable):
        if dtype.is_floating_point:  # it is read as a float
            data = converted(tx, data, dtype if data.fake.dtype is dtype else torch.float64)
        return converted(tx, data, dtype)
    return _scalar_tensor(tx, data, dtype, device)
