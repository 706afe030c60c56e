"""Finds in the source of a Triton kernel which tensors it writes into, for kernels that Python runs.

torch's own analysis needs compiled kernels. A tensor is only read if its pointer, and all that the kernel computes from
it, is passed to nothing but ``tl.load``.
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
    (kernel,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(kernel, ast.FunctionDef)
    body = [node for statement in kernel.body for node in ast.walk(statement)]
    passed = {name for node in body for name in _passed_by(node)}
    before = -1
    while len(passed) != before:
        before = len(passed)
        for node in body:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and _assigned(node) in passed:
                passed.update(_names(node.value))
    return frozenset(inspect.signature(function).parameters) - passed


def _assigned(node: ast.Assign | ast.AugAssign) -> str | None:
    """The one variable that a statement assigns to."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _passed_by(node: ast.AST) -> Iterator[str]:
    """The variables that a call other than ``tl.load`` is given, or that are assigned in a way that isn't followed."""
    if isinstance(node, ast.Call) and not _is_load(node):
        yield from _names(*ast.iter_child_nodes(node))
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        yield from () if _assigned(node) is not None else _names(node.value)
    elif isinstance(node, (ast.For, ast.AnnAssign, ast.NamedExpr, ast.withitem, ast.Return, ast.comprehension)):
        yield from _names(*(each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)))


def _names(*nodes: ast.AST) -> Iterator[str]:
    """The variables in expressions, without pointers of ``tl.load``."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Call) and _is_load(node):
            yield from _names(*node.args[1:], *node.keywords)
        else:
            yield from _names(*ast.iter_child_nodes(node))


def _is_load(node: ast.Call) -> bool:
    return ast.unparse(node.func) in ("tl.load", "triton.language.load")
