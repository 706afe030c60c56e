"""Function modes of the program's own, entered inside: what they make of each of torch's functions is inlined.

A mode is not entered for real: it stands in the graph's list of them. Whatever torch would ask it about goes through
`ask_mode`, and an operator that would get into the graph by another way breaks it. Nor does a mode that is on outlive
a break: CPython enters it, and no frame is looked at until it is left.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedContext, UnsupportedOperation
from dynamo_lite.variables.core.attributes import bind
from dynamo_lite.variables.core.base import Args, Kwargs, Spread, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models, provides
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.functions.c_callable import BuiltinVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.functions.torch_function_classes import Asked, instances, probed
from dynamo_lite.variables.torch.functions.torch_functions import is_asking

_FUNCTION = "__torch_function__"


class ModeEntry(VariableTracker):
    """A mode that is on: one of the attempt's contexts, which nothing can make outside of the trace."""

    __slots__ = ("mode",)
    ends_with_graph = False

    def __init__(self, mode: UserObjectVariable) -> None:
        self.source = None
        self.mode = mode

    def python_type(self) -> type:
        return self.mode.python_type()

    def describe(self) -> str:
        return f"the function mode {self.mode.describe()}, which is on"

    def leave(self) -> None:
        """It was not entered for real."""


class Asking(TorchFunctionMode):
    """Learns what torch asks a mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Asked(func, types, tuple(args), kwargs)


@models(torch._C._push_on_torch_function_stack)
def _push(tx: Any, mode: VariableTracker) -> VariableTracker:
    if not isinstance(mode, UserObjectVariable) or tx.graph.bodies:
        unsupported(UnsupportedContext(f"{mode.describe()} (as a function mode)"))
    entry = ModeEntry(mode)
    tx.graph.modes.append(entry)
    tx.attempt.contexts.append(entry)
    tx.attempt.made_at[entry] = tx.attempt.root_step
    return ConstantVariable(None)


@models(torch._C._pop_torch_function_stack)
def _pop(tx: Any) -> VariableTracker:
    """The innermost, if it was entered inside and nothing else since."""
    if not tx.graph.modes or tx.attempt.contexts[-1] is not tx.graph.modes[-1]:
        unsupported(UnsupportedContext("a function mode that is left while others are on"))
    entry = tx.graph.modes.pop()
    tx.attempt.contexts.pop()
    del tx.attempt.made_at[entry]
    return entry.mode  # type: ignore[no-any-return]


@models(torch._C._len_torch_function_stack)
def _length(tx: Any) -> VariableTracker:
    return ConstantVariable(torch._C._len_torch_function_stack() + len(tx.graph.modes))


@models(torch._C._get_function_stack_at)
def _at(tx: Any, index: VariableTracker) -> VariableTracker:
    place = tx.python_value(index) - torch._C._len_torch_function_stack()
    if not 0 <= place < len(tx.graph.modes):
        unsupported(UnknownCall("_get_function_stack_at()", "the mode was entered outside"))
    return tx.graph.modes[place].mode  # type: ignore[no-any-return]


@models(torch._C._is_torch_function_mode_enabled)
def _is_enabled(tx: Any) -> VariableTracker:
    """None that was found: under one of the program's own no frame is looked at, and a device is no matter."""
    return ConstantVariable(bool(tx.graph.modes))


@models(torch._C._is_torch_function_enabled)
def _asks_classes(tx: Any) -> VariableTracker:
    return ConstantVariable(torch._C._is_torch_function_enabled() and not tx.attempt.unasked)


@provides("ask_mode")
def ask_mode(tx: Any, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call ``target``, or the method of that name, as torch does: by the innermost mode, which is off meanwhile."""
    if instances([*args, *kwargs.values()]):
        unsupported(UnsupportedOperation("a function mode", "an instance of a class that torch asks too"))
    return _answer(tx, *probed(tx, target, args, kwargs, Asking()))


def _answer(
    tx: Any, function: VariableTracker, kinds: VariableTracker, given: VariableTracker, named: Args
) -> VariableTracker:
    entry = tx.graph.modes.pop()
    try:
        cls = entry.mode.python_type()
        raw = tx.lookup(cls, _FUNCTION)
        if not isinstance(raw, types.FunctionType):
            unsupported(UnknownCall(f"{cls.__qualname__}.{_FUNCTION}", "it is no plain method"))
        method = bind(tx, raw, _FUNCTION, entry.mode, cls)
        found = tx.call(method, [function, kinds, given, *named], {}).realize()
    finally:
        tx.graph.modes.append(entry)
    if isinstance(found, ConstantVariable) and found.value is NotImplemented:
        unsupported(UnknownCall(f"{cls.__qualname__}.{_FUNCTION}", "it returns NotImplemented"))
    return found  # type: ignore[no-any-return]


@provides("call_by_mode")
def call_by_mode(tx: Any, function: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """A call while a mode is on: what it makes of that; None where torch doesn't ask about the function."""
    value = getattr(function, "value", None)
    if not isinstance(function, (BuiltinVariable, FunctionVariable)) or not is_asking(value):
        return None
    if value in _STATE:
        named = [DictVariable(dict(kwargs))] if kwargs or isinstance(kwargs, Spread) else []
        return _answer(tx, function, TupleVariable([]), TupleVariable(args), named)
    if type(value) is types.FunctionType and not _asks_itself(value):
        return tx.inline(function, args, kwargs)  # type: ignore[no-any-return]
    return ask_mode(tx, value, args, kwargs)


_STATE = (torch._C._set_grad_enabled,)
"""What changes torch's state, and is asked about: it can't be tried."""


def _asks_itself(function: types.FunctionType) -> bool:
    """Whether a function in Python asks for itself, and not for what it calls."""
    return any(name.startswith(("has_torch_function", "_has_torch_function")) for name in function.__code__.co_names)
