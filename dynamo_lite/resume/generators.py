"""Generators that tracing advanced: how generated code creates one that CPython continues where the trace left it.

Its code is the user's code behind a prologue that restores locals and stack. For a generator that has started, the
prologue ends in a ``yield`` of its own, which stands for the one at which tracing left the generator.
"""

from __future__ import annotations

import types
from collections.abc import Sequence

from dynamo_lite.bytecode import live_locals
from dynamo_lite.records.code_origin import reads_frame_by_name
from dynamo_lite.variables.core.base import CreatingCall, NotConstant, VariableTracker
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.polyfills.recreation import create_generator
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.functions.function import ResumeFunction
from dynamo_lite.variables.python.objects.exception import ExceptionInfoVariable
from dynamo_lite.variables.torch.contexts.torch_contexts import ExitVariable

from .graph_break import argument_of_super
from .interpreted_frame import InterpretedFrame
from .resume_code import NEW, RESUME_CODES, STACK, WAITING, ResumePoint, original_position


def generator_call(frame: InterpretedFrame) -> CreatingCall:
    """The call that creates a generator which continues this frame.

    Raises:
        NotConstant: the frame can't be continued in another one.
    """
    code, index = _position(frame)
    first, stack = argument_of_super(code), _stack(frame)
    is_in_block = any(isinstance(value, (ExitVariable, ExceptionInfoVariable)) for value in stack)
    lacks_first = first is not None and first not in frame.locals
    if is_in_block or lacks_first or reads_frame_by_name(code, frame.scope.namespace):
        raise NotConstant("generator")
    live = live_locals(code)[index]
    nulls = tuple(at for at, value in enumerate(stack) if value is NULL)
    names = tuple(sorted(name for name in frame.locals if name in live))
    point = ResumePoint(index, len(stack), nulls, names, first, generator=WAITING if frame.started else NEW)
    values = [*([] if first is None else [frame.locals[first]]), *(v for v in stack if v is not NULL)]
    values += [frame.locals[name] for name in names if name != first]
    cells: list[VariableTracker] = [frame.cells[name] for name in (*code.co_cellvars, *code.co_freevars)]
    function = ResumeFunction(RESUME_CODES.get(code, point), frame.scope.namespace)
    return CreatingCall(create_generator, (function, frame.started), [TupleVariable(cells), *values])


def _stack(frame: InterpretedFrame) -> Sequence[VariableTracker]:
    """The stack where the frame continues. A generator that has not started may have one from CPython 3.15 on: a
    generator expression then has its iterator there, and in the arguments of a resume function until that starts."""
    info = RESUME_CODES.info(frame.code)
    if frame.started or info is None:
        return frame.stack
    point = info.point
    return [NULL if at in point.nulls else frame.locals[STACK.format(at)] for at in range(point.depth)]


def _position(frame: InterpretedFrame) -> tuple[types.CodeType, int]:
    """The user's code and the index at which it continues: one after the program counter, since the prologue does what
    the first instruction there does. A generator suspended at the ``yield`` of its prologue continues where that
    one would."""
    code, index = original_position(frame.code, frame.pc + 1)
    if index is None:
        info = RESUME_CODES.info(frame.code)
        assert info is not None
        index = info.point.index
    return code, index
