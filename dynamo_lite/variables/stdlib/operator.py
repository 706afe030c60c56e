"""The module ``operator``: Python's operators as functions."""

from __future__ import annotations

import operator
from typing import Any

from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE, UNARY
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.containers.sequences import TupleVariable


def _operator_models() -> None:
    for symbol, function in BINARY.items():
        models(function)(lambda tx, a, b, symbol=symbol: tx.binary(symbol, a, b))
        models(INPLACE[symbol])(lambda tx, a, b, symbol=symbol: tx.inplace(symbol, a, b))
    for symbol, function in COMPARE.items():
        models(function)(lambda tx, a, b, symbol=symbol: tx.compare(symbol, a, b))
    for symbol, unary in UNARY.items():
        models(unary)(lambda tx, a, symbol=symbol: tx.unary(symbol, a))


_operator_models()
models(operator.inv)(lambda tx, a: tx.unary("~", a))
models(operator.truth)(lambda tx, a: ConstantVariable(tx.truth(a)))
models(operator.not_)(lambda tx, a: ConstantVariable(not tx.truth(a)))
models(operator.is_)(lambda tx, a, b: ConstantVariable(tx.identical(a, b)))
models(operator.is_not)(lambda tx, a, b: ConstantVariable(not tx.identical(a, b)))
models(operator.contains)(lambda tx, a, b: ConstantVariable(a.contains(tx, b)))
models(operator.getitem)(lambda tx, a, b: a.getitem(tx, b))
models(operator.index)(lambda tx, a: a if a.is_symbolic and a.python_type() is int else tx.make(tx.index_value(a)))


class ItemOrAttributeGetterVariable(VariableTracker):
    """``operator.itemgetter`` and ``attrgetter``."""

    __slots__ = ("kind", "names")

    def __init__(self, kind: Any, names: tuple[Any, ...], source: Source | None = None) -> None:
        self.source = source
        self.kind = kind
        self.names = names

    def python_type(self) -> type:
        return self.kind

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs:
            refuse_arguments(f"operator.{self.kind.__name__}")
        items = [self._get(tx, args[0], name) for name in self.names]
        return items[0] if len(items) == 1 else TupleVariable(items)

    def _get(self, tx: Translator, of: VariableTracker, name: Any) -> VariableTracker:
        if self.kind is operator.itemgetter:
            return of.getitem(tx, tx.make(name)).realize()
        for part in name.split("."):
            of = of.getattr(tx, part).realize()
        return of

    def construct(self, plan: Planner) -> Value:
        return plan.call(self.kind, *map(plan.constant, self.names))


@models(operator.itemgetter)
def _itemgetter(tx: Translator, first: VariableTracker, /, *others: VariableTracker) -> VariableTracker:
    names = first, *others
    return ItemOrAttributeGetterVariable(operator.itemgetter, tuple(tx.python_value(name) for name in names))


@models(operator.attrgetter)
def _attrgetter(tx: Translator, *names: VariableTracker) -> VariableTracker:
    values = tuple(tx.python_value(name) for name in names)
    tx.fold(operator.attrgetter, values)
    return ItemOrAttributeGetterVariable(operator.attrgetter, values)


class MethodCallerVariable(VariableTracker):
    """``operator.methodcaller``."""

    __slots__ = ("name", "args", "kwargs")
    exact_type = operator.methodcaller

    def __init__(self, name: str, args: Args, kwargs: Kwargs) -> None:
        self.source = None
        self.name = name
        self.args = args
        self.kwargs = kwargs

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs:
            refuse_arguments("operator.methodcaller")
        return tx.call(args[0].getattr(tx, self.name), self.args, self.kwargs)

    def construct(self, plan: Planner) -> Value:
        return plan.call(operator.methodcaller, plan.constant(self.name), *self.args, **self.kwargs)


@models(operator.methodcaller)
def _methodcaller(
    tx: Translator, name: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    value = tx.python_value(name)
    if type(value) is not str:
        refuse_arguments("operator.methodcaller")
    return MethodCallerVariable(value, list(args), kwargs)


@wraps_type(operator.itemgetter, operator.attrgetter)
def _wrap_getter(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    """``__reduce__`` returns the arguments that it was created with."""
    source.check("id", value)
    return ItemOrAttributeGetterVariable(type(value), value.__reduce__()[1], source)
