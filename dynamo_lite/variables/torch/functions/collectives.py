"""``torch.distributed``: groups of processes and meshes of devices as values, collectives as operators of the graph.

A collective that writes into a tensor is recorded as the functional one of `polyfills.distributed`. Every process has
to issue the same collectives in the same order, so a graph with one is never run again in eager (`check_collective` of
`runtime_failures`), and what has no functional counterpart breaks the graph.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh

from dynamo_lite.insight.break_reasons import CollectiveNotCaptured, UnsupportedAttribute
from dynamo_lite.plan.rows import Value
from dynamo_lite.runtime.collectives import not_waited, waited
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import COMPARE
from dynamo_lite.variables.core.registry import models, models_break, models_raw
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.polyfills import distributed as polyfills
from dynamo_lite.variables.python.functions.builtin_callable import BuiltinVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record


def _inline(tx: Translator, function: Any, *args: VariableTracker) -> VariableTracker:
    return tx.call(FunctionVariable(function, None), list(args), {})


# -- groups and meshes -------------------------------------------------------------------------------------------------


class ImmutableVariable(InvariantVariable):
    """A value whose attributes and methods, of those named here, are the same as long as it is the same object."""

    __slots__ = ()
    implements_equality = True
    attributes: frozenset[str]
    methods: frozenset[str]

    def describe(self) -> str:
        return f"a {type(self.value).__qualname__}"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in self.attributes:
            return tx.make(tx.evaluate(getattr, (self.value, name)))
        if name in self.methods:
            return BuiltinMethodVariable(self, name)
        unsupported(UnsupportedAttribute(self.describe(), name))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name not in self.methods:
            unsupported(UnsupportedAttribute(self.describe(), name))
        return tx.fold_call(getattr(self.value, name), args, kwargs)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol not in ("==", "!=") or type(other) is not type(self):
            return None
        return tx.make(tx.evaluate(COMPARE[symbol], (self.value, other.value)))


class ProcessGroupVariable(ImmutableVariable):
    """A ``ProcessGroup``."""

    __slots__ = ()
    attributes = frozenset({"group_name", "group_desc"})
    methods = frozenset({"rank", "size", "name"})


class DeviceMeshVariable(ImmutableVariable):
    """A ``DeviceMesh``."""

    __slots__ = ()
    attributes = frozenset({"ndim", "shape", "device_type", "mesh_dim_names", "_dim_group_names"})
    methods = frozenset(
        {"get_group", "get_all_groups", "get_rank", "get_local_rank", "get_coordinate", "size", "__getitem__"}
    )

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        guard_default_group(tx)
        return super().call_method(tx, name, args, kwargs)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self.call_method(tx, "__getitem__", [key], {})


def guard_default_group(tx: Translator) -> None:
    """Guard the default group. Other groups are looked up by name, and initializing the default one again redefines the
    names."""
    _inline(tx, distributed_c10d._get_default_group)


@models(distributed_c10d._resolve_process_group)
def _resolve_process_group(tx: Translator, name: VariableTracker) -> VariableTracker:
    guard_default_group(tx)
    return tx.make(tx.fold(distributed_c10d._resolve_process_group, (tx.python_value(name),)))


@models(distributed_c10d.Backend)
def _backend(tx: Translator, name: VariableTracker) -> VariableTracker:
    return tx.make(tx.fold(distributed_c10d.Backend, (tx.python_value(name),)))


wraps_type(dist.ProcessGroup)(ProcessGroupVariable.by_identity)
wraps_type(DeviceMesh)(DeviceMeshVariable.by_identity)
wraps_type(dist.ReduceOp.RedOpType)(BuiltinVariable.by_identity)


# -- collectives -------------------------------------------------------------------------------------------------------

_REDUCTIONS = {
    getattr(dist.ReduceOp, name.upper()): name
    for name in ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")
}


@models(polyfills.check_collective)
def _check_collective(
    tx: Translator, name: VariableTracker, op: VariableTracker, group: VariableTracker, *tensors: VariableTracker
) -> VariableTracker:
    called, of, op = tx.python_value(name), group.realize(), op.realize()
    reduction = _REDUCTIONS.get(op.value) if op.python_type() is dist.ReduceOp.RedOpType else None
    if not isinstance(of, ProcessGroupVariable):
        unsupported(CollectiveNotCaptured(called, "it isn't given a group that this process belongs to"))
    if distributed_c10d._resolve_process_group(of.value.group_name) is not of.value:
        unsupported(CollectiveNotCaptured(called, "another group has the name of this one"))
    if reduction is None and not tx.is_none(op):
        unsupported(CollectiveNotCaptured(called, f"there is no functional one with {op.describe()} as its op"))
    why = _why_not_functional([each.realize() for each in tensors])
    if why is not None:
        unsupported(CollectiveNotCaptured(called, why))
    return ConstantVariable(reduction)


def _why_not_functional(tensors: list[VariableTracker]) -> str | None:
    """Why a collective on these tensors does something else than the functional one; None if it doesn't."""
    first = tensors[0]
    for each in tensors:
        if not isinstance(each, TensorVariable) or each.overloaded_arguments() or each.is_wrapper:
            return f"it is given {each.describe()}"
        fake = each.fake
        if fake.requires_grad and torch.is_grad_enabled():
            return "autograd doesn't see what it writes; the functional collective has a gradient"
        if fake.is_complex():
            return "the tensor is complex"
        if not fake.is_contiguous():
            return "the tensor is not contiguous"
        assert isinstance(first, TensorVariable)
        if fake.dtype is not first.fake.dtype or fake.device != first.fake.device:
            return "the tensors are of several dtypes or devices"
    return None


@models(polyfills.refuse)
def _refuse(tx: Translator, name: VariableTracker, why: VariableTracker) -> NoReturn:
    unsupported(CollectiveNotCaptured(tx.python_value(name), tx.python_value(why)))


def _call_polyfill(
    function: Callable[..., object], polyfill: Any, tx: Translator, args: Args, kwargs: Kwargs
) -> VariableTracker:
    """torch warns of a deprecated collective at a line of its own, so usually once in a process: here while tracing."""
    text = getattr(function, "__deprecated__", None)
    if text is not None and isinstance(function, types.FunctionType):
        code, namespace = function.__code__, function.__globals__
        registry = namespace.setdefault("__warningregistry__", {})
        place = code.co_filename, code.co_firstlineno, namespace["__name__"], registry
        tx.evaluate(warnings.warn_explicit, (text, FutureWarning, *place))
    return tx.call(FunctionVariable(polyfill, None), args, kwargs)


for _function, _polyfill in polyfills.COLLECTIVES.items():
    models_raw(_function, partial(_call_polyfill, _function, _polyfill))


class WorkVariable(VariableTracker):
    """What a collective with ``async_op=True`` returns. If it is live across a graph break, CPython issues the
    collective instead.

    ``result``: of the functional collective; None once the program has waited for it. ``targets``: the tensors to copy
    it into.
    """

    __slots__ = ("result", "targets")

    def __init__(self, result: VariableTracker, targets: VariableTracker) -> None:
        self.source = None
        self.result: VariableTracker | None = result
        self.targets = targets

    def python_type(self) -> type:
        return dist.Work

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name != "wait":
            unsupported(CollectiveNotCaptured(f"Work.{name}", "it is not known before the program runs"))
        return BuiltinMethodVariable(self, name)

    def method_wait(self, tx: Translator) -> VariableTracker:
        self.complete(tx)
        return ConstantVariable(True)

    def complete(self, tx: Translator) -> None:
        """Record the wait, and the copies."""
        result, self.result = self.result, None
        if result is not None:
            _inline(tx, polyfills.write_back, result, self.targets)

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())


@wraps_type(dist.Work)
def _wrap_work(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "the collective began outside of the graph")


@models(polyfills.pending)
def _pending(tx: Translator, result: VariableTracker, targets: VariableTracker) -> VariableTracker:
    work = WorkVariable(result, targets)
    tx.attempt.provenance.created(work)
    return work


def complete_pending(tx: Translator) -> None:
    """Wait, at the end of the graph, for the collectives that the program has not waited for."""
    for work in tx.attempt.provenance.all_of(WorkVariable):
        work.complete(tx)


# -- functional collectives --------------------------------------------------------------------------------------------


_WRAP = getattr(functional, "_wrap_tensor_autograd", functional.AsyncCollectiveTensor)
"""Makes an ``AsyncCollectiveTensor`` that gradients flow through, where torch has that."""


class AsyncResultVariable(TensorVariable):
    """The result of a functional collective, which the graph has waited for: an ``AsyncCollectiveTensor`` to the
    program. What operators make of it are plain tensors."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in ("wait", "trigger_wait"):
            return BuiltinMethodVariable(self, name)
        if name in ("elem", "completed"):
            unsupported(UnsupportedAttribute(self.describe(), name))
        return super().getattr(tx, name)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("wait", "trigger_wait") and not args and not kwargs:
            return record(tx, torch.ops.aten.alias.default, [self], {})  # without its wrapper
        return super().call_method(tx, name, args, kwargs)

    def construct(self, plan: Planner) -> Value:
        return plan.call(_WRAP, super().construct(plan))


@wraps_type(functional.AsyncCollectiveTensor)
def _wrap_async_result(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    """One that an eager collective returned: the graph is given the tensor in it, after a wait."""
    if type(value.elem) is not torch.Tensor or value.elem.layout is not torch.strided:
        return attempt.values.opaque(value, source, "the result of a collective that isn't a plain tensor")
    with unset_fake_temporarily():
        example = not_waited(value)
    given = attempt.graph.input(source, example, waited)
    attempt.guards.tensor(source, value, type(value))
    found = AsyncResultVariable(given.node, given.fake, type(value), source)
    attempt.state(KnownTensors).add(given.fake, found)
    return found


for _name, _polyfill in (
    ("_resolve_group", polyfills.resolve_group),
    ("_group_or_group_name", polyfills.name_of_group),
    ("_maybe_wrap_tensors", polyfills.wrap_each),
):
    if hasattr(functional, _name):  # what older versions of torch have instead is inlined
        _function = getattr(functional, _name)
        models_raw(_function, partial(_call_polyfill, _function, _polyfill))


@models(functional._maybe_wrap_tensor)
def _wait_at_once(tx: Translator, tensor: VariableTracker) -> VariableTracker:
    waited = record(tx, torch.ops._c10d_functional.wait_tensor.default, [tensor], {})
    assert isinstance(waited, TensorVariable)
    result = AsyncResultVariable(waited.node, waited.fake, functional.AsyncCollectiveTensor)
    tx.attempt.state(KnownTensors).add(result.fake, result)
    return result


# -- what breaks the graph ---------------------------------------------------------------------------------------------

_NOT_CAPTURED = """all_gather_coalesced all_gather_object all_reduce_coalesced all_to_all barrier batch_isend_irecv
    broadcast_object_list destroy_process_group gather gather_object init_process_group irecv isend monitored_barrier
    new_group new_subgroups new_subgroups_by_enumeration recv recv_object_list reduce reduce_scatter scatter
    scatter_object_list send send_object_list split_group init_device_mesh""".split()


for _name in _NOT_CAPTURED:
    if hasattr(dist, _name):
        models_break(CollectiveNotCaptured(_name, "it has no functional counterpart"), getattr(dist, _name))
