"""Binding a call's arguments to a function's parameters, with the errors that CPython's ``ceval.c`` raises."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any, NoReturn

from dynamo_lite.records.code_origin import is_polyfill
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, refuse_arguments
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable


def _refuse(tx: Translator, function: Any, message: str) -> NoReturn:
    if is_polyfill(function.code):  # CPython says it of what this stands for
        refuse_arguments(function.name)
    tx.raise_error(TypeError, message)


def bind_arguments(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> dict[str, VariableTracker]:
    """Arguments to parameters, as a call of ``function`` does. Raises the program's TypeError."""
    code = function.code
    names = code.co_varnames
    positional = code.co_argcount
    total = positional + code.co_kwonlyargcount
    bound: dict[str, VariableTracker] = dict(zip(names[:positional], args))
    if code.co_flags & CO_VARARGS:
        bound[names[total]] = TupleVariable(list(args[positional:]))
    extra: dict[str, VariableTracker] = {}
    if kwargs:
        _bind_keywords(tx, function, total, kwargs, bound, extra)
    if len(args) > positional and not code.co_flags & CO_VARARGS:
        _too_many(tx, function, len(args), sum(name in kwargs for name in names[positional:total]))
    if code.co_flags & CO_VARKEYWORDS:
        made = DictVariable({})
        made.items.update(extra)
        bound[names[total + bool(code.co_flags & CO_VARARGS)]] = made
    _bind_defaults(tx, function, names, positional, total, bound)
    return bound


def _bind_keywords(tx: Translator, function: Any, total: int, kwargs: Kwargs, bound: Kwargs, extra: Kwargs) -> None:
    code = function.code
    names = code.co_varnames
    keywords = names[code.co_posonlyargcount : total]
    for name, value in kwargs.items():
        if name in keywords:
            if name in bound:
                _refuse(tx, function, f"{function.name}() got multiple values for argument '{name}'")
            bound[name] = value
        elif code.co_flags & CO_VARKEYWORDS:
            extra[name] = value
        else:
            wrong = [each for each in names[: code.co_posonlyargcount] if each in kwargs]
            if wrong:
                what = "some positional-only arguments passed as keyword arguments"
                _refuse(tx, function, f"{function.name}() got {what}: '{', '.join(wrong)}'")
            _refuse(tx, function, f"{function.name}() got an unexpected keyword argument '{name}'")


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _too_many(tx: Translator, function: Any, given: int, keyword_only: int) -> None:
    wanted = function.code.co_argcount
    optional = len(function.defaults(tx))
    takes = f"from {wanted - optional} to {wanted}" if optional else str(wanted)
    also = ""
    if keyword_only:
        also = f" positional argument{_plural(given)} (and {keyword_only} keyword-only argument{_plural(keyword_only)})"
    plural = "s" if optional else _plural(wanted)
    verb = "was" if given == 1 and not keyword_only else "were"
    what = f"takes {takes} positional argument{plural} but {given}{also} {verb} given"
    _refuse(tx, function, f"{function.name}() {what}")


def _bind_defaults(tx: Translator, function: Any, names: Any, positional: int, total: int, bound: Kwargs) -> None:
    missing = [name for name in names[:positional] if name not in bound]
    if missing:
        defaults = function.defaults(tx)
        for name, value in zip(reversed(names[:positional]), reversed(defaults)):
            bound.setdefault(name, value)
        _check_none_missing(tx, function, missing, bound, "positional")
    missing = [name for name in names[positional:total] if name not in bound]
    if missing:
        for name, value in function.keyword_defaults(tx).items():
            bound.setdefault(name, value)
        _check_none_missing(tx, function, missing, bound, "keyword-only")


def _check_none_missing(tx: Translator, function: Any, names: list[str], bound: Kwargs, kind: str) -> None:
    quoted = [f"'{name}'" for name in names if name not in bound]
    if not quoted:
        return
    listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}{',' * (len(quoted) > 2)} and {quoted[-1]}"
    what = f"missing {len(quoted)} required {kind} argument{_plural(len(quoted))}: {listed}"
    _refuse(tx, function, f"{function.name}() {what}")
