"""Finds in the source of a Triton kernel which tensors it writes into, for kernels that Python runs.

torch's own analysis needs compiled kernels. A tensor is only read if its pointer, and all that the kernel computes from
it, is used in ``tl.load`` alone.
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


def _terms(expression: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum; another expression itself: what a call or a subscript does with a pointer isn't known."""
    if isinstance(expression, ast.BinOp):
        yield from _terms(expression.left)
        yield from _terms(expression.right)
    else:
        yield expression


def _pointers(expression: ast.expr) -> set[str]:
    """The variables among the terms of a sum."""
    return {each.id for each in _terms(expression) if isinstance(each, ast.Name)}


def _others(expression: ast.expr) -> list[ast.AST]:
    """The terms of a sum that aren't variables."""
    return [each for each in _terms(expression) if not isinstance(each, ast.Name)]


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
        rest = _others(node.value)  # type: ignore[attr-defined]
    elif _is_load(node):
        rest = [each for argument in node.args[:1] for each in _others(argument)] + node.args[1:]  # type: ignore[attr-defined]
        rest += [each.value for each in node.keywords]  # type: ignore[attr-defined]
    for each in rest:
        yield from _escaping(each)


def _is_load(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.load", "triton.language.load")
