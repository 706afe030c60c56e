"""Functions without side effects: CPython's own are called on constants."""

from __future__ import annotations

import bisect
import cmath
import json
import math
import posix
import struct
import sys
import types
from typing import Any

from dynamo_lite.insight.break_reasons import NumberFunctionOfTensor, UnsupportedOperation
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable, unless_refused
from dynamo_lite.variables.core.registry import models, models_raw
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber, call_on_numbers
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_PURE: tuple[Any, ...] = (
    *(value for module in (math, cmath) for value in vars(module).values() if type(value) is types.BuiltinFunctionType),
    *(round, chr, ord, bin, hex, oct, bytes, str.maketrans),
    *(vars(posix)[name] for name in ("_path_normpath", "_path_splitroot_ex") if name in vars(posix)),
)


def _model_pure(value: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if any(isinstance(arg, TensorVariable) for arg in args):
            unsupported(NumberFunctionOfTensor(value.__name__))
        if len(args) == 1 and not kwargs:
            return args[0].converted(tx, value)
        special = args[0].call_special(tx, "__round__", *args[1:]) if value is round and args and not kwargs else None
        if special is not None:
            return special
        symbolic = None if kwargs else call_on_numbers(tx, value, args)
        return tx.fold_call(value, args, kwargs) if symbolic is None else symbolic

    models_raw(value, model)


for _value in _PURE:
    _model_pure(_value)


@models(math.prod)
def _prod(tx: Translator, iterable: VariableTracker, /, *, start: VariableTracker | None = None) -> VariableTracker:
    """Constants are multiplied by CPython, other items one after the other."""
    items = TupleVariable(iterable.elements(tx))
    named = {} if start is None else {"start": start}
    if all(map(tx.is_plain, [items, *named.values()])):
        return tx.fold_call(math.prod, [items], named)
    return tx.call(tx.make(polyfills.operator.prod), [items], named)


def _is_real(number: VariableTracker) -> bool:
    return number.operand is not None and number.python_type() in (int, float)


@models(divmod)
def _divmod(tx: Translator, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    for one, name, other in ((left, "__divmod__", right), (right, "__rdivmod__", left)):
        result = unless_refused(one.call_special(tx, name, other))
        if result is not None:
            return result
    numbers = [each.realize() for each in (left, right)]
    if any(isinstance(each, SymbolicNumber) for each in numbers) and all(map(_is_real, numbers)):
        if tx.truth(tx.compare("!=", right, ConstantVariable(0))):  # otherwise divmod raises with a message of its own
            return TupleVariable([tx.binary(symbol, left, right) for symbol in ("//", "%")])
    values = [each.builtin_part() for each in numbers]
    return tx.fold_call(divmod, numbers if any(each.operand is None for each in values) else values, {})


@models(pow)
def _pow(
    tx: Translator, base: VariableTracker, exp: VariableTracker, mod: VariableTracker | None = None
) -> VariableTracker:
    if mod is None or tx.is_none(mod):
        return tx.binary("**", base, exp)
    numbers = [each.realize() for each in (base, exp, mod)]
    if any(isinstance(each, SymbolicNumber) for each in numbers) and all(each.python_type() is int for each in numbers):
        zero = ConstantVariable(0)  # a negative exponent takes an inverse, modulo zero raises
        if tx.truth(tx.compare(">=", exp, zero)) and tx.truth(tx.compare("!=", mod, zero)):
            return tx.binary("%", tx.binary("**", base, exp), mod)
    return tx.fold_call(pow, [base, exp, mod], {})


def _model_on_constants(function: Any) -> None:
    """A function that calls methods of other objects: its polyfill is inlined for those, if there is one."""
    polyfill = polyfills.TABLE.get(function)

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not all(map(tx.is_plain, [*args, *kwargs.values()])):
            if polyfill is not None:
                return tx.call(tx.make(polyfill), args, kwargs)
            name = f"{function.__module__}.{function.__name__}()"
            unsupported(UnsupportedOperation(name, "values other than constants and containers of constants"))
        return tx.fold_call(function, args, kwargs)

    models_raw(function, model)


for _value in (
    *(json.dumps, json.loads, struct.calcsize, struct.pack, struct.unpack, sys.intern),
    *(bisect.bisect_left, bisect.bisect_right, ascii),
):
    _model_on_constants(_value)
