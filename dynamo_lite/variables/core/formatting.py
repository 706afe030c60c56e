"""``str``, ``repr`` and ``format`` of objects and containers; ``%`` and ``str.format`` with values that aren't
constants.

User code runs as CPython runs it: ``__str__``, ``__repr__``, ``__format__``, and reads of attributes and items, in
order."""

from __future__ import annotations

import _string
import re
import types
from collections.abc import Callable, Iterable, Sequence
from string import Formatter
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.code_origin import is_library

from .attributes import MISSING, bind
from .base import Args, Kwargs, VariableTracker, unsupported
from .class_lookup import is_user_defined
from .constant import ConstantVariable
from .deferred_text import joined
from .protocols import Translator


def plain_format(tx: Translator, value: VariableTracker, spec: VariableTracker) -> VariableTracker:
    """``object.__format__``."""
    if tx.truth(spec):
        raw = tx.lookup(value.python_type(), "__format__")
        if raw is not object.__format__:
            unsupported(UnsupportedOperation("format()", value.describe()))
        name = value.python_type().__name__
        tx.raise_error(TypeError, f"unsupported format string passed to {name}.__format__")
    return value.text(tx, "__str__")


def call_text_method(tx: Translator, method: VariableTracker, name: str, *args: VariableTracker) -> VariableTracker:
    """Call a special method that user code defines for a text; it must return a string."""
    result = tx.call(method, list(args), {}).realize()
    if not issubclass(result.python_type(), str):
        tx.raise_error(TypeError, _NOT_A_STRING[name].format(result.python_type().__name__))
    return result


_NOT_A_STRING = {
    "__str__": "__str__ returned non-string (type {})",
    "__repr__": "__repr__ returned non-string (type {})",
    "__format__": "__format__ must return a str, not {}",
}


def call_class_text_method(tx: Translator, value: VariableTracker, name: str) -> VariableTracker | None:
    """The result of the class's method ``name``; None if that is in C."""
    cls = value.python_type()
    raw = tx.lookup(cls, name)
    return call_text_method(tx, bind(tx, raw, name, value, cls), name) if is_user_defined(raw) else None


def has_user_text(tx: Translator, cls: type) -> bool:
    """Whether the texts of a class's instances come from user code (torch's and the standard library's doesn't
    count)."""
    methods = [tx.lookup(cls, name) for name in _NOT_A_STRING]
    own = [each for each in methods if is_user_defined(each)]
    return not all(type(each) is types.FunctionType and is_library(each.__code__) for each in own)


def text_of(tx: Translator, value: VariableTracker, name: str) -> str:
    """The constant result of ``__str__`` or ``__repr__``."""
    return tx.python_value(value.realize().text(tx, name).realize())


def reprs(tx: Translator, values: Iterable[VariableTracker]) -> list[str]:
    return [text_of(tx, value, "__repr__") for value in values]


def bracketed(
    tx: Translator, of: VariableTracker, brackets: Sequence[str], inner: Callable[[Any], str]
) -> VariableTracker:
    """``repr`` of a container; ``...`` inside of itself."""
    in_progress = tx.attempt.reprs
    opening, closing = brackets
    if any(each is of for each in in_progress):
        return ConstantVariable(f"{opening}...{closing}")
    in_progress.append(of)
    try:
        return ConstantVariable(f"{opening}{inner(tx)}{closing}")
    finally:
        in_progress.pop()


# -- templates ---------------------------------------------------------------------------------------------------------

_SPEC = re.compile(r"%(?:\((?P<key>[^()]*)\))?[-+ #0]*\d*(?:\.\d*)?(?P<kind>.)")
_TEXTS = {"s": "__str__", "r": "__repr__"}


def percent(tx: Translator, template: str, values: VariableTracker) -> VariableTracker:
    """``template % values`` with values that aren't all constants."""
    if any(spec["key"] is not None for spec in _SPEC.finditer(template)) or "*" in template:
        unsupported(UnsupportedOperation("`%`", f"{template!r} and objects"))
    several = values.structure_items() is not None and issubclass(values.python_type(), tuple)
    items = values.elements(tx) if several else [values]
    deferred = _percent_deferred(tx, template, items)
    if deferred is not None:
        return deferred
    known: list[Any] = []
    kinds = [spec["kind"] for spec in _SPEC.finditer(template) if spec["kind"] != "%"]
    for kind, item in zip(kinds, items):
        known.append(text_of(tx, item, _TEXTS[kind]) if kind in _TEXTS else tx.python_value(item))
    if several or tx.lookup(values.python_type(), "__getitem__") is MISSING:  # a mapping may have unused items
        known.extend(None for _ in items[len(kinds) :])
    return tx.make(tx.fold(str.__mod__, (re.sub(_SPEC, _as_text, template), tuple(known))))


def _percent_deferred(tx: Translator, template: str, items: Sequence[VariableTracker]) -> VariableTracker | None:
    """The same with symbolic numbers, which `format` converts; None if there are none, or it can't convert them so."""
    left = [each.realize() for each in items]
    specs = [spec for spec in _SPEC.finditer(template) if spec["kind"] != "%"]
    if len(specs) != len(left) or not any(each.is_symbolic for each in left):
        return None
    parts: list[VariableTracker] = []
    end = 0
    for spec in _SPEC.finditer(template):
        parts.append(ConstantVariable(template[end : spec.start()]))
        end = spec.end()
        if spec["kind"] == "%":
            parts.append(ConstantVariable("%"))
            continue
        item = left.pop(0)
        if item.is_symbolic:
            text = _number_as_percent(tx, item, spec[0])
            if text is None:
                return None
            parts.append(text)
        elif tx.is_plain(item):
            parts.append(tx.make(tx.fold(str.__mod__, (spec[0], (tx.python_value(item),)))))
        else:
            return None
    return joined(tx, [*parts, ConstantVariable(template[end:])])


def _number_as_percent(tx: Translator, number: VariableTracker, spec: str) -> VariableTracker | None:
    if spec in ("%s", "%r"):
        return number.text(tx, _TEXTS[spec[1]]).realize()
    form = _FORMS[number.python_type()].fullmatch(spec) if number.python_type() in _FORMS else None
    if form is None:
        return None
    kind = "d" if form["kind"] in "iu" else form["kind"]
    return number.format(tx, ConstantVariable(form["flags"] + kind)).realize()


_FORMS = {
    int: re.compile(r"%(?P<flags>[+ ]?0?\d*)(?P<kind>[diuxX])"),
    float: re.compile(r"%(?P<flags>[+ ]?(?:[1-9]\d*)?(?:\.\d+)?)(?P<kind>[feEgG])"),
}
"""Conversions that mean the same to ``%`` and to ``format``."""


def _as_text(spec: re.Match[str]) -> str:
    """The conversion of an item whose ``repr`` was inserted already: ``%s`` for ``%r``."""
    return spec[0][:-1] + "s" if spec["kind"] == "r" else spec[0]


def format_text(tx: Translator, template: str, args: Args, named: Kwargs) -> VariableTracker:
    """``template.format(*args, **named)``."""
    return _Formatter(tx, args, named).format(template)


class _Formatter:
    """``str.format``: the fields of one template, in order."""

    def __init__(self, tx: Translator, args: Args, named: Kwargs) -> None:
        self._tx = tx
        self._args = args
        self._named = named
        self._next: int | None = 0
        """The position of the next ``{}``; None if fields are numbered."""

    def format(self, template: str, depth: int = 2) -> VariableTracker:
        tx = self._tx
        if not depth:
            tx.raise_error(ValueError, "Max string recursion exceeded")
        parts: list[VariableTracker] = []
        for literal, field, spec, conversion in tx.fold(lambda: [*Formatter().parse(template)]):
            parts.append(ConstantVariable(literal))
            if field is None:
                continue
            value = self._field(field)
            if conversion in ("s", "r"):
                value = value.realize().text(tx, _TEXTS[conversion])
            elif conversion:
                unsupported(UnsupportedOperation(f"the conversion !{conversion}", value.describe()))
            spec = self.format(spec, depth - 1) if spec else ConstantVariable("")
            parts.append(value.realize().format(tx, spec).realize())
        return joined(tx, parts) or ConstantVariable("".join(map(tx.python_value, parts)))

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
            found = (found.getattr(tx, name) if is_attribute else found.getitem(tx, tx.make(name))).realize()
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
