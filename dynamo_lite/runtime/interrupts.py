"""User code that may run at any time during a translation: signal handlers, and finalizers of collected garbage."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import threading
import types
from collections.abc import Iterator


def reraise_if_from_signal(error: BaseException) -> None:
    """Re-raise an exception that a signal handler raised, as eager code would."""
    if is_from_signal_handler(error):
        raise error


def is_from_signal_handler(error: BaseException) -> bool:
    """Whether an exception was raised in a signal handler or in a function that it called."""
    handlers = filter(callable, map(signal.getsignal, signal.valid_signals()))
    codes = {id(code) for code in map(_code_of, handlers) if code is not None}
    at = error.__traceback__
    while at is not None:
        if id(at.tb_frame.f_code) in codes:
            return True
        at = at.tb_next
    return False


def _code_of(handler: object) -> types.CodeType | None:
    """The code of a handler; None if it isn't written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    found = handler if hasattr(handler, "__code__") else getattr(handler, "__func__", type(handler).__call__)
    return getattr(found, "__code__", None)


_holders: list[int] = []
"""The threads that are in `without_garbage_collection` blocks, once for each."""


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turn the garbage collector off. Finalizers of the user's garbage that run during a translation would see fake
    tensors."""
    if not _holders and not gc.isenabled():  # the user turned it off
        yield
        return
    _holders.append(threading.get_ident())
    gc.disable()
    try:
        yield
    finally:
        _holders.remove(threading.get_ident())
        if not _holders:
            gc.enable()


def _forget_other_threads() -> None:
    """In a forked child: the threads that would turn the collector on again are gone."""
    if not _holders:
        return
    _holders[:] = [each for each in _holders if each == threading.get_ident()]
    if not _holders:
        gc.enable()


os.register_at_fork(after_in_child=_forget_other_threads)
