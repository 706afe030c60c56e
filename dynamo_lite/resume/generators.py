"""Making a generator that was run in part while tracing: one that goes on in CPython where the trace left it.

Its code is the original's behind a prologue that restores locals and stack. One that had started waits, after the
prologue, at a first ``yield`` of its own that stands in for the one it had come to.
"""

from __future__ import annotations

import types
from functools import partial
from typing import Any

from dynamo_lite.bytecode import live_locals
from dynamo_lite.codegen.python_codegen import PyCodegen
from dynamo_lite.records.code_origin import reads_frame_by_name
from dynamo_lite.variables.core.base import CreatingCall, NotConstant
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.polyfills.carried import create_generator, create_started_generator
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.functions.function import ResumeFunction
from dynamo_lite.variables.python.objects.exception import ExceptionInfoVariable
from dynamo_lite.variables.torch.contexts.context import ExitVariable

from .graph_break import NEW, RESUME_CODES, WAITING, ResumePoint, original_position


def rebuild(cg: PyCodegen, frame: Any, generator: Any) -> None:
    """Emit code that makes the generator whose frame this is.

    Raises:
        NotConstant: it holds what can't be put into another frame.
    """
    parts = parts_of(frame)
    for cell in frame.cells.values():  # one of them may hold the generator itself
        cg.load(cell)
        cg.pop_top()
    if cg.has_made(generator):
        cg.load(generator)
        return
    first = [partial(cg.load_const, each) for each in parts.constants]
    cg.call(parts.make, [*first, *(partial(cg.load, each) for each in parts.operands)])


def parts_of(frame: Any) -> CreatingCall:
    """What makes a generator with this frame, and of what.

    Raises:
        NotConstant: it holds what can't be put into another frame.
    """
    code, index = _place(frame)
    in_force = any(isinstance(value, (ExitVariable, ExceptionInfoVariable)) for value in frame.stack)
    if in_force or reads_frame_by_name(code, frame.scope.namespace):
        raise NotConstant("generator")
    live = live_locals(code)[index]
    nulls = tuple(at for at, value in enumerate(frame.stack) if value is NULL)
    names = tuple(sorted(name for name in frame.locals if name in live))
    first = _first_argument(code, frame)
    point = ResumePoint(index, len(frame.stack), nulls, names, first, generator=WAITING if frame.started else NEW)
    values = [*([] if first is None else [frame.locals[first]]), *(v for v in frame.stack if v is not NULL)]
    values += [frame.locals[name] for name in names if name != first]
    cells = [frame.cells[name] for name in (*code.co_cellvars, *code.co_freevars)]
    function = ResumeFunction(RESUME_CODES.get(code, point), frame.scope.namespace)
    create = create_started_generator if frame.started else create_generator
    return CreatingCall(create, (function,), [TupleVariable(cells), *values])


def _place(frame: Any) -> tuple[types.CodeType, int]:
    """The program's code, and where it goes on: behind the instruction at the program counter, which is a part of what
    a prologue does. One that waits in such a prologue has come no further."""
    code, index = original_position(frame.code, frame.pc + 1)
    if index is None:
        info = RESUME_CODES.info(frame.code)
        assert info is not None
        index = info.point.index
    return code, index


def _first_argument(code: types.CodeType, frame: Any) -> str | None:
    """The argument that a native ``super()`` looks at, where the code may call it."""
    if "__class__" not in code.co_freevars or not code.co_argcount:
        return None
    name = code.co_varnames[0]
    if name not in frame.locals:
        raise NotConstant("generator")
    return name
