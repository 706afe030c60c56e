"""torch's functions: operators of the graph, queries of torch's state, functions with models, and refused functions."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed
import torch.overrides
from torch import _jit_internal
from torch._library.custom_ops import CustomOpDef
from torch.fx._symbolic_trace import is_fx_tracing

from dynamo_lite.insight.break_reasons import (
    DataDependentValue,
    DefaultSet,
    UnknownCall,
    UnknownInBackward,
    UnsupportedOperation,
)
from dynamo_lite.runtime import graph_functions
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, MethodVariable
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_number import DeferredNumberVariable
from dynamo_lite.variables.core.invariant_reads import refuse_read
from dynamo_lite.variables.core.registry import Model, models, models_break, models_if, models_raw
from dynamo_lite.variables.core.wrapping import wraps_if, wraps_type
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SizeVariable, TupleVariable
from dynamo_lite.variables.python.containers.structures import structure_leaves
from dynamo_lite.variables.python.functions.builtin_callable import BuiltinVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable, PythonFunctionVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicFloat, SymNodeVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, has_torch_function
from dynamo_lite.variables.torch.tensors.fake_computation import compute, operator_name
from dynamo_lite.variables.torch.tensors.mutated_arguments import OPERATORS
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .torch_function import instances

_RECORDED_MODULES = frozenset(
    {"torch.functional", "torch.nn.functional", "torch._tensor", "torch.masked._ops", "torch.signal.windows.windows"}
)
"""Python functions of these modules are recorded as one node: they only call operators."""
_INLINED = frozenset({torch.nn.functional.multi_head_attention_forward})
"""Functions of these modules that are inlined nevertheless."""

_EXCLUDED_PREFIXES = tuple(
    """set_ _set _get manual_seed seed initial_seed get_ init_ _c_ _add _log quantize dequantize _make_per_
    _empty_affine_quantized _empty_per_channel_affine_quantized""".split()
)
_EXCLUDED_NAMES = frozenset(
    {"from_numpy", "frombuffer", "from_file", "save", "load", "compile", "from_dlpack", "tensor_split_", "vmap"}
    | {"equal", "allclose", "is_nonzero", "autocast_increment_nesting", "autocast_decrement_nesting"}
    | {"clear_autocast_cache", "unify_type_list", "import_ir_module", "parse_ir", "fork", "wait", "_nested_tensor"}
    | {"handle_torch_function"}
)
"""C functions that are not operators: they read or set state, return Python values of the data, or create objects."""


def _collect(namespace: object) -> list[Callable[..., object]]:
    return [value for value in (getattr(namespace, name, None) for name in dir(namespace)) if callable(value)]


def _is_builtin(value: object) -> bool:
    return isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType))


def _operators() -> dict[int, Callable[..., object]]:
    """The operators: C functions of torch's namespaces by id, and what is recorded for each.

    That is the function itself, or its aten operator if ``torch`` has another function under its name: the code of a
    graph would call that one.
    """
    operators: dict[int, Callable[..., object]] = {}
    for namespace in (
        torch,
        torch._C._VariableFunctions,
        *(getattr(torch._C, name) for name in ("_nn", "_fft", "_linalg", "_special")),
        torch.nn.functional,
        torch.linalg,
        torch.fft,
        torch.special,
        torch.sparse,
        torch.nested,
    ):
        for value in _collect(namespace):
            name = getattr(value, "__name__", "")
            is_excluded = name.startswith(_EXCLUDED_PREFIXES) or name in _EXCLUDED_NAMES or hasattr(object, name)
            if _is_builtin(value) and not is_excluded:
                is_hidden = namespace is torch._C._VariableFunctions and getattr(torch, name, None) is not value
                operators[id(value)] = getattr(torch.ops.aten, name) if is_hidden else value
    return operators


_OPERATORS = _operators()


def holds_tensor(args: Iterable[VariableTracker]) -> bool:
    """Whether any argument is, or contains, a tensor."""
    return any(isinstance(leaf, TensorVariable) for arg in args for leaf in structure_leaves(arg))


def call_operator(target: Callable[..., object]) -> Model:
    """The model that records ``target``."""

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        out = record(tx, target, args, kwargs)
        if not holds_tensor([*args, *kwargs.values()]) and isinstance(out, ConstantVariable):
            if target not in _DTYPE_QUERIES:
                unsupported(UnknownCall(operator_name(target), "it neither takes nor returns a tensor"))
        return out

    return model


models_raw(torch.lstm, call_operator(graph_functions.lstm))

_DTYPE_QUERIES = frozenset({torch.result_type, torch.promote_types, torch.can_cast})


_TENSOR_METHODS = {value: name for name, value in vars(torch.Tensor).items() if isinstance(value, types.FunctionType)}
"""Methods of Tensor in Python, and the names under which the class has them, which may differ from ``__name__``."""


@models_if(object)
def _recorded(value: object) -> Model | None:
    """Functions that are recorded: C functions of torch's namespaces, Python functions that only call operators, and
    registered operators."""
    if id(value) in _OPERATORS:
        operator_model = call_operator(_OPERATORS[id(value)])
        return operator_model if _OPERATORS[id(value)] is value else _returns_tuples(operator_model)
    if type(value) is types.FunctionType:
        return _record_or_inline(value) if _only_calls_operators(value) else None
    return call_operator(value) if isinstance(value, OPERATORS) else None


def _returns_tuples(operator_model: Model) -> Model:
    """A function of `torch._C._VariableFunctions` returns a tuple where the operator returns a list."""

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = operator_model(tx, args, kwargs)
        return TupleVariable(found.items) if isinstance(found, ListVariable) else found

    return model


def _only_calls_operators(function: types.FunctionType) -> bool:
    module, name = function.__module__, function.__name__
    if module not in _RECORDED_MODULES or function in _INLINED or function in _TENSOR_METHODS:
        return False
    if module == "torch.nn.functional" and name.startswith("_"):  # it checks arguments or queries state
        return False
    return "jit" not in name and not function.__qualname__.startswith("boolean_dispatch")


def is_recorded(function: object) -> bool:
    """Whether a call of this callable is an operator of the graph."""
    kind = type(function)
    return (kind in _KINDS_OF_OPERATORS or issubclass(kind, OPERATORS)) and _recorded(function) is not None


_KINDS_OF_OPERATORS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)


def _record_or_inline(function: types.FunctionType) -> Model:
    """The model that records a Python function, or inlines it if an argument is what an operator can't take."""
    operator_model = call_operator(function)
    inlined_for = (*_CALLABLES, SymbolicFloat) if function.__module__ == "torch.nn.functional" else _CALLABLES

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        given = [each.realize() for each in (*args, *kwargs.values())]
        is_overridden = tx.attempt.torch_state.calls_torch_function and instances(given)
        if not is_overridden and any(isinstance(each, inlined_for) for each in given):
            return tx.inline(FunctionVariable(function, None), args, kwargs)
        return operator_model(tx, args, kwargs)

    return model


_CALLABLES = (PythonFunctionVariable, MethodVariable, UserObjectVariable)
"""Arguments that a Python function may call, and that an operator can't take."""


class InvariantObjectVariable(BuiltinVariable):
    """An object whose attributes are invariant: ``torch.ops.library.name`` and its overloads, ``torch.ops`` itself, the
    properties of a device."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return tx.make(tx.evaluate(getattr, (self.value, name)))


_NAMESPACES = (torch._ops._OpNamespace, torch._ops._Ops, type(torch._C._VariableFunctions))
wraps_if(lambda value: issubclass(type(value), _NAMESPACES), order=7)(InvariantObjectVariable.by_identity)
wraps_if(lambda value: issubclass(type(value), OPERATORS), order=8)(InvariantObjectVariable.by_identity)
wraps_if(lambda value: type(value) is torch.jit.ScriptFunction, order=8)(BuiltinVariable.by_identity)


@models(CustomOpDef.__call__)
def _custom_operator(
    tx: Translator, definition: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """A function under ``torch.library.custom_op``: its operator is called."""
    return tx.call(definition.getattr(tx, "_opoverload"), list(args), kwargs)


# -- methods of Tensor reached through the class -----------------------------------------------------------------------


@models_if(types.MethodDescriptorType, types.WrapperDescriptorType)
def _method_in_c(value: types.MethodDescriptorType) -> Model | None:
    """``torch.Tensor.add(x, y)``."""
    is_of_tensor = value.__objclass__ in (torch._C.TensorBase, torch.Tensor)
    return functools.partial(_call_method, value.__name__) if is_of_tensor else None


@models_if(types.FunctionType)
def _method_in_python(value: types.FunctionType) -> Model | None:
    """Methods of Tensor written in Python, called through the class."""
    name = _TENSOR_METHODS.get(value)
    return None if name is None else functools.partial(_call_method, name)


def _call_method(name: str, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    if not args or not isinstance(args[0], TensorVariable):
        unsupported(UnknownCall(f"torch.Tensor.{name}", "its first argument is not a tensor"))
    return args[0].call_method(tx, name, args[1:], kwargs)


# -- checks ------------------------------------------------------------------------------------------------------------


def _check_tensor(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A check of a tensor's values is a runtime assertion: if it fails, the frame runs again in eager and raises."""
    condition = kwargs.get("cond", args[1] if len(args) > 1 else None)
    if isinstance(condition, TensorVariable) and condition.fake.dtype is torch.bool:
        holds = tx.call(condition.getattr(tx, "all"), [], {})
        if isinstance(holds, TensorVariable) and holds.expect(tx, True):
            return ConstantVariable(None)
    return tx.inline(tx.make(torch._check_tensor_all_with), args, kwargs)


models_raw(torch._check_tensor_all_with, _check_tensor)


for _name in ("equal", "allclose", "is_nonzero"):
    models_break(DataDependentValue(f"torch.{_name}"), getattr(torch, _name))


# -- queries that depend on where the call is --------------------------------------------------------------------------


@models(torch._C._are_functorch_transforms_active)
def _transforms_active(tx: Translator) -> VariableTracker:
    """The state is guarded. The body of a higher-order operator may run under another one than while tracing."""
    if tx.graph.scope.is_nested:
        unsupported(UnknownCall("_are_functorch_transforms_active()", "it is called in a higher-order operator"))
    return ConstantVariable(torch._C._are_functorch_transforms_active())


@models(torch.autograd.forward_ad.unpack_dual)
def _unpack_dual(tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if tx.graph.scope.is_nested:
        unsupported(UnknownCall("unpack_dual()", "it is called in a higher-order operator"))
    return tx.inline(tx.make(torch.autograd.forward_ad.unpack_dual), list(args), kwargs)


models_break(
    UnknownCall("_unpack_dual()", "fake tensors don't have the tangents of pre-existing tensors"), torch._unpack_dual
)


# -- queries of torch's state ------------------------------------------------------------------------------------------

_STATE_QUERIES: tuple[Callable[..., Any], ...] = (
    torch.is_autocast_enabled,
    torch.is_autocast_cpu_enabled,
    torch.get_autocast_cpu_dtype,
    torch.get_autocast_gpu_dtype,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch._C._is_any_autocast_enabled,
    torch.is_inference_mode_enabled,
    torch.get_default_dtype,
    torch.get_default_device,
    torch._C._get_flash_sdp_enabled,
    torch._C._get_mem_efficient_sdp_enabled,
    torch._C._get_math_sdp_enabled,
    torch._C._get_cudnn_sdp_enabled,
    torch._C._get_mkldnn_enabled,
    torch._C._get_cudnn_enabled,
    torch._C._get_cudnn_benchmark,
    torch._C._get_cudnn_deterministic,
    torch._C._get_cudnn_allow_tf32,
    torch._C._get_cublas_allow_tf32,
    torch._C._get_cublas_allow_fp16_reduced_precision_reduction,
    torch._C._get_cublas_allow_bf16_reduced_precision_reduction,
    torch._C._get_fp32_precision_getter,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.get_num_threads,
    torch.get_float32_matmul_precision,
    torch._C._get_default_device,
)
"""Functions of constants whose result is in the guard on torch's global state. A backward may run in another state."""
_INVARIANT_QUERIES: tuple[Callable[..., Any], ...] = (
    torch.cuda.is_available,
    torch.cuda.device_count,
    torch.backends.cuda.is_built,
    torch.backends.mps.is_available,
    torch.mps.is_available,
    torch.xpu.is_available,
    torch.is_vulkan_available,
    torch.distributed.is_available,
    torch.broadcast_shapes,
    torch.amp.is_autocast_available,
    torch.get_device_module,
    torch._C._get_privateuse1_backend_name,
    *(value for name, value in vars(torch.cpu).items() if name.startswith("_is_") and callable(value)),
)
"""Functions of constants whose result is always the same."""


def _query(function: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    if tx.graph.scope.in_backward:
        refuse_read(f"{operator_name(function)}()")
    return tx.fold_call(function, args, kwargs)


def _invariant(function: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.fold_call(function, args, kwargs)


for _value in _STATE_QUERIES:
    models_raw(_value, functools.partial(_query, _value))
for _function in (*_INVARIANT_QUERIES, torch.device, torch.finfo, torch.iinfo):
    models_raw(_function, functools.partial(_invariant, _function))


@models(torch.Size)
def _size(tx: Translator, sizes: VariableTracker | None = None, /) -> VariableTracker:
    items = [] if sizes is None else [item.realize() for item in sizes.elements(tx)]
    if all(item.python_type() is int for item in items):
        return SizeVariable(items)
    return tx.make(tx.fold(torch.Size, ([tx.python_value(item) for item in items],)))


@models(torch.is_grad_enabled)
def _is_grad_enabled(tx: Translator) -> VariableTracker:
    if tx.graph.scope.later("reentrant"):
        unsupported(UnknownInBackward("torch.is_grad_enabled()"))
    return ConstantVariable(tx.graph.read_grad_mode())


def _model_constant(result: object, *functions: Callable[..., object]) -> None:
    for function in functions:
        models_raw(function, lambda tx, args, kwargs: tx.make(result))


@models(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, torch._utils.is_compiling)
def is_compiling(tx: Translator) -> VariableTracker:
    """True, but not for ``torch.nn.modules``: under a compiler they skip hooks and compute something else. False too if
    the program failed where it was True."""
    if tx.code.co_filename.startswith(_MODULES) or tx.attempt.restart_facts.answers_as_in_eager:
        return ConstantVariable(False)
    tx.attempt.has_asked_compiling = True
    return ConstantVariable(True)


@models(torch.compiler.is_exporting)
def _is_exporting(tx: Translator) -> VariableTracker:
    return ConstantVariable(tx.attempt.surroundings.is_exporting)


_MODULES = os.path.dirname(torch.nn.modules.__file__) + os.sep


_model_constant(
    False,
    torch.jit.is_scripting,
    is_fx_tracing,
    torch.jit.is_tracing,
    _jit_internal.is_scripting,
    torch.onnx.is_in_onnx_export,
    torch._C._is_tracing,
)
_model_constant(None, torch._C._log_api_usage_once, torch._C._get_tracing_state)


# No frame is traced under a mode of the program, and the mode of a default device is treated as none.
_model_constant([], torch.utils._python_dispatch._get_current_dispatch_mode_stack)
_model_constant(0, torch._C._len_torch_dispatch_stack)
_model_constant(False, torch._C._is_torch_function_mode_enabled)


def _is_overloaded(tx: Translator, value: VariableTracker) -> bool:
    """Whether an argument has a ``__torch_function__`` that torch calls now. Objects other than tensors may have it as
    an attribute."""
    value = value.realize()
    cls = value.python_type()
    if cls is torch.Tensor or cls in _WITHOUT_OVERRIDE:
        return False
    if tx.attempt.torch_state.is_torch_function_off or not torch._C._is_torch_function_enabled():
        return False
    if tx.lookup(cls, "__torch_function__") is not MISSING:
        return has_torch_function(cls)
    return tx.has_attribute(value, "__torch_function__")


_WITHOUT_OVERRIDE = frozenset({bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, type(None)})


@models(torch.overrides.has_torch_function)
def _has_torch_function(tx: Translator, values: VariableTracker) -> VariableTracker:
    return ConstantVariable(any(_is_overloaded(tx, each) for each in values.elements(tx)))


@models(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def _has_torch_function_variadic(tx: Translator, *values: VariableTracker) -> VariableTracker:
    return ConstantVariable(any(_is_overloaded(tx, each) for each in values))


@models(torch.is_tensor)
def _is_tensor(tx: Translator, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(issubclass(of.python_type(), torch.Tensor))


def _parse_to(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The device, dtype and memory format among the arguments of ``Module.to``."""
    named = {name: value.as_fx()[1] for name, value in kwargs.items()}
    return tx.make(compute("call_function", torch._C._nn._parse_to, [arg.as_fx()[1] for arg in args], named))


models_raw(torch._C._nn._parse_to, _parse_to)


@models(torch.utils._python_dispatch.is_traceable_wrapper_subclass)
def _is_wrapper(tx: Translator, of: VariableTracker) -> VariableTracker:
    cls = of.python_type()
    is_wrapper = hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")
    return ConstantVariable(issubclass(cls, torch.Tensor) and is_wrapper)


@models(torch.numel)
def _numel(tx: Translator, of: VariableTracker) -> VariableTracker:
    if not isinstance(of, TensorVariable):
        return record(tx, torch.numel, [of], {})
    return tx.call(of.getattr(tx, "numel"), [], {})


@models(torch._check_with)
def _check_with(
    tx: Translator, error: VariableTracker, condition: VariableTracker, message: VariableTracker
) -> VariableTracker:
    condition = condition.realize()
    if isinstance(condition, SymNodeVariable):  # it depends on data: the graph checks it
        tx.graph.assert_condition(condition.number, condition.node)
        return ConstantVariable(None)
    if condition.python_type() is bool and tx.truth(condition):
        return ConstantVariable(None)
    return tx.inline(tx.make(torch._check_with), [error, condition, message], {})


def _check_is_size(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Of a number that depends on data: the graph checks it. The warning that the function is deprecated is left
    out."""
    number = args[0].realize() if args else None
    if isinstance(number, DeferredNumberVariable):
        number.as_constant()  # it is read
    if not isinstance(number, SymNodeVariable) or len(args) > 1:
        return tx.inline(tx.make(torch._check_is_size), args, kwargs)
    limit = kwargs["max"].realize().operand if "max" in kwargs else None
    inspect.unwrap(torch._check_is_size)(number.number, max=limit)
    return ConstantVariable(None)


models_raw(torch._check_is_size, _check_is_size)


# -- groups of tensors -------------------------------------------------------------------------------------------------


@models(torch._C._group_tensors_by_device_and_dtype)
def _group_tensors(
    tx: Translator, lists: VariableTracker, with_indices: VariableTracker | None = None
) -> VariableTracker:
    """torch's own function groups the fake tensors, as the order of the groups depends on hashes."""
    tensors: dict[int, VariableTracker] = {}

    def fake(value: VariableTracker) -> Any:
        if not isinstance(value, TensorVariable):
            return value.python_value(tx)
        tensors[id(value.fake)] = value
        return value.fake

    rows = [[fake(each.realize()) for each in row.elements(tx)] for row in lists.elements(tx)]
    groups = tx.evaluate(
        torch._C._group_tensors_by_device_and_dtype, (rows, with_indices is not None and tx.truth(with_indices))
    )
    result = DictVariable({})
    for key, (grouped, indices) in groups.items():
        rows_of_group = [ListVariable([tensors.get(id(each)) or tx.make(each) for each in row]) for row in grouped]
        result.put(tx, tx.make(key), TupleVariable([ListVariable([*rows_of_group]), tx.make(indices)]))
    return result


# -- state that calls set ----------------------------------------------------------------------------------------------


@models(torch._C._set_grad_enabled)
def _set_grad_enabled(tx: Translator, mode: VariableTracker) -> VariableTracker:
    if mode.python_type() is not bool:
        unsupported(UnsupportedOperation("setting the grad mode", mode.describe()))
    tx.graph.read_grad_mode()
    torch._C._set_grad_enabled(tx.python_value(mode))
    return ConstantVariable(None)


models_break(DefaultSet("dtype"), torch.set_default_dtype)
models_break(DefaultSet("device"), torch.set_default_device)


@wraps_type(torch.Generator)
def _wrap_generator(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "a generator of random numbers")
