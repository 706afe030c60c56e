"""What ``dl.compile(function)`` returns: a callable that torch.compile, `copy` and `pickle` treat as the original."""

from __future__ import annotations

import copy
import copyreg
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, ParamSpec, TypeVar

from dynamo_lite import _C
from dynamo_lite.exc import InternalError

from .frame_shim import framed, is_global, unframed

P = ParamSpec("P")
R = TypeVar("R")


def compiled_function(fn: Callable[..., Any], owner: _C.Owner, recompile: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` compiled for ``owner``. If it is compiled already, its original is. ``recompile`` compiles a copy."""
    if isinstance(fn, staticmethod):
        return staticmethod(compiled_function(fn.__func__, owner, recompile))
    target = fn.__wrapped__ if type(fn) is _C.Wrapped and fn.owner is not _C.OFF else framed(fn)
    made = _C.Wrapped(target, owner)
    inner = unframed(target)
    marks = dict(_torchdynamo_inline=inner, _torchdynamo_orig_callable=inner, _torchdynamo_wrapper_id=id(made))
    made.__dict__ = _Attributes(marks, _dl_recompile=recompile)
    return made


def disabled_function(fn: Callable[P, R]) -> Callable[P, R]:
    """``fn`` run in eager. torch.compile treats it as a result of torch.compiler.disable, or as a function that calls
    such a result."""
    if isinstance(fn, staticmethod):
        return staticmethod(disabled_function(fn.__func__))
    made = _C.Wrapped(fn, _C.OFF)
    made.__dict__ = _Attributes(_DISABLED if isinstance(fn, types.FunctionType) else {"_torchdynamo_inline": _left_out})
    return made


_DISABLED = {"_torchdynamo_disable": True, "_torchdynamo_disable_msg": "dl.disable"}


def _left_out(*args: object, **kwargs: object) -> NoReturn:
    raise InternalError("torch.compile called what it would have inlined")


vars(_left_out).update(_DISABLED)


class _Attributes(dict[str, Any]):
    """The attributes of a compiled function. Iteration skips those that lead torch.compile and `copy` to the
    original function, so that `functools.wraps` doesn't copy them to other functions."""

    def __iter__(self) -> Iterator[str]:
        return (name for name in dict.keys(self) if not name.startswith(("_torchdynamo_", "_dl_")))

    def keys(self) -> Any:
        return dict.fromkeys(self).keys()

    def items(self) -> Any:
        return {name: self[name] for name in self}.items()


def _reduce(compiled: _C.Wrapped) -> str | tuple[Callable[..., Any], tuple[Callable[..., Any]]]:
    """A function that is compiled in place is pickled by name. Otherwise (a bound method, another object, or a function
    whose name refers to the original) the original is pickled, and compiled again when it is loaded."""
    fn = unframed(compiled.__wrapped__)
    is_function = isinstance(fn, types.FunctionType)
    if is_function and not (is_global(fn) and compiled.__qualname__ == fn.__qualname__):
        return compiled.__qualname__
    return _compiler_of(compiled), (fn,)


def _compiler_of(compiled: _C.Wrapped) -> Callable[..., Any]:
    """The function that turns a copy of the original into what ``compiled`` is: compiled alike, or disabled."""
    return disabled_function if compiled.owner is _C.OFF else compiled.__dict__["_dl_recompile"]


def _copied(compiled: _C.Wrapped, memo: dict[int, Any] | None = None) -> Callable[..., Any]:
    """A copy; with ``memo``, a deep one. `copy` returns functions themselves, so compiled ones too."""
    fn = unframed(compiled.__wrapped__)
    if isinstance(fn, types.FunctionType):
        return compiled
    return _compiler_of(compiled)(fn if memo is None else copy.deepcopy(fn, memo))


copyreg.pickle(_C.Wrapped, _reduce)
_C.Wrapped.__copy__ = _copied
_C.Wrapped.__deepcopy__ = _copied
