"""The rows of a plan: values, and steps that keep them in local variables or have an effect.

A value is an expression. It is evaluated where a step or the stack has it, so what must be one object is kept by a
`Keep` and then read as a `Local`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_lite.insight.value_text import value_text
from dynamo_lite.sources.source import Source, name_of

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(...), slice})
"""Types of constants that are shown as themselves: the ``repr()`` of others may be the program's."""

_BRACKETS = {"TUPLE": ("(", ")"), "LIST": ("[", "]")}


class Value:
    """An expression: how generated code pushes one value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Value):
    """A constant of the code object."""

    value: object

    def __str__(self) -> str:
        return text_of_constant(self.value)


@dataclass(frozen=True, slots=True)
class Local(Value):
    """A local variable of the new code."""

    name: str

    def __str__(self) -> str:
        return self.name.removeprefix("___")


@dataclass(frozen=True, slots=True)
class Take(Local):
    """A local variable that is unbound as it is read."""


@dataclass(frozen=True, slots=True)
class Cell(Value):
    """The cell of a free variable of the frame."""

    name: str

    def __str__(self) -> str:
        return f"the cell of {self.name}"


@dataclass(frozen=True, slots=True)
class Item(Value):
    """``of[key]``."""

    of: Value
    key: Value

    def __str__(self) -> str:
        return f"{self.of}[{self.key}]"


@dataclass(frozen=True, slots=True)
class Reload(Value):
    """A pre-existing object. ``way``: the argument, constant or item of the captured values that has it."""

    source: Source
    way: Value

    def __str__(self) -> str:
        return str(self.way) if isinstance(self.way, Constant) else str(self.source)


@dataclass(frozen=True, slots=True)
class GraphResult(Value):
    """A result of the graph, by its position."""

    at: int

    def __str__(self) -> str:
        return f"result {self.at} of the graph"


@dataclass(frozen=True, slots=True)
class Call(Value):
    """A call. ``names``: of the last arguments."""

    function: Value
    args: tuple[Value, ...]
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.args) - len(self.names)
        named = [f"{name}={each}" for name, each in zip(self.names, self.args[count:])]
        return f"{self.function}({', '.join([*map(str, self.args[:count]), *named])})"


@dataclass(frozen=True, slots=True)
class Attribute(Value):
    """``of.name``."""

    of: Value
    name: str

    def __str__(self) -> str:
        return f"{self.of}.{self.name}"


@dataclass(frozen=True, slots=True)
class Build(Value):
    """A new tuple, list, set, slice, text (``kind``: as in `emit.build`), or a dict of keys and values in turn."""

    kind: str
    parts: tuple[Value, ...] = ()

    def __str__(self) -> str:
        parts = [*map(str, self.parts)]
        if self.kind == "MAP":
            return f"{{{', '.join(f'{key}: {value}' for key, value in zip(parts[::2], parts[1::2]))}}}"
        opening, closing = _BRACKETS.get(self.kind, (f"{self.kind.lower()}(", ")"))
        comma = "," if self.kind == "TUPLE" and len(parts) == 1 else ""
        return f"{opening}{', '.join(parts)}{comma}{closing}"


@dataclass(frozen=True, slots=True)
class Binary(Value):
    """``left symbol right``."""

    symbol: str
    left: Value
    right: Value

    def __str__(self) -> str:
        return f"({self.left} {self.symbol} {self.right})"


@dataclass(frozen=True, slots=True)
class PushedNull(Value):
    """The NULL that CPython pushes beside a callable."""

    def __str__(self) -> str:
        return "NULL"


@dataclass(frozen=True, slots=True)
class SetHandled(Value):
    """Makes an exception the handled one. The value is the one that was handled before."""

    error: Value

    def __str__(self) -> str:
        return f"handle({self.error})"


class Step:
    """A statement: it leaves the stack as it was."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Keep(Step):
    """``local = value``."""

    local: Local
    value: Value

    def __str__(self) -> str:
        return f"{self.local} = {self.value}"


@dataclass(frozen=True, slots=True)
class Do(Step):
    """Evaluates a value for its effect."""

    value: Value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class SetAttribute(Step):
    """``of.name = value``."""

    of: Value
    name: str
    value: Value

    def __str__(self) -> str:
        return f"{self.of}.{self.name} = {self.value}"


@dataclass(frozen=True, slots=True)
class DeleteAttribute(Step):
    """``del of.name``."""

    of: Value
    name: str

    def __str__(self) -> str:
        return f"del {self.of}.{self.name}"


@dataclass(frozen=True, slots=True)
class SetItem(Step):
    """``of[key] = value``."""

    of: Value
    key: Value
    value: Value

    def __str__(self) -> str:
        return f"{self.of}[{self.key}] = {self.value}"


@dataclass(frozen=True, slots=True)
class Extend(Step):
    """Appends items to a list or an instance of a derived class, by the list's own method."""

    of: Value
    items: Value

    def __str__(self) -> str:
        return f"{self.of} += {self.items}"


@dataclass(frozen=True, slots=True)
class Return:
    """The end of a frame that returns."""

    value: Value

    def lines(self) -> list[str]:
        return [f"return {self.value}"]


@dataclass(frozen=True, slots=True)
class Break:
    """The end of a frame whose graph breaks: CPython runs one instruction, and a resume function goes on after it.

    ``stack``: of the frame at the instruction, from the bottom; ``locals``: the variables that are bound there;
    ``place``: of the instruction."""

    stack: tuple[Value, ...]
    locals: tuple[tuple[str, Value], ...]
    place: str

    def lines(self) -> list[str]:
        stores = [f"{Local(name)} = {value}" for name, value in self.locals if str(value) != name]
        stack = [f"the stack is {', '.join(map(str, self.stack))}"] if self.stack else []
        return [*stores, *stack, f"CPython runs one instruction of {self.place}, then the frame resumes"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the new code of a frame does around its graph.

    ``captured``: the inputs of the graph that the guard check captured; ``inputs``: the others, which follow them;
    ``results``: how many the graph has; ``released``: what happens at once after it. If the call of the graph raises,
    ``undone`` reverts what came before it, and ``rewound`` what the frame draws again if it is run again."""

    before: tuple[Step, ...]
    captured: tuple[Source, ...]
    inputs: tuple[Value, ...]
    results: int
    released: tuple[Step, ...]
    after: tuple[Step, ...]
    end: Return | Break
    undone: tuple[Step, ...] = ()
    rewound: tuple[Step, ...] = ()

    def __str__(self) -> str:
        """The steps in their order, one a line."""
        given = [*self.captured, *self.inputs]
        call = f"call the graph with {', '.join(map(str, given)) or 'nothing'}"
        called = [call] if given or self.results else []
        return "\n".join([*map(str, self.before), *called, *map(str, (*self.released, *self.after)), *self.end.lines()])


def text_of_constant(value: object) -> str:
    """A constant as a plan shows it: itself, or by its name. Runs no code of the program."""
    kind = type(value)
    if kind in _PLAIN:
        return value_text(value)
    if kind is tuple and isinstance(value, tuple):
        return f"({', '.join(map(text_of_constant, value))}{',' * (len(value) == 1)})"
    return name_of(value) or f"<{kind.__qualname__}>"
