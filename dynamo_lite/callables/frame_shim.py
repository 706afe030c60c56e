"""Wraps a callable that has no Python frame (a builtin, a `functools.partial`) in a function that has one. Also checks
which functions can be imported by their names."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from dynamo_lite.records.code_origin import is_compiled_with_caller


def framed(fn: Any) -> Any:
    """The callable to compile for ``fn``: itself; or a function that calls it, if it is written in C or belongs to a
    library whose functions are only compiled with their callers (``torch.sin``, ``flex_attention``, a result of
    ``torch.vmap``, a ``partial``)."""
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, types.FunctionType):
        function = type(fn).__call__
    if isinstance(function, types.FunctionType) and not is_compiled_with_caller(function.__code__):
        return fn

    def call(*args: object, **kwargs: object) -> object:
        return fn(*args, **kwargs)

    functools.update_wrapper(call, fn)
    call.__name__ = getattr(fn, "__name__", type(fn).__name__)
    call.__qualname__ = getattr(fn, "__qualname__", call.__name__)
    # Entries, and their limits, belong to a code object: each wrapper has its own.
    call.__code__ = call.__code__.replace(co_name=call.__name__, co_qualname=call.__qualname__)
    return call


def unframed(fn: Any) -> Any:
    """What `framed` was given."""
    is_shim = isinstance(fn, types.FunctionType) and fn.__code__.co_filename == framed.__code__.co_filename
    return fn.__wrapped__ if is_shim else fn


def is_global(fn: object) -> bool:
    """Whether it is a function that its module has under its qualified name. Such a function is pickled by name, and is
    normally not deallocated."""
    if not isinstance(fn, types.FunctionType):
        return False
    found: object = sys.modules.get(fn.__module__)
    for name in fn.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is fn
