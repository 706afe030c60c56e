"""The module ``operator``: Python's operators as functions."""

from __future__ import annotations

import operator
from typing import Any

from ...reasons import UnsupportedOperation
from ..attributes import MISSING, class_lookup
from ..base import Args, Kwargs, VariableTracker, unsupported
from ..constant import ConstantVariable
from ..registry import models
from ..sequence import TupleVariable
from ..user_object import UserObjectVariable


@models(operator.length_hint)
def _length_hint(tx: Any, of: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    kind = of.python_type()
    if class_lookup(kind, "__len__") is not MISSING:
        return ConstantVariable(of.length(tx))
    if class_lookup(kind, "__length_hint__") is MISSING:
        return default or ConstantVariable(0)
    if isinstance(of, UserObjectVariable):
        unsupported(UnsupportedOperation("operator.length_hint()", of.describe()))
    return of.call_method(tx, "__length_hint__", [], {})


@models(operator.truth)
def _truth(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(tx.truth(of))


@models(operator.not_)
def _not(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(not tx.truth(of))


@models(operator.abs)
def _abs(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("abs", of)


@models(operator.neg)
def _neg(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("-", of)


@models(operator.pos)
def _pos(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("+", of)


@models(operator.invert, operator.inv)
def _invert(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("~", of)


def _operator_models() -> None:
    for symbol, name in (
        *(("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv"), ("//", "floordiv"), ("%", "mod"), ("**", "pow")),
        *(("@", "matmul"), ("&", "and_"), ("|", "or_"), ("^", "xor"), ("<<", "lshift"), (">>", "rshift")),
    ):
        models(getattr(operator, name))(lambda tx, a, b, symbol=symbol: tx.binary(symbol, a, b))
        inplace = getattr(operator, "i" + name.rstrip("_"))
        models(inplace)(lambda tx, a, b, symbol=symbol: tx.inplace(symbol, a, b))
    for symbol, name in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
        models(getattr(operator, name))(lambda tx, a, b, symbol=symbol: tx.compare(symbol, a, b))


_operator_models()
models(operator.is_)(lambda tx, a, b: ConstantVariable(tx.identical(a, b)))
models(operator.is_not)(lambda tx, a, b: ConstantVariable(not tx.identical(a, b)))
models(operator.contains)(lambda tx, a, b: ConstantVariable(a.contains(tx, b)))
models(operator.getitem)(lambda tx, a, b: tx.getitem(a, b))
models(operator.index)(lambda tx, a: tx.make(a.as_constant() if a.is_constant() else tx.index_value(a)))


@models(operator.setitem)
def _setitem(tx: Any, container: VariableTracker, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    container.setitem(tx, key, value)
    return ConstantVariable(None)


class GetterVariable(VariableTracker):
    """``operator.itemgetter`` and ``attrgetter`` made inside."""

    __slots__ = ("kind", "names")

    def __init__(self, kind: Any, names: tuple[Any, ...]) -> None:
        self.source = None
        self.kind = kind
        self.names = names

    def python_type(self) -> type:
        return self.kind

    def truth(self, tx: Any) -> bool:
        return True

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = [self._get(tx, args[0], name) for name in self.names]
        return found[0] if len(found) == 1 else TupleVariable(found)

    def _get(self, tx: Any, of: VariableTracker, name: Any) -> VariableTracker:
        if self.kind is operator.itemgetter:
            return tx.getitem(of, tx.make(name))
        for part in name.split("."):
            of = of.getattr(tx, part).realize()
        return of

    def reconstruct(self, cg: Any) -> None:
        cg.call(self.kind, [lambda name=name: cg.load_const(name) for name in self.names])


@models(operator.itemgetter)
def _itemgetter(tx: Any, *names: VariableTracker) -> VariableTracker:
    return GetterVariable(operator.itemgetter, tuple(tx.python_value(name) for name in names))


@models(operator.attrgetter)
def _attrgetter(tx: Any, *names: VariableTracker) -> VariableTracker:
    return GetterVariable(operator.attrgetter, tuple(tx.python_value(name) for name in names))
