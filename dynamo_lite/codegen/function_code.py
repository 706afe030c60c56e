"""Code of functions that evaluate rows and return a value, apart from any graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType

from dynamo_lite.bytecode import assemble, emit
from dynamo_lite.plan.rows import Step, Value

from .emitter import load, run


def code_returning(
    value: Value, *, like: CodeType, argnames: Sequence[str] | None = None, steps: Iterable[Step] = ()
) -> CodeType:
    """Code that runs the steps and returns the value. ``argnames``: its parameters; None: those of ``like``."""
    instructions = [*emit.prologue(len(like.co_freevars)), *run(steps), *load(value), emit.return_value()]
    for each in instructions:
        each.positions = (like.co_firstlineno, like.co_firstlineno, None, None)
    return assemble(instructions, like=like, argnames=argnames, cellvars=())
