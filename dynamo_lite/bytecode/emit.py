"""Constructors of instructions by what they do, independent of the CPython version."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from .instructions import (
    BINARY_OPS,
    CALLABLE_FIRST,
    FREE_COUNT,
    HAS_PRECALL,
    KIND,
    NUMBER,
    OPMAP,
    POP_JUMP,
    BytecodeError,
    Instruction,
)


def make(opname: str, argval: Any = None, *, target: Instruction | None = None) -> Instruction:
    """Create an instruction. ``argval``: its constant, name, comparison symbol or number.

    Raises:
        BytecodeError: this version of CPython has no such opcode.
    """
    opcode = OPMAP.get(opname)
    if opcode is None:
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


def load_attr(name: str) -> Instruction:
    return make("LOAD_ATTR", name)


def store_attr(name: str) -> Instruction:
    return make("STORE_ATTR", name)


def delete_attr(name: str) -> Instruction:
    return make("DELETE_ATTR", name)


def load_closure(name: str) -> Instruction:
    """Push a cell itself."""
    return make("LOAD_CLOSURE", name)


def build(kind: str, count: int) -> Instruction:
    """``kind``: of what is built from so many values, such as ``TUPLE``, ``STRING`` or ``SLICE``."""
    return make(f"BUILD_{kind}", count)


def extend_list() -> Instruction:
    """Pop an iterable, and extend the list below it."""
    return make("LIST_EXTEND", 1)


def unpack(count: int) -> Instruction:
    """Replace a sequence by its items, the first on top."""
    return make("UNPACK_SEQUENCE", count)


# -- operators -------------------------------------------------------------------------------------------------


def binary_op(symbol: str) -> Instruction:
    """``symbol``: as in source code, such as ``+`` or ``+=``."""
    return make("BINARY_OP", BINARY_OPS.index(symbol))


def compare(symbol: str) -> Instruction:
    return make("COMPARE_OP", symbol)


def subscript() -> Instruction:
    """Replace a container and a key by the item."""
    return make("BINARY_SUBSCR")


def store_subscript() -> Instruction:
    """Pop a value, a container and a key, the key on top."""
    return make("STORE_SUBSCR")


def truth() -> list[Instruction]:
    """Replace the top by True or False."""
    return [make("UNARY_NOT"), make("UNARY_NOT")]


def is_sequence() -> Instruction:
    """Push whether the top, which stays, is a sequence for ``match``."""
    return make("MATCH_SEQUENCE")


def length() -> Instruction:
    """Push the length of the top, which stays."""
    return make("GET_LEN")


# -- the stack -------------------------------------------------------------------------------------------------


def pop_top() -> Instruction:
    return make("POP_TOP")


def copy_top() -> Instruction:
    return make("COPY", 1)


def swap(depth: int = 2) -> Instruction:
    """Exchange the top with the value at ``depth``."""
    return make("SWAP", depth)


def push_null() -> Instruction:
    return make("PUSH_NULL")


# -- calls -----------------------------------------------------------------------------------------------------


def call(count: int, kwnames: Sequence[str] = ()) -> list[Instruction]:
    """A call with a callable (`callee`) and ``count`` arguments on the stack. The last arguments are the keywords
    ``kwnames``."""
    before = [make("KW_NAMES", tuple(kwnames))] if kwnames else []
    if HAS_PRECALL:
        before.append(make("PRECALL", count))
    return [*before, make("CALL", count)]


def callee(load: Iterable[Instruction]) -> list[Instruction]:
    """Push a callable for `call`, and the NULL beside it. ``load``: pushes the callable."""
    return [*load, push_null()] if CALLABLE_FIRST else [push_null(), *load]


def top_as_callee() -> list[Instruction]:
    """Make the top of the stack a callable for `call`."""
    return [push_null()] if CALLABLE_FIRST else [push_null(), swap()]


def call_with_tuple() -> Instruction:
    """A call with a callable (`callee`) and a tuple of its arguments on the stack."""
    return make("CALL_FUNCTION_EX", 0)


def call_function(function: object, args: Sequence[Sequence[Instruction]] = ()) -> list[Instruction]:
    """Call a constant. Each of ``args`` pushes one value."""
    return [*callee([load_const(function)]), *itertools.chain.from_iterable(args), *call(len(args))]


def enter_with(load_exit: object) -> list[Instruction]:
    """For CPython 3.14: enter the context manager on top of the stack, and leave its bound ``__exit__``, a NULL and the
    result of ``__enter__``. ``load_exit``: a function that returns the first of these."""
    return [
        *(copy_top(), make("LOAD_SPECIAL", 1), pop_top(), pop_top()),  # it raises where there is none
        *(*callee([load_const(load_exit)]), make("COPY", 3), *call(1)),
        *(push_null(), swap(), swap(3), make("LOAD_SPECIAL", 0), *call(0)),
    ]


def iterator() -> list[Instruction]:
    """Replace the top of the stack by an iterator over it. (GET_ITER of 3.15 leaves lists, and indices beside them.)"""
    return [*callee([load_const(iter)]), make("COPY", 3), *call(1), swap(), pop_top()]


def without_null(instruction: Instruction) -> Instruction:
    """For an instruction that pushes a method or a global, and a NULL: one that pushes the value alone."""
    name = "LOAD_ATTR" if instruction.opname == "LOAD_METHOD" else instruction.opname
    plain = make(name, instruction.argval)
    plain.flag2 = instruction.flag2
    return plain


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


def landing() -> Instruction:
    """Does nothing: something to jump to."""
    return make("NOP")


def end_of_loop() -> Instruction:
    """What a loop jumps to that has ended, for versions of CPython that have such an opcode."""
    return make("END_FOR")


def return_value() -> Instruction:
    return make("RETURN_VALUE")


def return_generator() -> list[Instruction]:
    """Create the generator of this frame and return it. When it is started, it goes on here."""
    return [make("RETURN_GENERATOR"), pop_top()]


# -- exceptions ------------------------------------------------------------------------------------------------


def raise_top() -> Instruction:
    """Raise the exception on top of the stack."""
    return make("RAISE_VARARGS", 1)


def reraise() -> Instruction:
    """Raise the exception on top of the stack with the traceback that it has."""
    return make("RERAISE", 0)


def push_handled() -> Instruction:
    """Make the exception on top of the stack the handled one, and push the one that was handled before below it."""
    return make("PUSH_EXC_INFO")


def pop_handled() -> Instruction:
    """Pop the exception that was handled before, and make it the handled one."""
    return make("POP_EXCEPT")


# -- beginnings ------------------------------------------------------------------------------------------------


def prologue(free: int) -> list[Instruction]:
    """The first instructions of a code object with ``free`` free variables and no cells of its own."""
    return [*([make("COPY_FREE_VARS", free)] if free else []), make("RESUME", 0)]
