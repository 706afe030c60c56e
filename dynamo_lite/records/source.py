"""Where a value came from: one object that guards it and reloads it.

Sources form a tree which mirrors the guard tree in C++: the root is the frame before its first instruction, each child
is one accessor (`GuardTree` names them) away from its parent. A value is reloaded in generated code either as the
argument it is, as a constant, or from the tuple of values that the guard check captured on its way: so no user code
runs to find it again, and it is by construction the value that was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from dynamo_lite import _C
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import NestedTooDeep

FRAME = "frame"
_HEAP_TYPE = 1 << 9
_DEEPEST = 1000
"""Steps from the frame: a guard tree, which recurses, has room for twice as many."""


def _check_key(kind: str, arg: Any) -> Any:
    return (kind, arg) if type(arg) is str or type(arg) is int else (kind, id(arg))


class Source:
    """A place, reached from the frame. Interned: the same path is the same object."""

    __slots__ = (
        "parent",
        "kind",
        "arg",
        "depth",
        "children",
        "checks",
        "captured",
        "expected",
        "related",
        "number",
        "name",
        "local_rooted",
        "__weakref__",
    )

    def __init__(self, parent: Source | None = None, kind: str = FRAME, arg: Any = None) -> None:
        self.parent = parent
        self.kind = kind
        self.arg = arg
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[Any, Source] = {}
        self.checks: dict[Any, tuple[str, Any, Any]] = {}
        """(kind, argument, user's place) by a key that tells equal ones."""
        self.captured = False
        self.expected = False
        """The program saw that there is something here, if not what."""
        self.related = False
        """A check that relates several places names this one."""
        self.number = -1
        """The node's number in the guard tree, once that is built."""
        self.name: str | None = None
        """What it is called, once somebody asked."""
        self.local_rooted: bool = kind in ("local", "closure") or (parent is not None and parent.local_rooted)
        """Reached through the call's own arguments or closure rather than through globals or constants."""

    def child(self, kind: str, arg: Any = None) -> Source:
        """The place one accessor further. Breaks the graph where that is too far from the frame to be guarded."""
        key = (kind, id(arg)) if kind in ("const", "slot") else (kind, type(arg), arg)
        found = self.children.get(key)
        if found is None:
            if self.depth >= _DEEPEST:
                raise Unsupported(NestedTooDeep(_DEEPEST))
            found = self.children[key] = Source(self, kind, arg)
        return found

    def way(self) -> tuple[Source, ...]:
        """The places from the frame, which is left out, to here."""
        return () if self.parent is None else (*self.parent.way(), self)

    def check(self, kind: str, arg: Any = None) -> None:
        """Assume that this check of the place holds. Which object a constant is, is no assumption."""
        if kind == "id" and self.kind == "const":
            return
        key = _check_key(kind, arg)
        if key not in self.checks:
            self.checks[key] = (kind, arg, None)

    def instance_item(self, name: str) -> Source:
        """What the object here has in its ``__dict__`` under a name."""
        return self.child("instance_dict").child("dict_item", name).expect()

    def expect(self) -> Source:
        """Assume that there is something in this place. Returns the place."""
        self.expected = True
        return self

    @property
    def needed(self) -> bool:
        return bool(self.checks) or self.captured or self.related or self.expected

    def walk(self) -> Iterator[Source]:
        """This and all below it, parents first."""
        waiting = [self]
        while waiting:
            source = waiting.pop()
            yield source
            waiting.extend(reversed(source.children.values()))

    def __str__(self) -> str:
        if self.name is None:
            self.name = _TEXTS[self.kind].format_map(_Words(self))
        return self.name

    def __repr__(self) -> str:
        return f"<Source {self}>"


def name_of(value: Any) -> str | None:
    """What an object calls itself, if it does. The program's own objects are not asked: that may run their code."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        name = ModuleType.__getattribute__(value, "__dict__").get("__name__")
    elif kind.__flags__ & _HEAP_TYPE and not issubclass(kind, type):
        name = None
    else:
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else None


def _const_name(source: Source) -> str:
    value = source.arg
    name = name_of(value)
    if name is None:
        return f"<{type(value).__name__}>"
    module = None if issubclass(type(value), ModuleType) else getattr(value, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) else name


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
    return f"{parent}[{source.arg!r}]"


class _Words:
    """What a text of `_C.ACCESSOR_KINDS` may say of a place."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getitem__(self, word: str) -> Any:
        if word == "parent":
            return str(self._source.parent)
        return self._source.arg if word == "arg" else _WORDS[word](self._source)


_WORDS: dict[str, Callable[[Source], str]] = {"const": _const_name, "item": _item_name}
_TEXTS = {**_C.ACCESSOR_KINDS, FRAME: "<frame>", "made": "<tensor {arg} created during tracing>"}
