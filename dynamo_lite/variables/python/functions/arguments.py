"""Binding a call's arguments to a function's parameters."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS

from dynamo_lite.insight.break_reasons import FailsInPython
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, unsupported
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable

from .function import PythonFunctionVariable


def bind_arguments(tx: Translator, function: PythonFunctionVariable, args: Args, kwargs: Kwargs) -> Kwargs:
    """The initial locals of a call of ``function``. Breaks the graph if the arguments don't fit."""
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
    if len(bound) < total and not is_unfit:
        _bind_defaults(tx, function, bound)
    if len(bound) < total or is_unfit:
        unsupported(FailsInPython(f"{function.name}()", "the arguments don't fit its parameters"))
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
