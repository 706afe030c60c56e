"""Binding a call's arguments to a function's parameters, with CPython's own errors."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import NoReturn

from dynamo_lite.exc import InternalError
from dynamo_lite.records.code_origin import is_polyfill
from dynamo_lite.variables.core.base import Args, Kwargs, refuse_arguments
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable

from .function import PythonFunctionVariable


def bind_arguments(tx: Translator, function: PythonFunctionVariable, args: Args, kwargs: Kwargs) -> Kwargs:
    """The initial locals of a call of ``function``. Raises TypeError in the traced program if they don't fit."""
    code = function.code
    names, positional = code.co_varnames, code.co_argcount
    total = positional + code.co_kwonlyargcount
    bound: Kwargs = dict(zip(names[:positional], args))
    extra: Kwargs = {}
    keywords = names[code.co_posonlyargcount : total]
    is_unfit = len(args) > positional and not code.co_flags & CO_VARARGS
    for name, value in kwargs.items():
        is_keyword = name in keywords
        is_unfit = is_unfit or (name in bound if is_keyword else not code.co_flags & CO_VARKEYWORDS)
        (bound if is_keyword else extra)[name] = value
    if is_unfit:
        _raise_type_error(tx, function, args, kwargs)
    if len(bound) < total:
        _bind_defaults(tx, function, bound)
    if len(bound) < total:
        _raise_type_error(tx, function, args, kwargs)
    if code.co_flags & CO_VARARGS:
        bound[names[total]] = TupleVariable(list(args[positional:]))
    if code.co_flags & CO_VARKEYWORDS:
        bound[names[total + bool(code.co_flags & CO_VARARGS)]] = DictVariable(extra)
    return bound


def _bind_defaults(tx: Translator, function: PythonFunctionVariable, bound: Kwargs) -> None:
    """Reads the defaults (which guards them) only if the call leaves out an argument."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    if any(name not in bound for name in positional):
        for name, value in zip(reversed(positional), reversed(function.defaults(tx))):
            bound.setdefault(name, value)
    if any(name not in bound for name in keyword_only):
        for name, value in function.keyword_defaults(tx).items():
            bound.setdefault(name, value)


def _raise_type_error(tx: Translator, function: PythonFunctionVariable, args: Args, kwargs: Kwargs) -> NoReturn:
    """Raise what CPython raises for these arguments, by calling an empty function of the same signature."""
    code = function.code
    if is_polyfill(code):  # the message would name the polyfill's parameters, not the builtin's
        refuse_arguments(function.name)
    flags = code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + flags.bit_count()
    empty = _EMPTY.replace(
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_varnames=code.co_varnames[:count],
        co_nlocals=count,
        co_flags=_EMPTY.co_flags | flags,
    )
    unfit = FunctionType(empty, {}, code.co_name, (None,) * len(function.defaults(tx)))
    unfit.__kwdefaults__ = dict.fromkeys(function.keyword_defaults(tx))
    unfit.__qualname__ = function.name
    tx.fold(unfit, [None] * len(args), dict.fromkeys(kwargs))
    raise InternalError(f"{function.name}() takes the arguments that were found not to fit")


_EMPTY = (lambda: None).__code__
