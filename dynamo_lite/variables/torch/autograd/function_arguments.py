"""The arguments that ``Function.apply`` passes on: always positional ones.

With ``setup_context``, torch binds the call to ``forward``'s signature and applies its defaults. Without, keyword
arguments are placed by the names of ``forward``'s parameters, and defaults are left to ``forward``, so that they are no
inputs. Where eager raises a TypeError the graph breaks.
"""

from __future__ import annotations

import functools

import torch

from dynamo_lite.insight.break_reasons import AutogradFunction
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.functions.arguments import bind_arguments
from dynamo_lite.variables.python.functions.function import PythonFunctionVariable


def positional_arguments(
    tx: Translator,
    cls: type[torch.autograd.Function],
    forward: VariableTracker,
    args: Args,
    kwargs: Kwargs,
    has_setup: bool,
) -> Args:
    """The arguments of a call of ``cls.apply`` as positional ones."""
    if not has_setup and not kwargs:
        return args
    if kwargs and not _apply_takes_keywords():
        unsupported(AutogradFunction(cls.__qualname__, "apply takes no keyword arguments in this version of torch"))
    function = _signature_of(tx, forward) if has_setup else forward
    if not isinstance(function, PythonFunctionVariable):
        unsupported(AutogradFunction(cls.__qualname__, f"its forward is {forward.describe()}"))
    return _bound(tx, cls, function, args, kwargs) if has_setup else _placed(cls, function, args, kwargs)


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, value: object) -> object:
        return value


@functools.cache
def _apply_takes_keywords() -> bool:
    """Whether ``Function.apply`` does. That of torch 2.11 doesn't."""
    try:
        _Identity.apply(value=None)
    except TypeError:
        return False
    return True


def _signature_of(tx: Translator, forward: VariableTracker) -> VariableTracker:
    """The function whose signature ``inspect.signature`` gives: the innermost wrapped one."""
    while isinstance(forward, PythonFunctionVariable) and forward.instance_get(tx, "__signature__") is None:
        wrapped = forward.instance_get(tx, "__wrapped__")
        if wrapped is None:
            return forward
        forward = wrapped.realize()
    return forward


def _bound(
    tx: Translator, cls: type[torch.autograd.Function], function: PythonFunctionVariable, args: Args, kwargs: Kwargs
) -> Args:
    code = function.code
    if code.co_kwonlyargcount:
        unsupported(AutogradFunction(cls.__qualname__, "its forward has keyword-only parameters"))
    bound = bind_arguments(tx, function, args, kwargs)
    found = [bound[name] for name in code.co_varnames[: code.co_argcount]]
    for name in bound.keys() - code.co_varnames[: code.co_argcount]:  # `*args` and `**kwargs`
        rest = bound[name]
        if isinstance(rest, TupleVariable):
            found += rest.items
        elif isinstance(rest, DictVariable) and rest.items:
            unsupported(AutogradFunction(cls.__qualname__, "its forward gets other keyword arguments"))
    return [each.realize() for each in found]


def _placed(cls: type[torch.autograd.Function], function: PythonFunctionVariable, args: Args, kwargs: Kwargs) -> Args:
    names = function.code.co_varnames[1 : function.code.co_argcount]  # without ctx
    following = names[len(args) : len(args) + len(kwargs)]
    if set(following) != set(kwargs):
        unsupported(AutogradFunction(cls.__qualname__, "its keyword arguments don't fit the parameters of forward"))
    return [*args, *(kwargs[name] for name in following)]
