"""Python's builtin functions: one model each. Those that call user code for each item are written in `polyfills`."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import itertools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import ClassCreation, UnsupportedKey
from dynamo_lite.shapes.float_formulas import total_of
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.attributes import attribute_name, is_callable
from dynamo_lite.variables.core.base import (
    Args,
    Exhausted,
    Kwargs,
    ObservedException,
    Translator,
    VariableTracker,
    remaining_items,
    unsupported,
)
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import has_stable_hash, key_of
from dynamo_lite.variables.core.registry import Model, models, models_raw

from .classes.isinstance_checks import is_instance, is_subclass
from .containers.instance_dict import globals_of
from .containers.iterators import CallIterator, EnumerateVariable, FilterVariable, MapVariable
from .containers.sequences import ListVariable, SequenceVariable, SliceVariable
from .containers.sets import SetVariable
from .functions.function import FunctionVariable
from .numbers.symbolic import SymbolicNumber, SymNodeVariable, call_on_numbers, extremum

# -- polyfills ---------------------------------------------------------------------------------------------------------


def _inlining(builtin: Callable[..., Any]) -> Model:
    """The model that inlines the builtin's polyfill."""
    polyfill = polyfills.TABLE[builtin]
    assert isinstance(polyfill, types.FunctionType), polyfill
    return lambda tx, args, kwargs: tx.call(FunctionVariable(polyfill, None), args, kwargs)


for _builtin in polyfills.TABLE:
    models_raw(_builtin, _inlining(_builtin))


def _model_extremum(builtin: Callable[..., Any]) -> None:
    """``min`` or ``max``: folded for constants, computed for symbolic numbers, otherwise the polyfill."""
    inline = _inlining(builtin)

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        items = args[0].items if len(args) == 1 and isinstance(args[0], SequenceVariable) else args
        numbers = [] if kwargs else [each.realize() for each in items]
        if not kwargs and all(isinstance(each, ConstantVariable) for each in numbers):
            return tx.fold_call(builtin, args, {})
        symbolic = extremum(tx, builtin, numbers)
        return inline(tx, args, kwargs) if symbolic is None else symbolic

    models_raw(builtin, model)


_model_extremum(min)
_model_extremum(max)


@models(sum)
def _sum(tx: Translator, iterable: VariableTracker, start: VariableTracker | None = None) -> VariableTracker:
    """The leading numbers are added by the builtin if one is a float: from Python 3.12 on it compensates for rounding,
    so the result differs from repeated ``+``."""
    iterator = tx.iterate(iterable)
    total: VariableTracker = start or ConstantVariable(0)
    numbers: list[VariableTracker] = []
    rest: list[VariableTracker] = []
    try:
        while not rest and isinstance(total, ConstantVariable):
            item = iterator.next(tx)
            (numbers if _is_summed_by_builtin(item) else rest).append(item)
    except Exhausted:
        remaining: Iterable[VariableTracker] = ()  # a user's iterator may return items again after its StopIteration
    else:
        remaining = remaining_items(tx, iterator)
    if all(issubclass(each.python_type(), int) for each in (total, *numbers)):
        rest = [*numbers, *rest]
    elif isinstance(total, ConstantVariable):
        symbolic = call_on_numbers(tx, total_of, [total, *numbers])
        if symbolic is None:
            symbolic = tx.make(tx.fold(sum, ([each.as_constant() for each in numbers], total.value)))
        total = symbolic
    for item in itertools.chain(rest, remaining):
        total = tx.binary("+", total, item).realize()
    return total


def _is_summed_by_builtin(item: VariableTracker) -> bool:
    """Whether it is a number whose value is known before the graph runs."""
    if isinstance(item, SymbolicNumber):
        return not (isinstance(item, SymNodeVariable) and item.is_data_dependent)
    return isinstance(item, ConstantVariable) and isinstance(item.value, (int, float, complex))


# -- functions that are one operation ----------------------------------------------------------------------------------

_OPERATIONS: dict[Callable[..., Any], Callable[..., VariableTracker]] = {
    abs: lambda tx, of: tx.unary("abs", of),
    callable: lambda tx, of: ConstantVariable(is_callable(tx, of)),
    filter: lambda tx, function, iterable: FilterVariable(function, tx.iterate(iterable)),
    globals: lambda tx: globals_of(tx, tx.scope),
    hasattr: lambda tx, of, name: ConstantVariable(tx.has_attribute(of, attribute_name(tx, name))),
    isinstance: lambda tx, of, classinfo: ConstantVariable(is_instance(tx, of, classinfo)),
    issubclass: lambda tx, of, classinfo: ConstantVariable(is_subclass(tx, of, classinfo)),
    len: lambda tx, of: tx.length(of),
    repr: lambda tx, of: of.realize().text(tx, "__repr__"),
    reversed: lambda tx, of: of.reverse(tx),
}
for _builtin, _operation in _OPERATIONS.items():
    models(_builtin)(_operation)


# -- functions of one value --------------------------------------------------------------------------------------------


@models(bool)
def _bool(tx: Translator, of: VariableTracker | None = None) -> VariableTracker:
    late = None if of is None else of.realize().deferred_truth(tx)
    return ConstantVariable(of is not None and tx.truth(of)) if late is None else late


def _number(kind: type) -> None:
    @models(kind)
    def convert(tx: Translator, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        return args[0].converted(tx, kind) if len(args) == 1 and not kwargs else tx.fold_call(kind, args, kwargs)


for _kind in (int, float, complex):
    _number(_kind)


@models(str)
def _str(tx: Translator, *args: VariableTracker) -> VariableTracker:
    if len(args) == 1:
        return args[0].realize().text(tx, "__str__")
    return tx.fold_call(str, args, {})


@models(format)
def _format(tx: Translator, of: VariableTracker, spec: VariableTracker | None = None) -> VariableTracker:
    if spec is not None and not issubclass(spec.python_type(), str):
        refuse_arguments("format")
    return of.format(tx, spec or ConstantVariable(""))


@models(hash)
def _hash(tx: Translator, of: VariableTracker) -> VariableTracker:
    key = key_of(tx, of)
    if not has_stable_hash(key):
        unsupported(UnsupportedKey(of.describe()))
    return ConstantVariable(hash(key))


# -- attributes and classes --------------------------------------------------------------------------------------------


@models(getattr)
def _getattr(
    tx: Translator, of: VariableTracker, name: VariableTracker, default: VariableTracker | None = None
) -> VariableTracker:
    try:
        return of.getattr(tx, attribute_name(tx, name))
    except ObservedException as observed:
        if default is None or not issubclass(observed.error.python_type(), AttributeError):
            raise
        return default


@models(setattr)
def _setattr(tx: Translator, of: VariableTracker, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    of.setattr(tx, attribute_name(tx, name), value)
    return ConstantVariable(None)


@models(delattr)
def _delattr(tx: Translator, of: VariableTracker, name: VariableTracker) -> VariableTracker:
    of.delattr(tx, attribute_name(tx, name))
    return ConstantVariable(None)


@models(vars)
def _vars(tx: Translator, of: VariableTracker) -> VariableTracker:
    found = tx.attribute_or_none(of, "__dict__")
    if found is None:
        tx.raise_error(TypeError, "vars() argument must have __dict__ attribute")
    return found


# -- classes -----------------------------------------------------------------------------------------------------------


def _create_class(tx: Translator, name: VariableTracker) -> NoReturn:
    name = name.realize()
    is_constant = isinstance(name, ConstantVariable)
    unsupported(ClassCreation(str(name.as_constant()) if is_constant else name.describe().removeprefix("class ")))


@models(builtins.__build_class__)
def _build_class(
    tx: Translator, body: VariableTracker, name: VariableTracker, /, *bases: VariableTracker, **kwargs: VariableTracker
) -> NoReturn:
    """A ``class`` statement: CPython runs it, and after the graph break the class is an ordinary value."""
    _create_class(tx, name)


for _factory in (collections.namedtuple, types.new_class, dataclasses._process_class):  # type: ignore[attr-defined]
    # The first argument is the name of the class, or the class that is copied.
    models_raw(
        _factory,
        lambda tx, args, kwargs: _create_class(tx, next(iter((*args, *kwargs.values())), ConstantVariable(""))),
    )


@models(type)
def _type(tx: Translator, of: VariableTracker, /, *rest: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if rest or kwargs:
        if len(rest) != 2:
            refuse_arguments("type")
        _create_class(tx, of)
    return tx.make(of.python_type())


# -- iteration ---------------------------------------------------------------------------------------------------------


@models(iter)
def _iter(tx: Translator, of: VariableTracker, sentinel: VariableTracker | None = None) -> VariableTracker:
    if sentinel is not None:
        if not is_callable(tx, of):
            tx.fold(iter, (None, None))  # raises, with the text of this version
        return CallIterator(of, sentinel)
    return tx.iterate(of)


@models(next)
def _next(tx: Translator, iterator: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    try:
        return tx.next(iterator)
    except ObservedException as observed:
        if default is None or not issubclass(observed.error.python_type(), StopIteration):
            raise
        return default


@models(enumerate)
def _enumerate(tx: Translator, iterable: VariableTracker, start: VariableTracker | None = None) -> VariableTracker:
    first = 0 if start is None else tx.index_value(start)
    return EnumerateVariable(tx.iterate(iterable), first)


@models(zip)
def _zip(tx: Translator, *iterables: VariableTracker, strict: VariableTracker | None = None) -> VariableTracker:
    return MapVariable(None, [tx.iterate(each) for each in iterables], strict is not None and tx.truth(strict))


@models(map)
def _map(
    tx: Translator, function: VariableTracker, *iterables: VariableTracker, strict: VariableTracker | None = None
) -> VariableTracker:
    if not iterables or strict is not None and sys.version_info < (3, 14):
        refuse_arguments("map")
    is_strict = strict is not None and tx.truth(strict)
    return MapVariable(function, [tx.iterate(each) for each in iterables], is_strict)


_ORDERED: tuple[set[type], ...] = ({int}, {str})
"""Types of items that `sorted` gives in one order, whatever the order of their set is."""


@models(sorted)
def _sorted(
    tx: Translator,
    iterable: VariableTracker,
    /,
    *,
    key: VariableTracker | None = None,
    reverse: VariableTracker | None = None,
) -> VariableTracker:
    if key is None and isinstance(iterable, SetVariable) and {type(each.key) for each in iterable.items} in _ORDERED:
        items = iterable.trackers  # distinct and totally ordered: the set's order can't be observed
    else:
        items = list(iterable.each_with_length_hint(tx))
    tx.sort(items, key, reverse is not None and tx.truth(reverse))
    return ListVariable(items)


@models(slice)
def _slice(tx: Translator, *parts: VariableTracker) -> VariableTracker:
    if not 1 <= len(parts) <= 3:
        refuse_arguments("slice")
    none = ConstantVariable(None)
    return SliceVariable([none, *parts, none] if len(parts) == 1 else [*parts, none][:3])


@models(range)
def _range(tx: Translator, *parts: VariableTracker) -> VariableTracker:
    return tx.make(tx.fold(range, [p.as_constant() if p.is_constant() else tx.index_value(p) for p in parts]))
