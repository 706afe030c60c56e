"""Where handlers of opcodes register: ``HANDLERS`` by name, ``REFUSED`` with the reason."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from dynamo_lite.bytecode.instructions import EXCEPT_STAR

Handler = Callable[[Any, Any], None]
HANDLERS: dict[str, Handler] = {}
REFUSED: dict[str, str] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of these opcodes: ``handler(tx, instruction)``."""

    def register(fn: Handler) -> Handler:
        for name in names:
            assert name not in HANDLERS, name
            HANDLERS[name] = fn
        return fn

    return register


def refuse(why: str, *names: str) -> None:
    """These opcodes break the graph, for this reason."""
    for name in names:
        REFUSED[name] = why


refuse("it is part of the encoding and gone after decoding", "CACHE", "EXTENDED_ARG", "RESERVED")
refuse(
    "an instrumented form is never seen: code is decoded as it was compiled",
    *(name for name in dis.opmap if name.startswith("INSTRUMENTED_")),
)
refuse(
    "it exists in the compiler alone",
    *(name for name, number in dis.opmap.items() if number > 255 and name != "LOAD_METHOD"),
)
refuse("coroutines are left to CPython", "BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE")
refuse("coroutines are left to CPython", "END_ASYNC_FOR", "ASYNC_GEN_WRAP", "INTERPRETER_EXIT")
refuse("it belongs to modules", "IMPORT_STAR", "PRINT_EXPR")
refuse("`except*` runs in CPython", *EXCEPT_STAR)
refuse("it belongs to `except*` and type parameters, which run in CPython", "CALL_INTRINSIC_2")
refuse(
    "it belongs to class bodies and modules, which run once",
    *("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS"),
    *("LOAD_CLASSDEREF", "LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"),
)
