"""What of the program's may run anywhere: handlers of signals, and finalizers when garbage is collected."""

from __future__ import annotations

import contextlib
import functools
import gc
import signal
import types
from collections.abc import Iterator
from typing import Any


def reraise_if_from_signal(error: BaseException) -> None:
    """Raise an error again that a signal's handler has raised, as eager code would."""
    if is_from_signal_handler(error):
        raise error


def is_from_signal_handler(error: BaseException) -> bool:
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


class _Holders:
    """Who keeps the collector out."""

    count = 0


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Finalizers of the program's garbage wait: here they would find fakes in the place of tensors."""
    if not _Holders.count and not gc.isenabled():  # the program's own choice
        yield
        return
    _Holders.count += 1
    gc.disable()
    try:
        yield
    finally:
        _Holders.count -= 1
        if not _Holders.count:
            gc.enable()
