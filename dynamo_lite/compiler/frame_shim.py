"""A Python function in the place of a callable that has no frame to translate."""

from __future__ import annotations

import functools
import types
from typing import Any

from dynamo_lite.records.code_origin import is_left_to_its_caller


def framed(fn: Any) -> Any:
    """What is compiled when ``fn`` is: itself, or a function that calls it, if it is written in C or a library's that
    is not compiled by itself (``torch.sin``, ``flex_attention``, what ``torch.vmap`` returns, a ``partial``)."""
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, types.FunctionType):
        function = type(fn).__call__
    if isinstance(function, types.FunctionType) and not is_left_to_its_caller(function.__code__):
        return fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    call.__name__ = getattr(fn, "__name__", type(fn).__name__)
    call.__qualname__ = getattr(fn, "__qualname__", call.__name__)
    # Code of its own: entries, and their limits, hang on that.
    call.__code__ = call.__code__.replace(co_name=call.__name__, co_qualname=call.__qualname__)
    return call
