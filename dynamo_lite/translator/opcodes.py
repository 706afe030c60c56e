"""The registry of opcode handlers: ``HANDLERS`` by opcode name, and ``REFUSED``, the opcodes that break the graph."""

from __future__ import annotations

import dis
from collections.abc import Callable

from dynamo_lite.bytecode import Instruction
from dynamo_lite.bytecode.instructions import EXCEPT_STAR, OPMAP

from .stack_machine import StackMachine

Handler = Callable[[StackMachine, Instruction], None]
HANDLERS: dict[str, Handler] = {}
REFUSED: dict[str, str] = {}
"""Opcode name -> why it is not traced."""


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register ``handler(tx, instruction)`` for these opcodes."""

    def register(fn: Handler) -> Handler:
        for name in names:
            assert name not in HANDLERS, name
            HANDLERS[name] = fn
        return fn

    return register


def refuse(why: str, *names: str) -> None:
    """Let these opcodes break the graph, for this reason."""
    for name in names:
        REFUSED[name] = why


refuse("it belongs to the encoding, and decoding removes it", "CACHE", "EXTENDED_ARG", "RESERVED")
refuse("only the interpreter's own code has it", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "TRACE_RECORD")
refuse(
    "decoding translates it to instructions of older versions",
    *("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "CALL_KW", "SET_FUNCTION_ATTRIBUTE"),
    *("LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_SMALL_INT", "LOAD_COMMON_CONSTANT"),
    *("LOAD_SPECIAL", "POP_ITER", "NOT_TAKEN"),
)
refuse(
    "code is decoded in its original, not in its instrumented form",
    *(name for name in dis.opmap if name.startswith("INSTRUMENTED_")),
)
refuse(
    "it is a pseudo-instruction of CPython's compiler",
    *(name for name, number in dis.opmap.items() if number > 255 and name != "LOAD_METHOD" and name not in OPMAP),
)
refuse("coroutines run in CPython", "BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE")
refuse("coroutines run in CPython", "END_ASYNC_FOR", "ASYNC_GEN_WRAP", "INTERPRETER_EXIT")
refuse("`throw()` and `close()` in a `yield from` run in CPython", "CLEANUP_THROW")
refuse("it occurs in modules and interactive code only", "IMPORT_STAR", "PRINT_EXPR")
refuse("t-strings are made in CPython", "BUILD_INTERPOLATION", "BUILD_TEMPLATE")
refuse("`except*` runs in CPython", *EXCEPT_STAR)
refuse("it belongs to `except*` and type parameters, which run in CPython", "CALL_INTRINSIC_2")
refuse(
    "it occurs in class bodies and modules, which run once",
    *("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS"),
    *("LOAD_CLASSDEREF", "LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"),
)
