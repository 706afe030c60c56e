"""Programs with a hole: the name ``CUT`` in a program is replaced by each expression that breaks a graph.

A program is a function of ``x`` (a tensor) and ``s`` (a tensor of one number), written out in its test file;
`Places.parameters` gives one pytest parameter for it and each kind of break.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import dynamo_lite as dl
from programs import check, tensor
from table import rewritten

KINDS = {
    "graph_break": "dl.graph_break()",
    "print": "print('cut')",
    "item": "1 / s.item()",
    "tolist": "s.tolist() // 1",
    "unknown_c": "zlib.crc32(b'cut')",
}
OTHERS = [kind for kind in KINDS if kind != "graph_break"]
WHOLE = "whole"
"""Nothing where the hole is: the program in one piece."""
NAMES = {"dl": dl, "zlib": zlib, "s": tensor(1, seed=5).sum()}


@dataclass
class Place:
    """A program with a hole and what is expected of it: numbers, ranges, or None for whatever."""

    fn: Callable[..., Any]
    graphs: int | tuple[int, int] | None
    breaks: int | tuple[int, int] | None
    operators: int | tuple[int, int] | None
    options: dict[str, Any] = field(default_factory=dict)


def drawn(place: Place, kinds: Sequence[str]) -> str:
    """Draws the same kind for a program in each run."""
    return kinds[zlib.crc32(place.fn.__name__.encode()) % len(kinds)]


class _Fill(ast.NodeTransformer):
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.filled = 0

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != "CUT":
            return node
        self.filled += 1
        new = ast.parse(self.expression, mode="eval").body
        for each in ast.walk(new):
            ast.copy_location(each, node)
        return new


def fill(fn: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Returns the program with its holes filled."""
    filler = _Fill("None" if kind == WHOLE else KINDS[kind])
    filled = rewritten(fn, filler.visit, {**fn.__globals__, **NAMES})
    assert filler.filled, f"{fn.__name__} has no CUT"
    return filled


class Places(list[Place]):
    """The programs of one file. As a decorator it adds one."""

    def __call__(
        self,
        graphs: int | tuple[int, int] | None = 2,
        breaks: int | tuple[int, int] | None = None,
        operators: int | tuple[int, int] | None = None,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.append(Place(fn, graphs, breaks, operators, options))
            return fn

        return add

    def parameters(self) -> list[Any]:
        """Returns two parameters for each program: the plain break, and the kind that its name draws."""
        kinds = [(place, kind) for place in self for kind in ("graph_break", drawn(place, OTHERS))]
        return [pytest.param(place, kind, id=f"{place.fn.__name__}-{kind}") for place, kind in kinds]

    def run(self, place: Place, kind: str) -> None:
        """Check one program with one kind of break."""
        options = dict(place.options)
        inputs = options.pop("inputs", (tensor(3), tensor(1, seed=5).sum()))
        breaks = place.breaks
        if breaks is None and place.graphs == 2:
            breaks = 1
        fn = fill(place.fn, kind)
        check(fn, *inputs, graphs=place.graphs, breaks=breaks, operators=place.operators, **options)

    def test(self) -> Callable[..., None]:
        """Returns a test of all programs."""

        @pytest.mark.parametrize("place, kind", self.parameters())
        def test(place: Place, kind: str) -> None:
            self.run(place, kind)

        return test


class Programs(Places):
    """Programs of ``x`` (a tensor) and ``n`` (a number), checked whole and, where they have a hole, with breaks in it.

    ``graphs``, ``breaks`` and ``operators`` are of the whole program; ``cut`` is how many graphs it has with a break,
    and ``cut_recompiles`` whether it then compiles anew in each call.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def __call__(
        self,
        graphs: int | tuple[int, int] | None = 1,
        breaks: int | tuple[int, int] | None = None,
        operators: int | tuple[int, int] | None = None,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return super().__call__(graphs, breaks, operators, **{**self.options, **options})

    def parameters(self) -> list[Any]:
        found = []
        for place in self:
            has_hole = "CUT" in place.fn.__code__.co_names
            kinds = (WHOLE, drawn(place, ("graph_break", "print"))) if has_hole else (WHOLE,)
            found += [pytest.param(place, kind, id=f"{place.fn.__name__}-{kind}") for kind in kinds]
        return found

    def run(self, place: Place, kind: str) -> None:
        """Check one program: twice on its inputs, then on others, in one piece or with one kind of break."""
        options = dict(place.options)
        inputs = options.pop("inputs", (tensor(3), 3))
        options.setdefault("others", [(tensor(5, seed=1), 4)])
        cut = options.pop("cut", None)
        if options.pop("cut_recompiles", False) and kind != WHOLE:
            options["recompiles"] = True
        fn = place.fn if kind == WHOLE and "CUT" not in place.fn.__code__.co_names else fill(place.fn, kind)
        if kind == WHOLE:
            check(fn, *inputs, graphs=place.graphs, breaks=place.breaks, operators=place.operators, **options)
        else:
            check(fn, *inputs, graphs=cut, breaks=None, **options)
