"""Where a value came from: the place that guards check and generated code reloads it from.

Sources form a tree that mirrors the guard tree in C++: the root is the frame before its first instruction, and each
child is one accessor (see `GuardTree`) away from its parent. Generated code reloads a value as an argument, as a
constant, or from the tuple of values that the guard check captured. So reloading runs no user code and yields the very
value that was checked.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from functools import reduce
from types import ModuleType
from typing import Any, NamedTuple, NewType, TypeAlias

from dynamo_lite import _C
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import NestedTooDeep
from dynamo_lite.insight.site import public_name
from dynamo_lite.insight.value_text import fill, is_constant, value_text

from .identity import identity

FRAME = "frame"
_HEAP_TYPE = 1 << 9
_DEEPEST = 1000
"""Accessors from the frame. The guard tree, which recurses, has room for twice as many."""


PlaceKey = NewType("PlaceKey", str)
"""What tables of places that outlive a translation are keyed by. A type of its own: `str` of a place is for people, and
isn't one."""


class Name(NamedTuple):
    """What the program calls a place."""

    text: str
    is_expression: bool
    """Whether the program can write it; otherwise it is in words."""


class Source:
    """A place that is reached from the frame. Interned: one object for each path."""

    __slots__ = (
        "parent",
        "kind",
        "arg",
        "depth",
        "children",
        "checks",
        "expected",
        "number",
        "name",
        "naming",
        "local_rooted",
        "__weakref__",
    )

    def __init__(self, parent: Source | None = None, kind: str = FRAME, arg: Any = None) -> None:
        self.parent = parent
        self.kind = kind
        self.arg = arg
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[Any, Source] = {}
        self.checks: dict[tuple[str, Any], tuple[str, Any]] = {}
        """Key of equal checks -> kind and argument."""
        self.expected = False
        """Whether the program observed that a value exists here."""
        self.number = -1
        """The node in the guard tree, once that is built."""
        self.name: str | None = None
        """Its text, cached."""
        self.naming: Naming | None = None if parent is None else parent.naming
        """Names this place and those below it as the program does, where generated code or `torch.nn.Module` has passed
        their values on under another name; None: they are where the program has them."""
        self.local_rooted: bool = kind in ("local", "closure") or (parent is not None and parent.local_rooted)
        """Whether it is reached through the call's arguments or closure, not through globals or constants."""

    def child(self, kind: str, arg: object = None) -> Source:
        """The place one accessor further. Breaks the graph if that is too deep for a guard tree."""
        key = (kind, identity(arg)) if kind in ("const", "slot") else (kind, type(arg), arg)
        found = self.children.get(key)
        if found is None:
            if self.depth >= _DEEPEST:
                raise Unsupported(NestedTooDeep(_DEEPEST))
            found = self.children[key] = Source(self, kind, arg)
        return found

    def way(self) -> tuple[Source, ...]:
        """The path from the frame (exclusive) to here."""
        return () if self.parent is None else (*self.parent.way(), self)

    def check(self, kind: str, arg: object = None) -> None:
        """Add a check of this place. (The identity of a constant needs none.)"""
        if kind == "id" and self.kind == "const":
            return
        key = (kind, arg if type(arg) is str or type(arg) is int else identity(arg))
        if key not in self.checks:
            self.checks[key] = (kind, arg)

    def check_type(self, value: object) -> None:
        """Guard the exact type of the value. A constant of the trace is known to have it."""
        if self.kind != "const":
            self.check("type", type(value))

    def instance_item(self, name: str) -> Source:
        """The item of the object's ``__dict__``; guards that it exists."""
        return self.child("instance_dict").child("dict_item", name).expect()

    def expect(self) -> Source:
        """Guard that a value exists here. Returns the place."""
        self.expected = True
        return self

    def walk(self) -> Iterator[Source]:
        """This place and all below it, parents first."""
        waiting = [self]
        while waiting:
            source = waiting.pop()
            yield source
            waiting.extend(reversed(source.children.values()))

    def __str__(self) -> str:
        if self.name is None:
            given = None if self.naming is None else self.naming(self)
            self.name = fill(_TEXTS[self.kind], _WORDS, self) if given is None else given.text
        return self.name

    @property
    def key(self) -> PlaceKey:
        """Its text without the program's names, which two places may share."""
        if self.naming is None:
            return PlaceKey(str(self))
        return PlaceKey(str(reduce(lambda place, step: place.child(step.kind, step.arg), self.way(), Source())))

    @property
    def is_expression(self) -> bool:
        """Whether its text is an expression that the program can write."""
        given = None if self.naming is None else self.naming(self)
        if given is not None:
            return given.is_expression
        if self.kind in _IN_WORDS or self.parent is None:
            return False
        if self.kind == "dict_item" and self.parent.kind in _NAMESPACES or self.parent.parent is None:
            return all(each.isidentifier() and not keyword.iskeyword(each) for each in str(self).split("."))
        return self.parent.is_expression and (self.kind != "dict_item" or is_constant(self.arg))

    def __repr__(self) -> str:
        return f"<Source {self}>"


def name_of(value: object) -> str | None:
    """The name of a module, class or function. Other user objects have none: reading it may run user code."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        name = ModuleType.__getattribute__(value, "__dict__").get("__name__")
    elif kind.__flags__ & _HEAP_TYPE and not issubclass(kind, type):
        name = None
    else:
        name = public_name(value) or getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else None


def _const_name(source: Source) -> str:
    value = source.arg
    name = name_of(value)
    if name is None:
        return f"<{type(value).__name__}>"
    module = None if issubclass(type(value), ModuleType) else getattr(value, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) and not name.startswith("torch.") else name


def _item_name(source: Source) -> str:
    parent = source.parent
    assert parent is not None
    if parent.kind in ("instance_dict", "thread_dict"):
        return f"{parent.parent}.{source.arg}"
    if parent.kind == "globals" or parent.kind == "builtins":
        return str(source.arg)
    grand = parent.parent
    if parent.kind == "dict_item" and parent.arg in ("_modules", "_parameters", "_buffers") and grand is not None:
        owner = str(grand.parent)
        return f"{owner}[{source.arg}]" if str(source.arg).isdigit() else f"{owner}.{source.arg}"
    return f"{parent}[{value_text(source.arg)}]"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


Naming: TypeAlias = Callable[[Source], Name | None]
"""What the program calls a place; None: as its parent, and the way from there."""
_NAMESPACES = ("globals", "builtins")
_IN_WORDS = frozenset({"next_item", "next_value", "next_number", "taken_from", "function", "made"})
"""Accessors that the program can't write."""
_WORDS: dict[str, Callable[[Source], object]] = {
    "arg": lambda source: source.arg,
    "parent": lambda source: source.parent,
    "const": _const_name,
    "item": _item_name,
    "nth": lambda source: ordinal(source.arg + 1),
}
"""The fields in the texts of `_C.ACCESSOR_KINDS`."""
_TEXTS = {
    **_C.ACCESSOR_KINDS,
    FRAME: "<frame>",
    "made": "<tensor {arg} created during tracing>",
    "next_item": "the {nth} item that {parent} yields",
    "next_value": "the {nth} value that {parent} yields",
    "next_number": "the next number that {parent} yields",
}
