"""``str``, ``repr`` and ``format`` of traced values, ``%`` and ``str.format`` with values that aren't all constants.

What is asked of an object is asked as CPython asks it: ``__str__``, ``__repr__``, ``__format__``, attributes and items.
"""

from __future__ import annotations

import _string
import re
import types
from string import Formatter
from typing import Any

from ..reasons import UnsupportedOperation
from .attributes import bind, class_lookup
from .base import Args, Kwargs, VariableTracker, unsupported
from .constant import ConstantVariable
from .exception import ExceptionVariable
from .function import ClassVariable
from .iterator import IteratorVariable
from .library.types import NamespaceVariable
from .mapping import DictVariable, DictViewVariable
from .sequence import ListVariable, SequenceIterator, TupleVariable
from .tensor import TensorVariable
from .tensor_text import TensorTextVariable, text_of_tensor
from .user_object import EnumVariable, RealExceptionVariable, UserObjectVariable


def formatted(tx: Any, value: VariableTracker, spec: VariableTracker) -> VariableTracker:
    """``format(value, spec)``."""
    if isinstance(value, UserObjectVariable) and not isinstance(value, EnumVariable):
        method = value.special(tx, "__format__")
        if method is not None:
            return _checked(tx, tx.call(method, [spec], {}), "__format__ must return a str, not {}")
        if isinstance(value.payload, ConstantVariable) and tx.truth(spec):
            return tx.make(tx.fold(format, (value.payload.value, tx.python_value(spec))))
    elif isinstance(value, TensorTextVariable) and not tx.truth(spec):
        return value
    elif isinstance(value, TensorVariable):
        known = tx.python_value(spec)
        return text_of_tensor(tx, value, format, known) or tx.make(tx.fold(format, (tx.python_value(value), known)))
    elif value.is_constant() or isinstance(value, TensorTextVariable):
        return tx.make(tx.fold(format, (tx.python_value(value), tx.python_value(spec))))
    if tx.truth(spec):
        raw = tx.lookup(value.python_type(), "__format__")
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
        raw = tx.lookup(value.cls, name)
        if isinstance(raw, types.FunctionType):
            return _checked(tx, tx.call(bind(tx, raw, name, value, value.cls), [], {}), name + _WRONG)
        return ConstantVariable(_of_exception(tx, value, raw, function))
    if isinstance(value, (RealExceptionVariable, NamespaceVariable)) and value.special(tx, name) is None:
        return value.text(tx, function)
    if isinstance(value, UserObjectVariable) and not isinstance(value, EnumVariable):
        return _of_object(tx, value, name)
    if isinstance(value, (IteratorVariable, SequenceIterator, DictViewVariable)):
        unsupported(UnsupportedOperation(f"{function.__name__}()", value.describe()))
    if isinstance(value, ClassVariable):
        method = value.special(tx, name)
        if method is None and name == "__str__":
            method = value.special(tx, "__repr__")
        if method is not None:
            return _checked(tx, tx.call(method, [], {}), name + _WRONG)
    if isinstance(value, TensorTextVariable) and function is str:
        return value
    if isinstance(value, TensorVariable) and (text := text_of_tensor(tx, value, function)) is not None:
        return text
    if isinstance(value, tuple(_BRACKETS)) and not value.is_constant():
        return ConstantVariable(_of_container(tx, value))
    return tx.make(tx.fold(function, (tx.python_value(value),)))


_WRONG = " returned non-string (type {})"


def _of_object(tx: Any, value: UserObjectVariable, name: str) -> VariableTracker:
    method = value.special(tx, name)
    if method is None and name == "__str__" and tx.lookup(value.cls, "__str__") is object.__str__:
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
        return f"{error.cls.__name__}({', '.join(_reprs(tx, args))})"
    if raw is BaseExceptionGroup.__str__:
        count = len(error.group(tx).items)
        return f"{tx.python_value(args[0])} ({count} sub-exception{'s' * (count != 1)})"
    if raw is BaseException.__str__ or raw is KeyError.__str__:
        if len(args) != 1:
            return f"({', '.join(_reprs(tx, args))})" if args else ""
        name = "__repr__" if raw is KeyError.__str__ else "__str__"
        return text_of(tx, args[0], name)
    return tx.fold(function, (error.cls(*(tx.python_value(arg) for arg in args)),))


def _reprs(tx: Any, values: Args) -> list[str]:
    return [text_of(tx, value, "__repr__") for value in values]


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
    return text_of(tx, item, "__repr__")


# -- templates ---------------------------------------------------------------------------------------------------------

_SPEC = re.compile(r"%(?:\((?P<key>[^()]*)\))?[-+ #0]*\d*(?:\.\d*)?(?P<kind>.)")
_TEXTS = {"s": "__str__", "r": "__repr__"}


def text_of(tx: Any, value: VariableTracker, name: str) -> str:
    """The known result of ``str`` or ``repr``."""
    return tx.python_value(string(tx, value.realize(), name).realize())


def percent(tx: Any, template: str, values: VariableTracker) -> VariableTracker:
    """``template % values``, where some of these aren't known constants."""
    if any(spec["key"] is not None for spec in _SPEC.finditer(template)) or "*" in template:
        unsupported(UnsupportedOperation("`%`", f"{template!r} and objects"))
    items = values.elements(tx) if isinstance(values, TupleVariable) else [values]
    known: list[Any] = []
    kinds = [spec["kind"] for spec in _SPEC.finditer(template) if spec["kind"] != "%"]
    for kind, item in zip(kinds, items):
        known.append(text_of(tx, item, _TEXTS[kind]) if kind in _TEXTS else tx.python_value(item))
    known.extend(None for _ in items[len(kinds) :])
    return tx.make(tx.fold(str.__mod__, (re.sub(_SPEC, _as_text, template), tuple(known))))


def _as_text(spec: re.Match[str]) -> str:
    """``%r`` of what is text already."""
    return spec[0][:-1] + "s" if spec["kind"] == "r" else spec[0]


def format_text(tx: Any, template: str, args: Args, named: Kwargs) -> VariableTracker:
    """``template.format(*args, **named)``."""
    return ConstantVariable(_Formatter(tx, args, named).format(template))


class _Formatter:
    def __init__(self, tx: Any, args: Args, named: Kwargs) -> None:
        self._tx = tx
        self._args = args
        self._named = named
        self._next: int | None = 0
        """The place that ``{}`` takes; None: places are numbered."""

    def format(self, template: str, depth: int = 2) -> str:
        tx = self._tx
        if not depth:
            tx.raise_error(ValueError, "Max string recursion exceeded")
        parts = []
        for literal, field, spec, conversion in tx.fold(lambda: [*Formatter().parse(template)]):
            parts.append(literal)
            if field is None:
                continue
            value = self._field(field)
            if conversion in ("s", "r"):
                value = tx.string(value, _TEXTS[conversion])
            elif conversion:
                unsupported(UnsupportedOperation(f"the conversion !{conversion}", value.describe()))
            found = tx.format(value.realize(), ConstantVariable(self.format(spec, depth - 1) if spec else ""))
            parts.append(tx.python_value(found.realize()))
        return "".join(parts)

    def _field(self, field: str) -> VariableTracker:
        tx = self._tx
        first, rest = tx.fold(_string.formatter_field_name_split, (field,))
        if first == "":
            if self._next is None:
                tx.raise_error(ValueError, "cannot switch from manual field specification to automatic field numbering")
            first, self._next = self._next, self._next + 1
        elif isinstance(first, int):
            if self._next:
                tx.raise_error(ValueError, "cannot switch from automatic field numbering to manual field specification")
            self._next = None
        found = self._argument(first)
        for is_attribute, name in rest:
            found = (found.getattr(tx, name) if is_attribute else tx.getitem(found, tx.make(name))).realize()
        return found

    def _argument(self, name: Any) -> VariableTracker:
        if isinstance(name, int):
            if name >= len(self._args):
                message = f"Replacement index {name} out of range for positional args tuple"
                self._tx.raise_error(IndexError, message)
            return self._args[name]
        if name not in self._named:
            self._tx.raise_error(KeyError, name)
        return self._named[name]
