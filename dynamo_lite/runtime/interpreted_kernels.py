"""What a Triton kernel writes into that Python runs, read off its source: torch's analysis needs compiled ones.

A tensor is only read if its pointer, and whatever the kernel computes from it, goes nowhere but into ``tl.load``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator


@functools.lru_cache(maxsize=1024)
def only_read(function: Callable[..., object]) -> frozenset[str]:
    """The parameters that the kernel doesn't write through."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = inspect.signature(function).parameters
    (kernel,) = (each for each in tree.body if isinstance(each, ast.FunctionDef))
    return frozenset(name for name in names if _is_only_read(kernel, name))


def _is_only_read(kernel: ast.FunctionDef, parameter: str) -> bool:
    pointers = {parameter}
    while True:
        found = set(pointers)
        for statement in ast.walk(kernel):
            target = _assigned(statement)
            if target is not None and not pointers.isdisjoint(_pointers(statement.value)):  # type: ignore[attr-defined]
                found.add(target)
        if found == pointers:
            break
        pointers = found
    return pointers.isdisjoint(_escaping(kernel))


def _assigned(statement: ast.AST) -> str | None:
    """The variable that a statement assigns the result of arithmetic to; None for other statements."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AugAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _pointers(expression: ast.expr) -> Iterator[str]:
    """The variables that an expression of sums depends on: what a call or a subscript does with one isn't known."""
    if isinstance(expression, ast.Name):
        yield expression.id
    elif isinstance(expression, ast.BinOp):
        yield from _pointers(expression.left)
        yield from _pointers(expression.right)


def _escaping(node: ast.AST) -> Iterator[str]:
    """The variables that are used in other ways than in sums that are assigned, and pointers of ``tl.load``."""
    if isinstance(node, ast.Name):
        yield node.id
        return
    rest: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.FunctionDef):
        rest = list(node.body)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        rest = []
    elif _assigned(node) is not None:
        rest = list(_within(node.value))  # type: ignore[attr-defined]
    elif _is_load(node):
        rest = [each for argument in node.args[:1] for each in _within(argument)] + node.args[1:]  # type: ignore[attr-defined]
        rest += [each.value for each in node.keywords]  # type: ignore[attr-defined]
    for each in rest:
        yield from _escaping(each)


def _within(expression: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression below its sums."""
    if isinstance(expression, ast.BinOp):
        yield from _within(expression.left)
        yield from _within(expression.right)
    elif not isinstance(expression, ast.Name):
        yield expression


def _is_load(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.load", "triton.language.load")
