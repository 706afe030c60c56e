"""User code that may run at any time during a translation: signal handlers, and finalizers of collected garbage; and
exceptions that other threads set (``PyThreadState_SetAsyncExc``)."""

from __future__ import annotations

import contextlib
import functools
import signal
import types
from collections.abc import Iterator

from dynamo_lite import _C
from dynamo_lite.bytecode import roles


def reraise_if_asynchronous(error: BaseException) -> None:
    """Re-raise an exception that a signal handler raised or another thread set, as eager code would; also where a
    library has wrapped it in an exception of its own."""
    found: BaseException | None = error
    while found is not None:
        if is_asynchronous(found):
            raise found
        found = found.__cause__


def is_asynchronous(error: BaseException) -> bool:
    """Whether an exception was raised in a signal handler, in a function that it called, or by another thread."""
    innermost = error.__traceback__
    if innermost is None:
        return False
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    return _is_from_signal_handler(error) or _is_from_another_thread(error, innermost)


def _is_from_signal_handler(error: BaseException) -> bool:
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


def _is_from_another_thread(error: BaseException, innermost: types.TracebackType) -> bool:
    """Whether no instruction has raised an exception. CPython makes one that another thread set from its class, without
    arguments, where a function begins, a loop goes on, or a call has returned."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):  # which C functions raise without arguments
        return False
    code, offset = innermost.tb_frame.f_code, innermost.tb_lasti
    if roles.raises_nothing(code, offset):
        return True
    had_none = not error.args or str(error.args[0]).startswith(_ADDED_BY_FX)
    return not roles.sets_error(code, offset) and (had_none or _may_set_arguments(type(error)))


def _may_set_arguments(cls: type[BaseException]) -> bool:
    """Whether an exception that is created without arguments may have some: its class has an ``__init__`` in Python
    that can be called without any."""
    init = getattr(cls, "__init__", None)
    if not isinstance(init, types.FunctionType):
        return False
    required = init.__code__.co_argcount - len(init.__defaults__ or ())
    return required <= 1 and init.__code__.co_kwonlyargcount <= len(init.__kwdefaults__ or ())


_ADDED_BY_FX = "While executing "
"""What `torch.fx.Interpreter` makes the argument of an exception that has none."""


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turn the garbage collector off. Finalizers of the user's garbage that run during a translation would see fake
    tensors."""
    _C.hold_collector()
    try:
        yield
    finally:
        _C.release_collector()


@contextlib.contextmanager
def with_garbage_collection() -> Iterator[None]:
    """Turn garbage collection on again inside of `without_garbage_collection`: a backend leaves much garbage.

    Only what the backend creates is looked at. To go through the program and the record of the translation as well
    would take a tenth of a first call.
    """
    _C.freeze_objects()
    _C.release_collector()
    try:
        yield
    finally:
        _C.hold_collector()
        _C.unfreeze_objects()


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """A block that imports modules. What they create stays, so the garbage collector doesn't go through it: neither in
    the block, nor at once after it, for it is in the oldest generation then."""
    with without_garbage_collection():
        yield
        _C.freeze_objects()
        _C.unfreeze_objects()
