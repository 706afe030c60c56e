"""What programs tell torch.compile: marks on functions, and the functions and settings of ``torch._dynamo``.

``torch._dynamo`` is not imported here: its functions are recognized by module and name.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import DisabledByCompiler, DisabledCall, UnknownCall, UserGraphBreak
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import class_lookup
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import Model, models_if
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.contexts.torch_contexts import ContextVariable
from dynamo_lite.variables.torch.functions.alternatives import in_either_way
from dynamo_lite.variables.torch.tensors.fake_computation import operator_name
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .torch_functions import is_compiling
from .whole_calls import call_whole

_DECORATORS = "torch._dynamo.decorators"
_FRONT_END = "torch._dynamo.eval_frame"
_UTILITIES = "torch._dynamo.external_utils"


def _graph_break(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    unsupported(UserGraphBreak())


def _is_compiling(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    return is_compiling(tx)


def _ignore_setting(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A context manager that changes a setting of ``torch._dynamo``."""
    return tx.call(tx.make(contextlib.nullcontext), [], {})


class ErrorOnBreakVariable(ContextVariable):
    """``torch._dynamo.error_on_graph_break(…)``. Generated code enters a `contextlib.nullcontext` in its place, since
    whether a break raises is decided while tracing."""

    __slots__ = ("errors", "before")

    def __init__(self, errors: bool) -> None:
        super().__init__(contextlib.nullcontext(), ())
        self.errors = errors

    def enter(self, tx: Translator) -> None:
        self.before = tx.attempt.errors_on_break
        tx.attempt.errors_on_break = self.errors

    def exit(self, tx: Translator) -> None:
        tx.attempt.errors_on_break = self.before


def _error_on_break(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    (errors,) = (*args, *kwargs.values())
    return ErrorOnBreakVariable(bool(tx.python_value(errors)))


def _mark_static(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Specialize sizes in this trace. (The mark itself concerns other compilations.)"""
    tensor = args[0].realize() if args else None
    if kwargs or len(args) != 2 or not isinstance(tensor, TensorVariable):
        unsupported(UnknownCall("mark_static()", "it is not called with a tensor and dimensions"))
    dims = tx.python_value(args[1])
    for dim in [dims] if isinstance(dims, int) else dims:
        int(tensor.fake.shape[dim])  # guards the size
    return ConstantVariable(None)


_NAMED: dict[tuple[str, str], Model] = {
    (_DECORATORS, "graph_break"): _graph_break,
    (_DECORATORS, "error_on_graph_break"): _error_on_break,
    (_DECORATORS, "mark_static"): _mark_static,
    (_DECORATORS, "patch_dynamo_config"): _ignore_setting,
    (_FRONT_END, "_set_in_optimized_module"): _ignore_setting,
    (_UTILITIES, "is_compiling"): _is_compiling,
    (_UTILITIES, "is_dynamo_compiling"): _is_compiling,
}


@models_if(types.FunctionType)
def _named(value: types.FunctionType) -> Model | None:
    return _NAMED.get((value.__module__, value.__name__))


@models_if(types.FunctionType)
def _decorated_with_setting(value: types.FunctionType) -> Model | None:
    """The wrapper of a function that such a context manager decorates."""
    if value.__module__ != _UTILITIES:
        return None
    cells = dict(zip(value.__code__.co_freevars, value.__closure__ or ()))
    if cells.keys() != {"func", "self"} or type(cells["self"].cell_contents).__module__ != _DECORATORS:
        return None
    errors = getattr(cells["self"].cell_contents, "error_on_graph_break", None)
    return functools.partial(_call_under, cells["func"].cell_contents, errors)


def _call_under(
    function: Callable[..., object], errors: bool | None, tx: Translator, args: Args, kwargs: Kwargs
) -> VariableTracker:
    """Call a function that ``error_on_graph_break(errors)`` decorates. At a construct that can't be in a graph the
    setting stays as it is there: it decides whether to raise."""
    before = tx.attempt.errors_on_break
    tx.attempt.errors_on_break = before if errors is None else errors
    try:
        return tx.call(tx.make(function), args, kwargs)
    except Unsupported:
        before = tx.attempt.errors_on_break
        raise
    finally:
        tx.attempt.errors_on_break = before


def _call_instead(function: Callable[..., object]) -> Model:
    """The model that calls another function with the same arguments."""
    return lambda tx, args, kwargs: tx.call(tx.make(function), args, kwargs)


@models_if(types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, type)
def _substituted(value: Callable[..., object]) -> Model | None:
    """Functions with a Python substitute, registered by ``torch.compiler.substitute_in_graph``. torch's own substitutes
    for the standard library are skipped: it has models here."""
    if type(value) is types.FunctionType and "__torch_dynamo_polyfill__" in vars(value):
        wrapper = value
    else:
        functions = sys.modules.get("torch._dynamo.variables.functions")
        if functions is None:
            return None
        wrapper = functions.PolyfilledFunctionVariable._get_polyfill_handlers().get(value)
    polyfill = None if wrapper is None else vars(wrapper).get("__torch_dynamo_polyfill__")
    if polyfill is None or polyfill.__module__.startswith("torch."):
        return None
    return _call_instead(polyfill)


@models_if(types.FunctionType)
def _module_constructor(value: types.FunctionType) -> Model | None:
    """The wrapper by which torch.compile tracks calls of ``nn.Module.__init__``: the original is called."""
    if value.__module__ != "torch._dynamo.mutation_guard":
        return None
    if value.__code__.co_freevars not in (("init",), ("setstate",)):
        return None
    (original,) = value.__closure__ or ()
    return _call_instead(original.cell_contents)


@models_if(object)
def _marked(value: Any) -> Model | None:
    """Functions with a mark of torch's. What torch.compile returned is traced as what it wraps."""
    if type(value) is types.FunctionType and not vars(value):
        return None
    if _mark(value, "_torchdynamo_disable") is True:
        if _is_mark_of_compiler(value):
            return functools.partial(_call_original, value)

        def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
            unsupported(DisabledCall(operator_name(value), _reason(value)))

        return model
    if type(value) is types.FunctionType:
        namespace = vars(value)
        if namespace.get("_torchdynamo_wrapper_id") == id(value):
            return _call_instead(namespace["_torchdynamo_orig_callable"])
        if value.__code__ is _SCRIPTED_IF_TRACING:
            return _call_instead(namespace["__original_fn"])
        if "__marked_compile_region_fn__" in namespace:
            return _call_instead(namespace["__marked_compile_region_fn__"])
    if type(value) is torch.jit.ScriptFunction and hasattr(value, "_torchdynamo_inline"):
        return _call_instead(value._torchdynamo_inline)
    if _mark(value, "_dynamo_marked_constant") is True:
        return functools.partial(_constant_result, value)
    return None


def _mark(value: Any, name: str) -> object:
    """A mark that a callable has, or None. A metaclass may define how attributes of its classes are read."""
    is_class = issubclass(type(value), type)
    return class_lookup(value, name) if is_class else getattr(value, name, None)


def _call_original(disabled: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call what torch.compile disabled. If that breaks the graph, CPython calls the disabled function, in which nothing
    is compiled."""
    try:
        return tx.call(tx.make(disabled._torchdynamo_orig_callable), args, kwargs)
    except Unsupported as error:
        if error.path:  # the graph breaks inside, and the disabled function isn't called
            raise
        reason = DisabledByCompiler(operator_name(disabled), error.reason.what())
        raise Unsupported(reason, error.user_stack) from error.__cause__


@models_if(object)
def _allowed(value: Any) -> Model | None:
    """Functions under ``torch.compiler.allow_in_graph``. They are traced if possible, since a trace shows more (for
    example that a result is an argument); the others are recorded as one node."""
    allowed = getattr(sys.modules.get("torch._dynamo.trace_rules"), "_allowed_callable_ids", ())
    if id(value) not in allowed or isinstance(value, type):
        return None
    whole = call_whole(value)
    return whole if type(value) is not types.FunctionType else functools.partial(_traced_or_whole, value, whole)


def _traced_or_whole(
    function: types.FunctionType, whole: Model, tx: Translator, args: Args, kwargs: Kwargs
) -> VariableTracker:
    """Trace a function, or record it as one node."""
    traced = tx.make(function)
    return in_either_way(tx, function, lambda: tx.inline(traced, args, kwargs), lambda: whole(tx, args, kwargs))


def _is_mark_of_compiler(disabled: object) -> bool:
    """Whether torch.compile put the mark there itself, as its reason tells. At its first use in a process it disables
    functions of ``torch.optim`` that it can't trace or doesn't want to; that isn't the program's wish."""
    patcher = getattr(sys.modules.get(_FRONT_END), "TorchPatcher", None)
    reasons = inspect.unwrap(patcher.patch).__code__.co_consts if patcher is not None else ()
    return _reason(disabled).endswith(tuple(each for each in reasons if isinstance(each, str) and " " in each))


def _reason(disabled: object) -> str:
    """What ``torch.compiler.disable(reason=…)`` was given."""
    reason = getattr(disabled, "_torchdynamo_disable_msg", None)
    return "" if reason in (None, "dl.disable") else str(reason)


_SCRIPTED_IF_TRACING = torch.jit.script_if_tracing(len).__code__


def _constant_result(function: Callable[..., object], tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A function marked by ``assume_constant_result`` is called once, while tracing."""
    values = [_known_value(tx, each) for each in args]
    named = {name: _known_value(tx, each) for name, each in kwargs.items()}
    with unset_fake_temporarily():
        result = tx.evaluate(function, values, named)
    tx.guards.const((result,)).check("length", 1)  # the guard keeps the tuple alive, and so what is in the result
    return tx.make(result)


def _known_value(tx: Translator, variable: VariableTracker) -> object:
    """The Python value; a pre-existing object itself, such as the ``self`` of a method, guarded by its identity."""
    variable = variable.realize()
    if not isinstance(variable, UserObjectVariable) or variable.source is None or variable.payload is not None:
        return tx.python_value(variable)
    variable.source.check("id", variable.value)
    return variable.value
