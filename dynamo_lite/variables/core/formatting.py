"""``str``, ``repr`` and ``format`` of objects and containers; ``%`` and ``str.format`` with values that aren't
constants.

User code (``__str__``, ``__repr__``, ``__format__``) runs in CPython's order."""

from __future__ import annotations

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
        unsupported(UnsupportedOperation("format() with a specification", value.describe()))
    return value.text(tx, "__str__")


def call_text_method(tx: Translator, method: VariableTracker, name: str, *args: VariableTracker) -> VariableTracker:
    """Call a special method that user code defines for a text; it must return a string."""
    result = tx.call(method, list(args), {}).realize()
    if not issubclass(result.python_type(), str):
        unsupported(UnsupportedOperation(f"{name}()", "an object whose method returns no string"))
    return result


def call_class_text_method(tx: Translator, value: VariableTracker, name: str) -> VariableTracker | None:
    """The result of the class's method ``name``; None if that is in C."""
    cls = value.python_type()
    raw = tx.lookup(cls, name)
    return call_text_method(tx, bind(tx, raw, name, value, cls), name) if is_user_defined(raw) else None


def has_user_text(tx: Translator, cls: type) -> bool:
    """Whether the texts of a class's instances come from user code (torch's and the standard library's doesn't
    count)."""
    methods = [tx.lookup(cls, name) for name in ("__str__", "__repr__", "__format__")]
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
    known: list[Any] = []
    kinds = [spec["kind"] for spec in _SPEC.finditer(template) if spec["kind"] != "%"]
    for kind, item in zip(kinds, items):
        known.append(text_of(tx, item, _TEXTS[kind]) if kind in _TEXTS else tx.python_value(item))
    if several or tx.lookup(values.python_type(), "__getitem__") is MISSING:  # a mapping may have unused items
        known.extend(None for _ in items[len(kinds) :])
    return tx.make(tx.fold(str.__mod__, (re.sub(_SPEC, _as_text, template), tuple(known))))


def _as_text(spec: re.Match[str]) -> str:
    """The conversion of an item whose ``repr`` was inserted already: ``%s`` for ``%r``."""
    return spec[0][:-1] + "s" if spec["kind"] == "r" else spec[0]


def format_text(tx: Translator, template: str, args: Args, named: Kwargs) -> VariableTracker:
    """``template.format(*args, **named)``, where each field names an argument alone."""
    parsed = tx.fold(lambda: [*Formatter().parse(template)])
    fields = [field for _, field, _, _ in parsed if field is not None]
    is_numbered = any(map(str.isdecimal, fields))
    values = {str(at): value for at, value in enumerate(args)} if is_numbered else named
    waiting = iter(() if is_numbered else args)
    parts: list[VariableTracker] = []
    for literal, field, spec, conversion in parsed:
        parts.append(ConstantVariable(literal))
        if field is None:
            continue
        value = next(waiting, None) if field == "" else values.get(field)
        if value is None or "{" in spec or conversion not in (None, "s", "r"):
            unsupported(UnsupportedOperation("format()", f"{template!r} and objects"))
        if conversion:
            value = value.realize().text(tx, _TEXTS[conversion])
        parts.append(value.realize().format(tx, ConstantVariable(spec)).realize())
    return joined(tx, parts) or ConstantVariable("".join(map(tx.python_value, parts)))
