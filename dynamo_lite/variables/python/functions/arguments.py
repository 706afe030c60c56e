"""Binding a call's arguments to a function's parameters, with the errors that CPython's ``ceval.c`` raises."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType
from typing import NoReturn, Protocol

from dynamo_lite.records.code_origin import is_polyfill
from dynamo_lite.variables.core.base import Args, Kwargs, refuse_arguments
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable


class TracedFunction(Protocol):
    """A Python function that can be inlined: pre-existing, or created during tracing."""

    @property
    def code(self) -> CodeType: ...

    @property
    def name(self) -> str:
        """Its ``__qualname__``."""
        ...

    def defaults(self, tx: Translator) -> Args: ...

    def keyword_defaults(self, tx: Translator) -> Kwargs: ...


def _raise_type_error(tx: Translator, function: TracedFunction, message: str) -> NoReturn:
    if is_polyfill(function.code):  # the message would name the polyfill's parameters, not the builtin's
        refuse_arguments(function.name)
    tx.raise_error(TypeError, f"{function.name}() {message}")


def bind_arguments(tx: Translator, function: TracedFunction, args: Args, kwargs: Kwargs) -> Kwargs:
    """The initial locals of a call of ``function``. Raises TypeError in the traced program if they don't fit."""
    code = function.code
    names = code.co_varnames
    positional = code.co_argcount
    total = positional + code.co_kwonlyargcount
    bound: Kwargs = dict(zip(names[:positional], args))
    if code.co_flags & CO_VARARGS:
        bound[names[total]] = TupleVariable(list(args[positional:]))
    extra: Kwargs = {}
    if kwargs:
        _bind_keywords(tx, function, total, kwargs, bound, extra)
    if len(args) > positional and not code.co_flags & CO_VARARGS:
        _raise_too_many(tx, function, len(args), sum(name in kwargs for name in names[positional:total]))
    if code.co_flags & CO_VARKEYWORDS:
        bound[names[total + bool(code.co_flags & CO_VARARGS)]] = DictVariable(dict(extra))
    _bind_defaults(tx, function, bound)
    return bound


def _bind_keywords(
    tx: Translator, function: TracedFunction, total: int, kwargs: Kwargs, bound: Kwargs, extra: Kwargs
) -> None:
    """``extra`` receives what ``**kwargs`` collects."""
    code = function.code
    names = code.co_varnames
    keywords = names[code.co_posonlyargcount : total]
    for name, value in kwargs.items():
        if name in keywords:
            if name in bound:
                _raise_type_error(tx, function, f"got multiple values for argument '{name}'")
            bound[name] = value
        elif code.co_flags & CO_VARKEYWORDS:
            extra[name] = value
        else:
            positional_only = [each for each in names[: code.co_posonlyargcount] if each in kwargs]
            if positional_only:
                what = f"some positional-only arguments passed as keyword arguments: '{', '.join(positional_only)}'"
                _raise_type_error(tx, function, f"got {what}")
            _raise_type_error(tx, function, f"got an unexpected keyword argument '{name}'")


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _raise_too_many(tx: Translator, function: TracedFunction, given: int, keyword_only: int) -> NoReturn:
    wanted = function.code.co_argcount
    optional = len(function.defaults(tx))
    expected = f"from {wanted - optional} to {wanted}" if optional else str(wanted)
    also = ""
    if keyword_only:
        also = f" positional argument{_plural(given)} (and {keyword_only} keyword-only argument{_plural(keyword_only)})"
    plural = "s" if optional else _plural(wanted)
    verb = "was" if given == 1 and not keyword_only else "were"
    message = f"takes {expected} positional argument{plural} but {given}{also} {verb} given"
    _raise_type_error(tx, function, message)


def _bind_defaults(tx: Translator, function: TracedFunction, bound: Kwargs) -> None:
    """Reads the defaults (which guards them) only if the call leaves out an argument."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    if any(name not in bound for name in positional):
        for name, value in zip(reversed(positional), reversed(function.defaults(tx))):
            bound.setdefault(name, value)
        _check_none_missing(tx, function, positional, bound, "positional")
    if any(name not in bound for name in keyword_only):
        for name, value in function.keyword_defaults(tx).items():
            bound.setdefault(name, value)
        _check_none_missing(tx, function, keyword_only, bound, "keyword-only")


def _check_none_missing(
    tx: Translator, function: TracedFunction, names: Sequence[str], bound: Kwargs, kind: str
) -> None:
    quoted = [f"'{name}'" for name in names if name not in bound]
    if not quoted:
        return
    listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}{',' * (len(quoted) > 2)} and {quoted[-1]}"
    _raise_type_error(tx, function, f"missing {len(quoted)} required {kind} argument{_plural(len(quoted))}: {listed}")
