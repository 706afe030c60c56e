"""Instructions by what they do, whatever the version calls them."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from typing import Any

from .instructions import HAVE_ARGUMENT, PY312, Instruction

_HAS_ARGVAL = frozenset(dis.hasconst) | frozenset(dis.hasname) | frozenset(dis.haslocal) | frozenset(dis.hasfree)
_KW = dis.opmap["KW_NAMES"]


def make(
    opname: str,
    argval: Any = None,
    *,
    target: Instruction | None = None,
    flag: bool = False,
    like: Instruction | None = None,
) -> Instruction:
    """One instruction. ``argval``: the constant or name it takes, or its number."""
    opcode = dis.opmap[opname]
    made = Instruction(opcode, opname, target=target, flag=flag)
    if opcode >= HAVE_ARGUMENT:
        if opcode in _HAS_ARGVAL or opcode == _KW:
            made.argval = argval
            made.arg = 0
        else:
            made.arg = made.argval = argval
    if like is not None:
        made.positions = like.positions
    return made


def copy_of(instruction: Instruction) -> Instruction:
    """The same instruction, to be placed elsewhere."""
    made = Instruction(
        instruction.opcode,
        instruction.opname,
        instruction.arg,
        instruction.argval,
        instruction.target,
        instruction.flag,
        positions=instruction.positions,
        handler=instruction.handler,
    )
    made.flag2 = instruction.flag2
    return made


def load_const(value: Any) -> Instruction:
    return make("LOAD_CONST", value)


def load_fast(name: str) -> Instruction:
    return make("LOAD_FAST", name)


def store_fast(name: str) -> Instruction:
    return make("STORE_FAST", name)


def delete_fast(name: str) -> Instruction:
    return make("DELETE_FAST", name)


def load_global(name: str) -> Instruction:
    return make("LOAD_GLOBAL", name)


def store_global(name: str) -> Instruction:
    return make("STORE_GLOBAL", name)


def load_attr(name: str) -> Instruction:
    return make("LOAD_ATTR", name)


def store_attr(name: str) -> Instruction:
    return make("STORE_ATTR", name)


def load_deref(name: str) -> Instruction:
    return make("LOAD_DEREF", name)


def store_deref(name: str) -> Instruction:
    return make("STORE_DEREF", name)


def load_closure(name: str) -> Instruction:
    """The cell itself."""
    return make("LOAD_CLOSURE", name)


def load_subscr() -> Instruction:
    return make("BINARY_SUBSCR")


def store_subscr() -> Instruction:
    return make("STORE_SUBSCR")


def delete_subscr() -> Instruction:
    return make("DELETE_SUBSCR")


def build(kind: str, count: int) -> Instruction:
    """``kind``: TUPLE, LIST, SET or MAP."""
    return make(f"BUILD_{kind}", count)


def pop_top() -> Instruction:
    return make("POP_TOP")


def copy_top(depth: int = 1) -> Instruction:
    return make("COPY", depth)


def swap(depth: int = 2) -> Instruction:
    return make("SWAP", depth)


def push_null() -> Instruction:
    return make("PUSH_NULL")


def unpack(count: int) -> Instruction:
    return make("UNPACK_SEQUENCE", count)


def jump(target: Instruction) -> Instruction:
    return make("JUMP_FORWARD", target=target)


def return_value() -> Instruction:
    return make("RETURN_VALUE")


def call(count: int, names: Sequence[str] = ()) -> list[Instruction]:
    """Call with NULL, the function and ``count`` arguments on the stack, the last of them keywords ``names``."""
    found = [make("KW_NAMES", tuple(names))] if names else []
    if not PY312:
        found.append(make("PRECALL", count))
    return [*found, make("CALL", count)]


def call_function(
    function: Sequence[Instruction], args: Sequence[Sequence[Instruction]], names: Sequence[str] = ()
) -> list[Instruction]:
    """A whole call."""
    loads = [each for arg in args for each in arg]
    return [push_null(), *function, *loads, *call(len(args), names)]


def prologue(cellvars: Sequence[str], free: int) -> list[Instruction]:
    """What a code object begins with."""
    found = [make("COPY_FREE_VARS", free)] if free else []
    found.extend(make("MAKE_CELL", name) for name in cellvars)
    return [*found, make("RESUME", 0)]
