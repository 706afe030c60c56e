"""Making a generator that was run in part while tracing: one that goes on in CPython where the trace left it.

Its code is the original's behind a prologue that restores locals and stack. One that had started waits, after the
prologue, at a first ``yield`` of its own that stands in for the one it had come to.
"""

from __future__ import annotations

import types
from typing import Any

from ..bytecode import live_locals
from ..codegen import PyCodegen
from ..skip import dynamic_scope
from ..variables.base import NotConstant
from ..variables.context import ExitVariable
from ..variables.exception import HandledVariable
from .graph_break import NEW, RESUME_CODES, WAITING, ResumePoint
from .stack import NULL


def rebuild(cg: PyCodegen, frame: Any, generator: Any) -> None:
    """Emit code that makes the generator whose frame this is.

    Raises:
        NotConstant: it holds what can't be put into another frame.
    """
    code = frame.code
    if dynamic_scope(code) or any(isinstance(value, (ExitVariable, HandledVariable)) for value in frame.stack):
        raise NotConstant("generator")
    for cell in frame.cells.values():  # one of them may hold the generator itself
        cg.load(cell)
        cg.pop_top()
    if cg.has_made(generator):
        cg.load(generator)
        return
    index = frame.pc + 1  # the instruction at the program counter is a part of what a prologue does
    live = live_locals(code)[index]
    nulls = tuple(at for at, value in enumerate(frame.stack) if value is NULL)
    names = tuple(sorted(name for name in frame.locals if name in live))
    first = _first_argument(frame)
    point = ResumePoint(index, len(frame.stack), nulls, names, first, generator=WAITING if frame.started else NEW)
    values = [*([] if first is None else [frame.locals[first]]), *(v for v in frame.stack if v is not NULL)]
    values += [frame.locals[name] for name in names if name != first]
    cells = [frame.cells[name] for name in (*code.co_cellvars, *code.co_freevars)]
    cg.call(
        _make_waiting if frame.started else _make_new,
        [
            lambda: cg.load_const(RESUME_CODES.get(code, point)),
            lambda: cg.load_const(frame.scope.namespace),
            lambda: cg.load_tuple(cells),
            *(lambda value=value: cg.load(value) for value in values),
        ],
    )


def _first_argument(frame: Any) -> str | None:
    """The argument that a native ``super()`` looks at, where the code may call it."""
    code = frame.code
    if "__class__" not in code.co_freevars or not code.co_argcount:
        return None
    name = code.co_varnames[0]
    if name not in frame.locals:
        raise NotConstant("generator")
    return name


def _make_new(code: types.CodeType, namespace: dict[str, Any], cells: tuple[Any, ...], *values: Any) -> Any:
    return types.FunctionType(code, namespace, code.co_name, None, cells or None)(*values)


def _make_waiting(code: types.CodeType, namespace: dict[str, Any], cells: tuple[Any, ...], *values: Any) -> Any:
    generator = _make_new(code, namespace, cells, *values)
    next(generator)
    return generator
