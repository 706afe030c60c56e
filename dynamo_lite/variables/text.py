"""``str``, ``repr`` and ``format`` of traced values."""

from __future__ import annotations

import types
from typing import Any

from ..reasons import UnsupportedOperation
from .attributes import bind, class_lookup
from .base import VariableTracker, unsupported
from .constant import ConstantVariable
from .exception import ExceptionVariable
from .mapping import DictVariable
from .sequence import ListVariable, TupleVariable
from .tensor import TensorVariable
from .user_object import EnumVariable, RealExceptionVariable, UserObjectVariable


def formatted(tx: Any, value: VariableTracker, spec: VariableTracker) -> VariableTracker:
    """``format(value, spec)``."""
    if isinstance(value, UserObjectVariable) and not isinstance(value, EnumVariable):
        method = value.special(tx, "__format__")
        if method is not None:
            return _checked(tx, tx.call(method, [spec], {}), "__format__ must return a str, not {}")
    elif value.is_constant() or isinstance(value, TensorVariable):
        return tx.make(tx.fold(format, (tx.python_value(value), tx.python_value(spec))))
    if tx.truth(spec):
        raw = class_lookup(value.python_type(), "__format__")
        if raw is not object.__format__:
            unsupported(UnsupportedOperation("format()", value.describe()))
        name = value.python_type().__name__
        tx.raise_error(TypeError, f"unsupported format string passed to {name}.__format__")
    return string(tx, value, "__str__")


def _checked(tx: Any, found: VariableTracker, message: str) -> VariableTracker:
    found = found.realize()
    if not issubclass(found.python_type(), str):
        tx.raise_error(TypeError, message.format(found.python_type().__name__))
    return found


def string(tx: Any, value: VariableTracker, name: str) -> VariableTracker:
    """``str`` or ``repr``."""
    function = str if name == "__str__" else repr
    if isinstance(value, ExceptionVariable):
        raw = class_lookup(value.cls, name)
        if isinstance(raw, types.FunctionType):
            return _checked(tx, tx.call(bind(tx, raw, name, value, value.cls), [], {}), name + _WRONG)
        return ConstantVariable(_of_exception(tx, value, raw, function))
    if isinstance(value, RealExceptionVariable) and value.special(tx, name) is None:
        return value.text(tx, function)
    if isinstance(value, UserObjectVariable) and not isinstance(value, EnumVariable):
        return _of_object(tx, value, name)
    if isinstance(value, tuple(_BRACKETS)) and not value.is_constant():
        return ConstantVariable(_of_container(tx, value))
    return tx.make(tx.fold(function, (tx.python_value(value),)))


_WRONG = " returned non-string (type {})"


def _of_object(tx: Any, value: UserObjectVariable, name: str) -> VariableTracker:
    method = value.special(tx, name)
    if method is None and name == "__str__" and class_lookup(value.cls, "__str__") is object.__str__:
        method = value.special(tx, "__repr__")
    if method is None:
        if value.payload is not None and class_lookup(value.cls, name) is class_lookup(
            value.payload.python_type(), name
        ):
            return string(tx, value.payload, name)
        unsupported(UnsupportedOperation(f"{name.strip('_')}()", value.describe()))
    return _checked(tx, tx.call(method, [], {}), name + _WRONG)


def _of_exception(tx: Any, error: ExceptionVariable, raw: Any, function: Any) -> str:
    args = [arg.realize() for arg in error.args]
    if raw is BaseException.__repr__:
        inside = ", ".join(_repr(tx, arg) for arg in args)
        return f"{error.cls.__name__}({inside})"
    if raw is BaseExceptionGroup.__str__:
        count = len(error.group(tx).items)
        return f"{tx.python_value(args[0])} ({count} sub-exception{'s' * (count != 1)})"
    if raw is BaseException.__str__ or raw is KeyError.__str__:
        if len(args) != 1:
            return f"({', '.join(_repr(tx, arg) for arg in args)})" if args else ""
        name = "__repr__" if raw is KeyError.__str__ else "__str__"
        return tx.string(args[0], name).realize().as_constant()
    return tx.fold(function, (error.cls(*(tx.python_value(arg) for arg in args)),))


def _repr(tx: Any, value: VariableTracker) -> str:
    return str(tx.string(value.realize(), "__repr__").realize().as_constant())


_BRACKETS: dict[type, str] = {ListVariable: "[]", TupleVariable: "()", DictVariable: "{}"}


def _of_container(tx: Any, value: Any, outer: tuple[Any, ...] = ()) -> str:
    """``repr`` of a list, tuple or dict with items that aren't all constants."""
    kind = {list: ListVariable, tuple: TupleVariable, dict: DictVariable}.get(value.python_type())
    if kind is None:
        return str(tx.python_value(value))
    opening, closing = _BRACKETS[kind]
    if any(each is value for each in outer):
        return f"{opening}...{closing}"
    outer = (*outer, value)
    if isinstance(value, DictVariable):
        parts = [f"{_item(tx, value.key_variable(k), outer)}: {_item(tx, v, outer)}" for k, v in value.items.items()]
    else:
        parts = [_item(tx, item, outer) for item in value.items]
        if kind is TupleVariable and len(parts) == 1:
            parts = [parts[0] + ","]
    return f"{opening}{', '.join(parts)}{closing}"


def _item(tx: Any, item: VariableTracker, outer: tuple[Any, ...]) -> str:
    item = item.realize()
    if isinstance(item, tuple(_BRACKETS)) and item.python_type() in (list, tuple, dict):
        return _of_container(tx, item, outer)
    return _repr(tx, item)
