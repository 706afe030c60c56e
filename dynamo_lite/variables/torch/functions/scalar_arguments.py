"""Operators that take a number as an argument.

If a tensor is given for the number, eager reads its value: the graph computes with the tensor instead. A symbolic float
becomes a tensor of the graph, where the operator gives the same bits with that tensor.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeGuard

import torch

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import class_lookup
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE, SWAPPED
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.python.containers.structures import structure_leaves
from dynamo_lite.variables.python.numbers.symbolic import SymbolicFloat, SymbolicNumber, SymNodeVariable
from dynamo_lite.variables.torch.tensors.equivalent_operators import rewrites, takes_floats
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .torch_functions import call_operator


def _is_number_tensor(number: VariableTracker, args: Args, ndim: int = 0) -> bool:
    """Whether eager would read a tensor as numbers, and multiply floating-point tensors by these."""
    return (
        isinstance(number, TensorVariable)
        and number.fake.ndim == ndim
        and number.fake.dtype in _NUMBERS
        and not number.fake.requires_grad
        and all(isinstance(each, TensorVariable) and each.fake.is_floating_point() for each in args)
    )


_NUMBERS = (torch.float32, torch.float64, torch.int64, torch.int32)


def _scaled(tx: Translator, value: VariableTracker, number: VariableTracker) -> VariableTracker:
    """The product in the dtype of ``value``: a number doesn't promote it."""
    product = record(tx, torch.mul, [value, number], {})
    assert isinstance(value, TensorVariable)
    return converted(tx, product, value.fake.dtype)


@rewrites("addcdiv", "addcdiv_", "addcmul", "addcmul_")
def _scaled_product(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``self + value * one * other`` or ``self + value * one / other``, from left to right as eager computes it."""
    if len(args) != 3 or set(kwargs) != {"value"} or not _is_number_tensor(kwargs["value"], args):
        return None
    return record(tx, name, [args[0], _scaled(tx, args[1], kwargs["value"]), args[2]], {})


def _number_list(tx: Translator, numbers: VariableTracker, args: Args) -> ListVariable | None:
    """The numbers as a list of tensors, if they are tensors that eager would read."""
    if isinstance(numbers, (ListVariable, TupleVariable)):
        items = [each.realize() for each in numbers.items]
        return ListVariable(items) if all(_is_number_tensor(each, args) for each in items) else None
    if not _is_number_tensor(numbers, args, ndim=1):
        return None
    return ListVariable(record(tx, "unbind", [numbers], {}).elements(tx))


@rewrites("_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_")
def _scaled_products(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The same of lists of tensors, with a value for each: a tensor of all values, or a list of tensors."""
    numbers = args[3] if len(args) == 4 else kwargs.get("scalars")
    number_list = None if numbers is None else _number_list(tx, numbers.realize(), args[0].elements(tx))
    if number_list is None:
        return None
    scaled = record(tx, torch._foreach_mul, [args[1], number_list], {})
    return record(tx, getattr(torch, name), [args[0], scaled, args[2]], {})


def are_alike(one: VariableTracker, other: VariableTracker) -> bool:
    """Whether two tensors have one shape and no broadcast dimension. Over such a dimension eager's loop rounds
    differently."""
    assert isinstance(one, TensorVariable) and isinstance(other, TensorVariable)
    fakes = one.fake, other.fake
    strides = [stride for fake in fakes for size, stride in zip(fake.shape, fake.stride()) if size != 1]
    return fakes[0].shape == fakes[1].shape and 0 not in strides


@rewrites("add", "add_", "sub", "sub_")
def _scaled_sum(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``self + alpha * other``. ``addcmul`` rounds once, as eager does where the tensors are alike."""
    if len(args) != 2 or set(kwargs) != {"alpha"} or not _is_number_tensor(kwargs["alpha"], args):
        return None
    one, other = args
    assert isinstance(one, TensorVariable) and isinstance(other, TensorVariable)
    if one.fake.dtype is not other.fake.dtype or not are_alike(one, other) or is_differentiated(args):
        return record(tx, name, [one, _scaled(tx, other, kwargs["alpha"])], {})
    factor = converted(tx, kwargs["alpha"], one.fake.dtype)
    sign: Kwargs = {"value": ConstantVariable(-1)} if name.startswith("sub") else {}
    return record(tx, "addcmul_" if name.endswith("_") else "addcmul", [one, other, factor], sign)


def is_differentiated(tensors: Args) -> bool:
    """Whether autograd records an operator on these tensors."""
    return torch.is_grad_enabled() and any(isinstance(t, TensorVariable) and t.fake.requires_grad for t in tensors)


@rewrites("pow", "pow_", "ipow", "__rpow__", "_foreach_pow", "_foreach_pow_")
def _power(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The derivative formulas branch on the exponent, so symbolic ints are specialized. A negative base is recorded by
    ``__rpow__``: the code of a graph module would print ``(-2) ** x`` as ``-2 ** x``."""
    values = [leaf for each in args for leaf in structure_leaves(each)]
    if is_differentiated(values):
        for each in values:
            if isinstance(each, SymNodeVariable) and not each.is_data_dependent:
                each.as_constant()
    if name != "pow" or len(args) != 2 or kwargs or not isinstance(args[1].realize(), TensorVariable):
        return None
    base = args[0].realize()
    is_negative = isinstance(base, ConstantVariable) and repr(base.value).startswith("-")
    if not is_negative and not isinstance(base, SymbolicFloat):
        return None
    return record(tx, "__rpow__", [args[1], base], {})


# -- floats ------------------------------------------------------------------------------------------------------------


def float_beside(tx: Translator, number: SymbolicFloat, other: VariableTracker) -> VariableTracker | None:
    """The tensor that replaces a float argument beside another tensor: the operator promotes it and computes with it as
    with the number. None: no tensor does."""
    if not isinstance(other, TensorVariable) or other.has_torch_function:
        return None
    fake = other.fake
    if fake.dtype in _REDUCED and not fake.ndim:
        return None  # eager computes with the float unrounded, and a tensor of the result's dtype would round it
    tensor = float_as_tensor(tx.graph, number)
    if fake.ndim and (fake.is_floating_point() or fake.is_complex()):
        return tensor  # of a zero-dimensional tensor only the category of its dtype takes part in promotion
    wanted = torch.result_type(fake, 1.0)
    return converted(tx, tensor, _REAL.get(wanted, wanted))


_REDUCED = frozenset({torch.float16, torch.bfloat16, torch.complex32})
_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def float_as_tensor(graph: GraphBuilder, number: SymbolicFloat) -> TensorVariable:
    given = graph.float(number.formula)
    return TensorVariable(given.node, given.fake, torch.Tensor)


def converted(tx: Translator, tensor: VariableTracker, dtype: torch.dtype) -> VariableTracker:
    assert isinstance(tensor, TensorVariable)
    if tensor.fake.dtype is dtype:
        return tensor
    return record(tx, "to", [tensor, ConstantVariable(dtype)], {})


Target = str | Callable[..., object]
"""An operator: a function, or the name of a method."""


_ELEMENTWISE: list[Target] = [
    target
    for name in ("add", "sub", "mul", "div", "gt", "ge", "lt", "le")
    for target in (name, name + "_", getattr(torch, name))
]


_EXCHANGED = {
    **{BINARY[sign]: BINARY[sign] for sign in "+*"},
    **{COMPARE[sign]: COMPARE[SWAPPED[sign]] for sign in ("<", "<=", ">", ">=")},
}
"""Python's operators, and those that give the same with the operands exchanged."""
_OPERATORS = (*_EXCHANGED, operator.sub, operator.truediv)


@takes_floats(*_ELEMENTWISE, *(INPLACE[sign] for sign in "+-*/"), *_OPERATORS)
def _elementwise(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``target(tensor, float)``."""
    if len(args) != 2 or kwargs or not isinstance(args[1], SymbolicFloat):
        return None
    number = float_beside(tx, args[1], args[0])
    return None if number is None else record(tx, target, [args[0], number], {})


@takes_floats(*_OPERATORS)
def _reflected(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """Python's operator with the float on the left."""
    left, tensor = args
    number = float_beside(tx, left, tensor) if isinstance(left, SymbolicFloat) else None
    if number is None:
        return None
    if target is operator.sub:
        return record(tx, target, [number, tensor], {})
    if target is operator.truediv:  # as `Tensor.__rtruediv__` computes it
        reciprocal = record(tx, "reciprocal", [tensor], {})
        return record(tx, operator.mul, [reciprocal, number], {})
    return record(tx, _EXCHANGED[target], [tensor, number], {})


def fits_float32(number: VariableTracker, tx: Translator, dtype: torch.dtype) -> TypeGuard[SymbolicFloat]:
    """Whether a symbolic float is in the range of float32, and guarded to be. Operators on floating-point tensors raise
    for other numbers."""
    if not isinstance(number, SymbolicFloat) or dtype not in (torch.float32, torch.float64):
        return False
    return tx.truth(tx.compare("<=", tx.unary("abs", number), ConstantVariable(torch.finfo(torch.float32).max)))


@takes_floats(torch.lerp, "lerp", "lerp_")
def _lerp(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    if len(args) != 3 or kwargs or not isinstance(args[0], TensorVariable):
        return None
    dtype = args[0].fake.dtype
    if not fits_float32(args[2], tx, dtype):
        return None
    return record(tx, target, [*args[:2], converted(tx, float_as_tensor(tx.graph, args[2]), dtype)], {})


@takes_floats(torch.clamp, torch.clip, "clamp", "clamp_", "clip", "clip_")
def _clamp(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """Each bound is a symbolic float, a constant or missing. As tensors they have to be on the tensor's device."""
    bounds = dict(zip(("min", "max"), args[1:])) | {name: value.realize() for name, value in kwargs.items()}
    if not set(bounds) <= {"min", "max"} or not isinstance(args[0], TensorVariable) or not args[0].fake.ndim:
        return None
    tensors: Kwargs = {}
    device = args[0].fake.device
    for name, bound in bounds.items():
        if isinstance(bound, ConstantVariable) and type(bound.value) in (int, float):
            tensors[name] = _scalar_tensor(tx, bound, torch.float64, device)
        elif fits_float32(bound, tx, args[0].fake.dtype):
            tensors[name] = float_as_tensor(tx.graph, bound)
            if device != _CPU:
                tensors[name] = record(tx, "to", [tensors[name], ConstantVariable(device)], {})
        elif not tx.is_none(bound):
            return None
    return record(tx, target, args[:1], tensors)


@takes_floats(torch.where, "where")
def _where(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``torch.where(condition, one, other)`` and ``one.where(condition, other)``, one of them a float."""
    if len(args) != 3 or kwargs:
        return None
    given, positions = list(args), (0, 2) if target == "where" else (1, 2)
    for position, beside in zip(positions, reversed(positions)):
        number, tensor = args[position], args[beside]
        if isinstance(number, SymbolicFloat):
            if not isinstance(tensor, TensorVariable) or not fits_float32(number, tx, tensor.fake.dtype):
                return None
            given[position] = converted(tx, float_as_tensor(tx.graph, number), tensor.fake.dtype)
    return record(tx, target, given, {})


@takes_floats(torch.full, torch.full_like, "new_full")
def _full(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    if len(args) != 2 + (target == "new_full") or not set(kwargs) <= {"dtype", "device"}:
        return None
    default = args[0].fake.dtype if isinstance(args[0], TensorVariable) else torch.get_default_dtype()
    dtype = kwargs["dtype"].as_constant() if "dtype" in kwargs else None
    *given, number = args
    if not fits_float32(number, tx, default if dtype is None else dtype):
        return None
    empty = record(tx, target, [*given, ConstantVariable(0.0)], kwargs)
    return record(tx, torch.fill, [empty, float_as_tensor(tx.graph, number)], {})


# -- tensors created from numbers --------------------------------------------------------------------------------------

_CPU = torch.device("cpu")


def _scalar_tensor(
    tx: Translator, number: VariableTracker, dtype: torch.dtype, device: torch.device = _CPU
) -> VariableTracker:
    named: Kwargs = {"dtype": ConstantVariable(dtype), "device": ConstantVariable(device)}
    return record(tx, torch.scalar_tensor, [number], named)


def plain_data(tx: Translator, data: VariableTracker) -> VariableTracker:
    """The data of a tensor as lists and tuples. Breaks the graph if a derived class overrides how torch reads it."""
    data = data.realize()
    sequence = data.builtin_part()
    if not isinstance(sequence, (ListVariable, TupleVariable)):
        return data
    cls, base = data.python_type(), sequence.python_type()
    if data is not sequence and any(tx.lookup(cls, each) is not class_lookup(base, each) for each in _READING):
        unsupported(UnsupportedValue(data.describe(), "torch reads it by methods that its class overrides"))
    return sequence.like([plain_data(tx, each) for each in sequence.items])


_READING = ("__len__", "__getitem__", "__iter__")


def _tensor(function: Callable[..., object], tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``torch.tensor(data)``, which reads numbers and zero-dimensional tensors in nested lists. If some of them are
    symbolic or tensors, the graph stacks a tensor of each."""
    data = plain_data(tx, args[0]) if len(args) == 1 else None
    args = args if data is None else [data]
    can_stack = set(kwargs) <= {"dtype", "device"} and all(each.is_constant() for each in kwargs.values())
    if data is not None and can_stack and not (tx.graph.scope.is_nested or isinstance(data, TensorVariable)):
        given = {name: each.as_constant() for name, each in kwargs.items()}
        device = torch.get_default_device() if given.get("device") is None else torch.device(given["device"])
        items = [*structure_leaves(data)]
        is_known = not any(isinstance(each, (SymbolicNumber, TensorVariable)) for each in items)
        if not is_known and all(_is_number(each, device) for each in items):
            dtypes = {_dtype_of(each) for each in items}
            wanted = given.get("dtype") or functools.reduce(torch.promote_types, dtypes)
            is_exact = wanted in (torch.float32, torch.float64) or dtypes == {torch.bool} == {wanted}
            if is_exact or (wanted is torch.int64 and not any(each.is_floating_point for each in dtypes)):
                return _stacked(tx, data, wanted, device)
    return call_operator(function)(tx, args, kwargs)


for _each in (torch.tensor, torch.as_tensor):
    models_raw(_each, functools.partial(_tensor, _each))


@rewrites("new_tensor")
def _new_tensor(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """``new_tensor`` of symbolic numbers: `torch.tensor`, whose defaults are those of the tensor."""
    tensor, *args = args[0].realize(), *(plain_data(tx, each) for each in args[1:])
    has_symbols = len(args) == 1 and any(each.is_symbolic for each in structure_leaves(args[0]))
    if not has_symbols or not isinstance(tensor, TensorVariable) or not set(kwargs) <= {"dtype", "device"}:
        return None
    given = {"dtype": ConstantVariable(tensor.fake.dtype), "device": ConstantVariable(tensor.fake.device), **kwargs}
    return _tensor(torch.tensor, tx, args, given)


def _is_number(item: VariableTracker, device: torch.device) -> bool:
    if isinstance(item, TensorVariable):
        return _is_silently_read(item, device)
    return isinstance(item, (SymbolicNumber, ConstantVariable)) and item.python_type() in (int, float, bool)


def _is_silently_read(tensor: TensorVariable, device: torch.device) -> bool:
    """Whether eager reads a number from a tensor without a warning."""
    fake = tensor.fake
    is_plain = tensor.cls is torch.Tensor and not fake.ndim and fake.device == device and not fake.requires_grad
    return is_plain and fake.dtype in _READ_DTYPES


_READ_DTYPES = (*_NUMBERS, torch.float16, torch.bfloat16, torch.int16, torch.int8, torch.uint8, torch.bool)


def _dtype_of(item: VariableTracker) -> torch.dtype:
    if isinstance(item, TensorVariable):
        return item.fake.dtype
    return {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}[item.python_type()]


def _stacked(tx: Translator, data: VariableTracker, dtype: torch.dtype, device: torch.device) -> VariableTracker:
    if isinstance(data, (ListVariable, TupleVariable)):
        items = ListVariable([_stacked(tx, each.realize(), dtype, device) for each in data.items])
        return record(tx, torch.stack, [items], {})
    if isinstance(data, SymbolicFloat):
        named: Kwargs = {"copy": ConstantVariable(True)}
        target = [] if device == _CPU else [ConstantVariable(device)]
        return record(tx, "to", [float_as_tensor(tx.graph, data), *target, ConstantVariable(dtype)], named)
    if isinstance(data, TensorVariable):
        if dtype.is_floating_point:  # eager reads a Python float
            data = converted(tx, data, dtype if data.fake.dtype is dtype else torch.float64)
        return converted(tx, data, dtype)
    return _scalar_tensor(tx, data, dtype, device)
