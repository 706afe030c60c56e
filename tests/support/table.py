"""Tables of small programs: each is checked as it is written, and with a graph break after each of its statements.

The second way asks of every value that is alive between two statements whether it can be made outside of a trace.
"""

from __future__ import annotations
import __future__ as future

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import dynamo_lite as dl
from programs import check


@dataclass
class Case:
    """A program, its arguments, and the options of `check` for it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    cut: bool = False

    def run(self) -> None:
        if not self.cut:
            check(self.fn, *self.args, **self.settings)
            return
        kept = {"kwargs", "others", "watch", "exact", "backward", "recompiles", "calls"}
        settings = {name: value for name, value in self.settings.items() if name in kept}
        check(cut_everywhere(self.fn), *self.args, graphs=None, **settings)


class Table(list[Case]):
    """The programs of one file. As a decorator it adds one; ``cut=False``: not with breaks between statements."""

    def __init__(self, cut: bool = True) -> None:
        super().__init__()
        self.cut = cut

    def __call__(self, *args: Any, cut: bool | None = None, **settings: Any) -> Callable[..., Any]:
        def add(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.append(Case(fn, args, settings))
            if self.cut if cut is None else cut:
                self.append(Case(fn, args, settings, cut=True))
            return fn

        return add

    def parameters(self) -> list[Any]:
        return [pytest.param(case, id=case.fn.__name__ + ("-cut" if case.cut else "")) for case in self]

    def test(self) -> Callable[..., None]:
        """Returns a test of all programs."""

        @pytest.mark.parametrize("case", self.parameters())
        def test(case: Case) -> None:
            case.run()

        return test


def rewritten(
    fn: Callable[..., Any], change: Callable[[ast.FunctionDef], object], namespace: dict[str, Any]
) -> Callable[..., Any]:
    """The program with a change to its tree, and with these globals; its lines are numbered as in its file."""
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


def cut_everywhere(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the program with a graph break after each statement of its body."""

    def cut(program: ast.FunctionDef) -> None:
        body: list[ast.stmt] = []
        for statement in program.body:
            body.append(statement)
            if not isinstance(statement, (ast.Return, ast.Global, ast.Nonlocal)):
                call = ast.parse("dl.graph_break()").body[0]
                for node in ast.walk(call):
                    ast.copy_location(node, statement)
                body.append(call)
        program.body = body

    fn.__globals__.setdefault("dl", dl)
    return rewritten(fn, cut, fn.__globals__)
