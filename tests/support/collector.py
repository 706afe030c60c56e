"""Collects the programs of a test file: each is run as it is written, and with graph breaks in it.

A program breaks where it reads the name ``CUT``, an expression that is replaced by one that breaks the graph. Without
that name it breaks after each of its statements: every value that is live between two statements is then created
outside of the trace.
"""

from __future__ import annotations
import __future__ as future

import ast
import dataclasses
import inspect
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import pytest

import dynamo_lite as dl
from programs import Program, check, program_of, tensor

BREAKS = {
    "graph_break": "dl.graph_break()",
    "print": "print('cut')",
    "item": "1 / s.item()",
    "tolist": "s.tolist() // 1",
    "unknown_c": "zlib.crc32(b'cut')",
}
WHOLE = "whole"
"""As the program is written: a ``CUT`` is None."""
STATEMENTS = "cut"
"""A break after each statement."""
NAMES = {"dl": dl, "zlib": zlib, "s": tensor(1, seed=5).sum()}
COUNTED = ("graphs", "operators", "breaks", "all_graphs")
"""What `check` counts in a program as it is written, but not with breaks in it."""


@dataclass
class Case:
    """A program, its inputs, the options of `check`, and where it breaks."""

    program: Program
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    kind: str

    def run(self) -> None:
        broken = with_breaks(self.program.fn, self.kind)
        check(dataclasses.replace(self.program, fn=broken), *self.inputs, **self.options)


class Programs(list[Case]):
    """The programs of one file. As a decorator it adds one.

    Inputs and options that are given here are those of all programs that don't state their own. ``whole=False``:
    programs are run only with breaks, of two kinds, and what is counted is counted so. A program with ``cut=False``
    breaks only where it is written, and so does one that must be one graph (`without_breaks`).
    """

    def __init__(self, *inputs: Any, whole: bool = True, **options: Any) -> None:
        super().__init__()
        self.inputs, self.options = inputs, options
        self.whole = whole

    def __call__(self, *inputs: Any, cut: bool = True, **options: Any) -> Callable[..., Any]:
        def add(fn: Callable[..., Any] | Program) -> Callable[..., Any]:
            program = program_of(fn)
            given, asked = inputs or self.inputs, {**self.options, **options}
            uncounted = {**{name: value for name, value in asked.items() if name not in COUNTED}, "graphs": None}
            for kind in self.kinds(program.fn, cut and not program.fullgraph):
                is_counted = kind == WHOLE or not self.whole
                self.append(Case(program, given, asked if is_counted else uncounted, kind))
            return program.fn

        return add

    def kinds(self, fn: Callable[..., Any], cut: bool) -> list[str]:
        """Returns where a program breaks, a case each: the same in each run."""
        if not self.whole:
            return ["graph_break", drawn(fn, [kind for kind in BREAKS if kind != "graph_break"])]
        if not cut:
            return [WHOLE]
        return [WHOLE, drawn(fn, ["graph_break", "print"]) if has_hole(fn.__code__) else STATEMENTS]

    def parameters(self) -> list[Any]:
        return [pytest.param(case, id=f"{case.program.fn.__name__}-{case.kind}") for case in self]

    def test(self) -> Callable[..., None]:
        """Returns a test of all programs."""

        @pytest.mark.parametrize("case", self.parameters())
        def test(case: Case) -> None:
            case.run()

        return test


def drawn(fn: Callable[..., Any], kinds: Sequence[str]) -> str:
    """Returns the kind of break that a program's name draws."""
    return kinds[zlib.crc32(fn.__name__.encode()) % len(kinds)]


def has_hole(code: CodeType) -> bool:
    """Tells whether a program, or a function in it, reads ``CUT``."""
    return "CUT" in code.co_names or any(has_hole(each) for each in code.co_consts if isinstance(each, CodeType))


def with_breaks(fn: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Returns the program with its breaks."""
    if kind == STATEMENTS:
        fn.__globals__.setdefault("dl", dl)
        return rewritten(fn, _break_after_statements, fn.__globals__)
    if not has_hole(fn.__code__):
        assert kind == WHOLE, f"{fn.__name__} has no CUT"
        return fn
    filler = _Filler("None" if kind == WHOLE else BREAKS[kind])
    return rewritten(fn, filler.visit, {**fn.__globals__, **NAMES})


class _Filler(ast.NodeTransformer):
    def __init__(self, expression: str) -> None:
        self.expression = expression

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _parsed_at(node, self.expression) if node.id == "CUT" else node


def _break_after_statements(program: ast.FunctionDef) -> None:
    def statements() -> Iterator[ast.stmt]:
        for statement in program.body:
            yield statement
            if not isinstance(statement, (ast.Return, ast.Global, ast.Nonlocal)):
                yield ast.copy_location(ast.Expr(_parsed_at(statement, BREAKS["graph_break"])), statement)

    program.body = list(statements())


def _parsed_at(place: ast.AST, expression: str) -> ast.expr:
    parsed = ast.parse(expression, mode="eval").body
    for node in ast.walk(parsed):
        ast.copy_location(node, place)
    return parsed


def rewritten(
    fn: Callable[..., Any], change: Callable[[ast.FunctionDef], object], namespace: dict[str, Any]
) -> Callable[..., Any]:
    """Returns the program with a change to its tree, and with these globals; its lines are numbered as in its file."""
    lines, first = inspect.getsourcelines(fn)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    program = tree.body[0]
    assert isinstance(program, ast.FunctionDef)
    program.decorator_list = []
    change(program)
    ast.increment_lineno(tree, first - 1)
    flags = fn.__code__.co_flags & future.annotations.compiler_flag
    scope: dict[str, Any] = {}
    exec(compile(tree, fn.__code__.co_filename, "exec", flags=flags, dont_inherit=True), namespace, scope)
    return scope[program.name]
