"""Constructors of instructions by what they do, independent of the CPython version."""

from __future__ import annotations

import dis
import itertools
from collections.abc import Sequence
from typing import Any

from .instructions import (
    BINARY_OPS,
    FREE_COUNT,
    HAS_PRECALL,
    KIND,
    NUMBER,
    POP_JUMP,
    BytecodeError,
    Instruction,
)


def make(opname: str, argval: Any = None, *, target: Instruction | None = None) -> Instruction:
    """Create an instruction. ``argval``: its constant, name, comparison symbol or number.

    Raises:
        BytecodeError: this version of CPython has no such opcode.
    """
    opcode = dis.opmap.get(opname, 256)
    if opcode > 255:
        raise BytecodeError(f"this version of CPython has no opcode {opname}")
    return Instruction(opcode, opname, argval if KIND[opcode] in (NUMBER, FREE_COUNT) else 0, argval, target)


def copy_of(instruction: Instruction) -> Instruction:
    """A copy with the same target and handler."""
    copied = instruction.copy()
    copied.index = copied.offset = -1
    return copied


# -- values ----------------------------------------------------------------------------------------------------


def load_const(value: object) -> Instruction:
    return make("LOAD_CONST", value)


def load_fast(name: str) -> Instruction:
    return make("LOAD_FAST", name)


def store_fast(name: str) -> Instruction:
    return make("STORE_FAST", name)


def delete_fast(name: str) -> Instruction:
    return make("DELETE_FAST", name)


def take_fast(name: str) -> list[Instruction]:
    """Push a local variable and unbind it."""
    return [load_fast(name), delete_fast(name)]


def load_closure(name: str) -> Instruction:
    """Push a cell itself."""
    return make("LOAD_CLOSURE", name)


# -- operators -------------------------------------------------------------------------------------------------


def binary_op(symbol: str) -> Instruction:
    """``symbol``: as in source code, such as ``+`` or ``+=``."""
    return make("BINARY_OP", BINARY_OPS.index(symbol))


# -- the stack -------------------------------------------------------------------------------------------------


def pop_top() -> Instruction:
    return make("POP_TOP")


def swap(depth: int = 2) -> Instruction:
    """Exchange the top with the value at ``depth``."""
    return make("SWAP", depth)


def push_null() -> Instruction:
    return make("PUSH_NULL")


# -- calls -----------------------------------------------------------------------------------------------------


def call(count: int, kwnames: Sequence[str] = ()) -> list[Instruction]:
    """A call with NULL, the function and ``count`` arguments on the stack. The last arguments are the keywords
    ``kwnames``."""
    before = [make("KW_NAMES", tuple(kwnames))] if kwnames else []
    if HAS_PRECALL:
        before.append(make("PRECALL", count))
    return [*before, make("CALL", count)]


def call_function(function: object, args: Sequence[Sequence[Instruction]] = ()) -> list[Instruction]:
    """Call a constant. Each of ``args`` pushes one value."""
    return [push_null(), load_const(function), *itertools.chain.from_iterable(args), *call(len(args))]


# -- control ---------------------------------------------------------------------------------------------------


def jump(target: Instruction) -> Instruction:
    """Jump in either direction: `assemble` chooses the opcode."""
    return make("JUMP_FORWARD", target=target)


def jump_if_true(target: Instruction) -> Instruction:
    """Pop the top, any object, and jump if it is true."""
    return make(f"{POP_JUMP}TRUE", target=target)


def jump_if_false(target: Instruction) -> Instruction:
    return make(f"{POP_JUMP}FALSE", target=target)


def jump_if_not_none(target: Instruction) -> Instruction:
    return make(f"{POP_JUMP}NOT_NONE", target=target)


def return_value() -> Instruction:
    return make("RETURN_VALUE")


def prologue(free: int) -> list[Instruction]:
    """The first instructions of a code object with ``free`` free variables and no cells of its own."""
    return [*([make("COPY_FREE_VARS", free)] if free else []), make("RESUME", 0)]
