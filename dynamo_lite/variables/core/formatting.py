"""``str``, ``repr`` and ``format`` of objects and containers; ``%`` and ``str.format`` with values that aren't
constants.

User code (``__str__``, ``__repr__``, ``__format__``) runs in CPython's order."""

from __future__ import annotations

import re
import sys
from _string import formatter_field_name_split
from collections.abc import Callable, Iterable, Sequence
from string import Formatter
from typing import Any

from dynamo_lite.insight.break_reasons import FailsInPython, UnsupportedOperation

from .attributes import MISSING, bind
from .base import Args, Kwargs, Translator, VariableTracker, unsupported
from .class_lookup import is_user_defined
from .constant import ConstantVariable
from .deferred_text import DeferredTextVariable, concatenated, text_by_percent

Texts = Iterable[str | VariableTracker]
"""Parts of a text, in order."""


def call_text_method(tx: Translator, method: VariableTracker, name: str, *args: VariableTracker) -> VariableTracker:
    """Call a special method that user code defines for a text; it must return a string."""
    result = tx.call(method, list(args), {}).realize()
    if not issubclass(result.python_type(), str):
        unsupported(FailsInPython(f"{name}() of an object", "its method returns no string"))
    return result


def call_class_text_method(tx: Translator, value: VariableTracker, name: str) -> VariableTracker | None:
    """The result of the class's method ``name``; None if that is in C. ``object.__str__`` calls ``__repr__``."""
    cls = value.python_type()
    raw = tx.lookup(cls, name)
    if raw is object.__str__:
        name, raw = "__repr__", tx.lookup(cls, "__repr__")
    return call_text_method(tx, bind(tx, raw, name, value, cls), name) if is_user_defined(raw) else None


def reprs(tx: Translator, values: Iterable[VariableTracker]) -> list[VariableTracker]:
    return [value.realize().text(tx, "__repr__") for value in values]


def listed(items: Iterable[Texts], separator: str = ", ") -> Texts:
    """The texts of the items one after the other, with a separator between each two."""
    return [part for item in items for part in (separator, *item)][1:]


def bracketed(
    tx: Translator, of: VariableTracker, brackets: Sequence[str], inner: Callable[[Any], Texts]
) -> VariableTracker:
    """``repr`` of a container; ``...`` inside of itself."""
    in_progress = tx.attempt.reprs
    opening, closing = brackets
    if any(each is of for each in in_progress):
        return ConstantVariable(f"{opening}...{closing}")
    in_progress.append(of)
    try:
        return concatenated(tx, [opening, *inner(tx), closing])
    finally:
        in_progress.pop()


# -- templates ---------------------------------------------------------------------------------------------------------

_SPEC = re.compile(r"(%(?:\([^()]*\))?[-+ #0]*\d*(?:\.\d*)?.)")
_TEXTS = {"s": "__str__", "r": "__repr__"}
_OF_INTEGERS = "diuoxX"
"""Conversions that read the value of an instance of a class derived from int."""
_KINDS = frozenset("srdiouxXeEfFgGac%")


def percent(tx: Translator, template: str, values: VariableTracker) -> VariableTracker:
    """``template % values`` with values that aren't all constants."""
    first, *pieces = _SPEC.split(template)
    specs, literals = pieces[::2], pieces[1::2]
    is_named = [spec.startswith("%(") for spec in specs if spec != "%%"]
    if "*" in template or any(is_named) and not all(is_named):
        unsupported(UnsupportedOperation("`%`", f"{template!r} and objects"))
    if any("%" in each for each in (first, *literals)) or not _KINDS.issuperset(spec[-1] for spec in specs):
        return tx.make(tx.fold(str.__mod__, (template, tx.python_value(values))))  # it raises
    if any(is_named):
        return _percent_by_names(tx, first, zip(specs, literals), values)
    several = issubclass(values.python_type(), tuple)
    given = values.builtin_part().elements(tx) if several else [values]  # C reads the items of any tuple
    items = iter(given)
    parts: list[str | VariableTracker] = [first]
    for spec, literal in zip(specs, literals):
        if spec[-1] == "%":
            parts += [tx.fold(str.__mod__, (spec, ())), literal]
            continue
        item = next(items, None)
        if item is None:
            tx.raise_error(TypeError, f"not enough arguments for format string{_counts(f'got {len(given)}')}")
        parts += [_converted(tx, spec, item), literal]
    if next(items, None) is not None and not _is_mapping(tx, values.python_type()):  # a mapping may have more
        counts = f"required {sum(spec[-1] != '%' for spec in specs)}, got {len(given)}"
        tx.raise_error(TypeError, f"not all arguments converted during string formatting{_counts(counts)}")
    return concatenated(tx, parts)


def _percent_by_names(
    tx: Translator, first: str, pieces: Iterable[tuple[str, str]], values: VariableTracker
) -> VariableTracker:
    """``%`` with conversions that name items of a mapping."""
    if not _is_mapping(tx, values.python_type()):
        tx.raise_error(TypeError, "format requires a mapping")
    parts: list[str | VariableTracker] = [first]
    for spec, literal in pieces:
        if spec == "%%":
            parts += ["%", literal]
            continue
        name, conversion = spec[2:].split(")")
        item = values.getitem(tx, ConstantVariable(name))
        parts += [_converted(tx, f"%{conversion}", item), literal]
    return concatenated(tx, parts)


def _counts(text: str) -> str:
    """What CPython's errors say in addition from 3.15 on."""
    return f" ({text})" if sys.version_info >= (3, 15) else ""


def _is_mapping(tx: Translator, kind: type) -> bool:
    """Whether ``%`` may take items of a value by their names."""
    return not issubclass(kind, (tuple, str)) and tx.lookup(kind, "__getitem__") is not MISSING


def _converted(tx: Translator, spec: str, item: VariableTracker) -> VariableTracker:
    """The text of one item, by a conversion of ``%``."""
    if spec[-1] not in _TEXTS:
        item = item.realize()
        reads_value = spec[-1] in _OF_INTEGERS and issubclass(item.python_type(), int)
        return text_by_percent(tx, spec, item.builtin_part() if reads_value else item)
    text = item.realize().text(tx, _TEXTS[spec[-1]])
    return text if len(spec) == 2 else text_by_percent(tx, spec[:-1] + "s", text)


def join_texts(tx: Translator, separator: str, items: VariableTracker) -> VariableTracker:
    """``separator.join(items)``."""
    texts = [each.realize() for each in items.each_with_length_hint(tx)]
    if any(isinstance(each, DeferredTextVariable) for each in texts) and all(
        each.python_type() is str for each in texts
    ):
        return concatenated(tx, listed(([each] for each in texts), separator))
    return tx.make(tx.fold(separator.join, ([tx.python_value(each) for each in texts],)))


def format_text(tx: Translator, template: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``template.format(*args, **kwargs)``."""
    return _Template(tx, args, kwargs.get).filled(template)


def format_by_mapping(tx: Translator, template: str, mapping: VariableTracker) -> VariableTracker:
    """``template.format_map(mapping)``."""
    return _Template(tx, [], lambda name: mapping.getitem(tx, ConstantVariable(name))).filled(template)


class _Template:
    """One call of ``str.format``. ``named``: the argument of a name, None if there is none."""

    def __init__(self, tx: Translator, args: Args, named: Callable[[str], VariableTracker | None]) -> None:
        self._tx = tx
        self._args = args
        self._named = named
        self._waiting = iter(args)
        self._numbering: set[bool] = set()
        """Whether fields had a number so far: not all of them may differ in that."""

    def filled(self, template: str) -> VariableTracker:
        """The template, or a specification within it, with the texts of its fields."""
        tx = self._tx
        parts: list[str | VariableTracker] = []
        for literal, field, spec, conversion in tx.fold(lambda: [*Formatter().parse(template)]):
            parts.append(literal)
            if field is None:
                continue
            value = self._value(field)
            if value is None or conversion not in (None, "s", "r"):
                unsupported(UnsupportedOperation("format()", f"{template!r} and objects"))
            if conversion:
                value = value.realize().text(tx, _TEXTS[conversion])
            spec = self.filled(spec) if "{" in spec else ConstantVariable(spec)
            parts.append(value.realize().format(tx, spec).realize())
        return concatenated(tx, parts)

    def _value(self, field: str) -> VariableTracker | None:
        """The argument that a field names, or an attribute or item of it; None if it names none."""
        first, rest = formatter_field_name_split(field)
        if isinstance(first, str) and first:
            value = self._named(first)
        else:
            self._numbering.add(isinstance(first, int))
            is_mixed = len(self._numbering) > 1
            value = None if is_mixed else self._numbered(first)
        for is_attribute, key in rest:
            if value is None:
                return None
            if is_attribute:
                value = value.realize().getattr(self._tx, key)
            else:
                value = value.realize().getitem(self._tx, ConstantVariable(key))
        return value

    def _numbered(self, number: int | str) -> VariableTracker | None:
        if isinstance(number, str):
            return next(self._waiting, None)
        return self._args[number] if number < len(self._args) else None
