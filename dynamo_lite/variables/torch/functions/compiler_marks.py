"""What programs say to a compiler: torch's own marks on functions, and the questions and settings of its front end.

That is not imported here: its functions are known by their names.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import DisabledCall, UserGraphBreak
from dynamo_lite.records.restart import RecordedWhole, Restart
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import Model, models_if
from dynamo_lite.variables.torch.tensors.fake_calls import operator_name

from .torch_functions import call_whole, is_compiling

_DECORATORS = "torch._dynamo.decorators"
_UTILITIES = "torch._dynamo.external_utils"


def _graph_break(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    unsupported(UserGraphBreak(""))


def _answer(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    return is_compiling(tx)


def _setting(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A context that sets something for that front end alone."""
    return tx.call(tx.make(contextlib.nullcontext), [], {})  # type: ignore[no-any-return]


_NAMED: dict[tuple[str, str], Model] = {
    (_DECORATORS, "graph_break"): _graph_break,
    (_DECORATORS, "error_on_graph_break"): _setting,
    (_DECORATORS, "patch_dynamo_config"): _setting,
    (_UTILITIES, "is_compiling"): _answer,
    (_UTILITIES, "is_dynamo_compiling"): _answer,
}


@models_if
def _named(value: Any) -> Model | None:
    return _NAMED.get((value.__module__, value.__name__)) if type(value) is types.FunctionType else None


@models_if
def _under_a_setting(value: Any) -> Model | None:
    """A function that is called inside of such a context, by a decorator."""
    if type(value) is not types.FunctionType or value.__module__ != _UTILITIES:
        return None
    held = dict(zip(value.__code__.co_freevars, value.__closure__ or ()))
    if held.keys() != {"func", "self"} or type(held["self"].cell_contents).__module__ != _DECORATORS:
        return None
    return lambda tx, args, kwargs: tx.call(tx.make(held["func"].cell_contents), args, kwargs)


@models_if
def _notes_new_modules(value: Any) -> Model | None:
    """Once torch.compile has run, ``nn.Module.__init__`` is a function that also puts the module down as new, for it
    alone. A trace calls what there was before."""
    if type(value) is not types.FunctionType or value.__module__ != "torch._dynamo.mutation_guard":
        return None
    if value.__code__.co_freevars not in (("init",), ("setstate",)):
        return None
    (before,) = value.__closure__ or ()
    return lambda tx, args, kwargs: tx.call(tx.make(before.cell_contents), args, kwargs)


@models_if
def _marked(value: Any) -> Model | None:
    """Functions under torch's own marks."""
    if getattr(value, "_torchdynamo_disable", False) is True:

        def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
            unsupported(DisabledCall(operator_name(value)))

        return model
    if type(value) is types.FunctionType and value.__code__ is _SCRIPTED_IF_TRACING:
        return lambda tx, args, kwargs: tx.call(tx.make(value.__original_fn), args, kwargs)
    if type(value) is torch.jit.ScriptFunction and hasattr(value, "_torchdynamo_inline"):
        return lambda tx, args, kwargs: tx.call(tx.make(value._torchdynamo_inline), args, kwargs)
    if type(value) is types.FunctionType and hasattr(value, "__marked_compile_region_fn__"):  # compiled with the rest
        return lambda tx, args, kwargs: tx.call(tx.make(value.__marked_compile_region_fn__), args, kwargs)
    if getattr(value, "_dynamo_marked_constant", False) is True:
        return _constant_result(value)
    return None


@models_if
def _allowed(value: Any) -> Model | None:
    """``torch.compiler.allow_in_graph``'s, which is a permission: what they do is traced, as it tells more (which
    results are the arguments themselves). Those that can't be traced are put into the graph as they are."""
    allowed = getattr(sys.modules.get("torch._dynamo.trace_rules"), "_allowed_callable_ids", ())
    if id(value) not in allowed or isinstance(value, type):
        return None
    whole = call_whole(value)
    return whole if type(value) is not types.FunctionType else functools.partial(_traced_or_whole, value, whole)


def _traced_or_whole(
    function: types.FunctionType, whole: Model, tx: Translator, args: Args, kwargs: Kwargs
) -> VariableTracker:
    known = tx.attempt.restart_facts.whole
    if not known.get(id(function)):
        try:
            return tx.inline(tx.make(function), args, kwargs)  # type: ignore[no-any-return]
        except Unsupported:
            if id(function) in known:
                raise
            raise Restart(RecordedWhole(id(function), True)) from None
    try:
        return whole(tx, args, kwargs)
    except Unsupported:
        raise Restart(RecordedWhole(id(function), False)) from None


_SCRIPTED_IF_TRACING = torch.jit.script_if_tracing(len).__code__


def _constant_result(function: Callable[..., Any]) -> Model:
    """Of a function that is said to give the same result in the whole process: it is called once, while tracing."""

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        named = {name: tx.python_value(item) for name, item in kwargs.items()}
        values = [tx.python_value(arg) for arg in args]
        with unset_fake_temporarily():
            found = tx.fold(function, values, named)
        return tx.make(found)

    return model
