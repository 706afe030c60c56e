"""Programs over classes: a class x overridden methods x operation x where the instance is created.

Each overridden method logs its call, so the comparison with eager sees which methods CPython calls and in which order.
"""

from __future__ import annotations

import enum
import itertools
import re
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import dynamo_lite as dl

IN_PLACE = r"x (\+|\*|\||&|-|\^|%)= "
"""An operation that is a statement: it assigns to ``x``."""
_BASES = compile(Path(__file__).with_name("class_bases.py").read_text(), "class_bases.py", "exec")


def listed(text: str) -> tuple[str, ...]:
    """Returns the entries of a table, which two spaces or a line end separate."""
    return tuple(re.split(r"\s{2,}|\n\s*", text.strip()))


@dataclass(frozen=True)
class Family:
    """A kind of class: its statement, how an instance is created, the methods that are overridden, and the
    operations.
    """

    title: str
    head: str
    """The statement up to the overridden methods, ``class X(...):``."""
    make: str
    """Makes ``x``, and ``y`` if there is no ``other``."""
    overridden: tuple[str, ...]
    operations: tuple[str, ...]
    other: str = ""
    """Makes ``y``."""
    takes_pairs: bool = False
    """Whether there are classes that override two methods."""
    is_captured: bool = True
    """Whether most of its programs are to be one graph."""


@dataclass(frozen=True)
class Program:
    """One program: a class of a family that overrides ``overridden``, and one operation."""

    family: Family
    overridden: tuple[str, ...]
    operation: str
    inside: bool
    slots: bool = False

    def __str__(self) -> str:
        where = "inside" if self.inside else "outside"
        names = ", ".join(self.overridden) or "nothing"
        return f"{self.family.title}, {self.family.make} overriding {names}, {where}: {self.operation}"

    def source(self) -> str:
        family = self.family
        lines = [family.head]
        lines += ["    __slots__ = ()"] * self.slots + ["    pass"] * (not self.overridden)
        for name in self.overridden:
            lines += [f"    def {name}(self, *args, **kwargs):", f"        LOG.append({name!r})"]
            lines += (
                ["        return 'missing'"]
                if name == "__missing__"
                else [f"        return super().{name}(*args, **kwargs)"]
            )
        lines += ["def run(t, x, y):"]
        lines += [f"    x = {family.make}", f"    y = {family.other or family.make}"] * self.inside
        found = self.operation if re.match(IN_PLACE, self.operation) else f"found = {self.operation}"
        lines += ["    z = t + 1", "    found = None", f"    {found}", "    return z * 2, found, x"]
        return "\n".join(lines)


def programs_of(family: Family) -> Iterator[Program]:
    """Returns all programs of a family: classes that override nothing, each method, and perhaps neighbouring pairs."""
    pairs = itertools.pairwise((*family.overridden, *family.overridden[:1])) if family.takes_pairs else ()
    choices = [(), *((each,) for each in family.overridden), *pairs]
    for overridden, operation, inside in itertools.product(choices, family.operations, (False, True)):
        yield Program(family, overridden, operation, inside)


def described(value: Any, depth: int = 0) -> Any:
    """A value by its types, items and attributes, read without calling methods of its class."""
    if depth > 6:
        return "..."
    cls = type(value)
    if issubclass(cls, torch.Tensor):
        return cls.__name__, value.dtype, tuple(torch.Tensor.size(value)), value.tolist()
    if issubclass(cls, enum.Enum):
        return cls.__name__, object.__getattribute__(value, "_name_")
    return cls.__name__, _described_items(value, depth + 1), _described_attributes(value, depth + 1)


def _described_items(value: Any, depth: int) -> Any:
    """Returns the items, or the value, of an instance of a builtin class."""
    cls = type(value)
    for base in (tuple, list, deque, set, frozenset):
        if issubclass(cls, base):
            return [described(each, depth) for each in base.__iter__(value)]
    if issubclass(cls, dict):
        pairs = OrderedDict.items(value) if issubclass(cls, OrderedDict) else dict.items(value)
        return [(described(k, depth), described(v, depth)) for k, v in pairs]
    for scalar in (bool, int, float, complex, str, bytes):
        if issubclass(cls, scalar):
            return _ADDRESS.sub("at an address", scalar.__repr__(value))
    return repr(value) if issubclass(cls, range | type(None) | type(NotImplemented)) else None


_ADDRESS = re.compile("at 0x[0-9a-f]+")


def _described_attributes(value: Any, depth: int) -> Any:
    if issubclass(type(value), type | types.ModuleType | types.FunctionType):
        return getattr(value, "__name__", None)
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return None if attributes is value else [(name, described(each, depth)) for name, each in attributes.items()]


def outcome(namespace: dict[str, Any], fn: Callable[..., Any]) -> tuple[Any, ...]:
    """Returns the result or exception of one call, its arguments afterwards, and the methods that were called."""
    args = torch.ones(2), *namespace["make"]()
    log: list[str] = namespace["LOG"]
    log.clear()
    result: Any = None
    error: tuple[str, str] | None = None
    try:
        result = fn(*args)
    except Exception as raised:
        if isinstance(raised, dl.exc.InternalError):
            raise
        error = type(raised).__name__, _ADDRESS.sub("at an address", str(raised))
    called = [*log]
    return described(result), error, described(args), called


def defined(program: Program) -> dict[str, Any]:
    """The namespace of a module with the program's class and function, and a function that makes its arguments."""
    module = types.ModuleType("made_classes")
    sys.modules[module.__name__] = module  # `pickle` looks the class up in it
    namespace = vars(module)
    exec(_BASES, namespace)
    exec(program.source(), namespace)
    family = program.family
    namespace["make"] = eval(f"lambda: ({family.make}, {family.other or family.make})", namespace)
    return namespace


def difference(program: Program) -> tuple[str, int]:
    """How the compiled program differs from eager in three calls, "" if it doesn't, and its number of graphs."""
    namespace = defined(program)
    wanted = [outcome(namespace, namespace["run"]) for _ in range(3)]
    namespace = defined(program)
    graphs = 0

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return gm.forward

    compiled = dl.compile(namespace["run"], backend=backend)
    for call in range(3):
        try:
            found = outcome(namespace, compiled)
        except dl.exc.InternalError as error:
            return f"InternalError: {str(error).splitlines()[0]}", graphs
        if wanted[call] != found:
            parts = [f"{one} instead of {other}" for one, other in zip(found, wanted[call]) if one != other]
            return f"call {call}: {'; '.join(parts)}", graphs
    return "", graphs
