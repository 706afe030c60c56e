"""What handlers of signals raise: it may come anywhere, and says nothing of the code that it comes into."""

from __future__ import annotations

import functools
import signal
import types
from typing import Any


def let_through(error: BaseException) -> None:
    """Raise an error again that a signal's handler has raised, as eager code would."""
    if comes_of_signal(error):
        raise error


def comes_of_signal(error: BaseException) -> bool:
    """Whether a handler raised it, or something that the handler called."""
    handlers = filter(callable, map(signal.getsignal, signal.valid_signals()))
    codes = {id(code) for code in map(_code_of, handlers) if code is not None}
    at = error.__traceback__
    while at is not None:
        if id(at.tb_frame.f_code) in codes:
            return True
        at = at.tb_next
    return False


def _code_of(handler: Any) -> types.CodeType | None:
    """Where it is written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    found = handler if hasattr(handler, "__code__") else getattr(handler, "__func__", type(handler).__call__)
    return getattr(found, "__code__", None)
