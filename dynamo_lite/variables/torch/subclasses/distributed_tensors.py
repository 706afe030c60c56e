"""``DTensor``, a tensor spread over a `DeviceMesh`, and its placements.

A DTensor is an input of the graph as it is. The class's dispatch decides how its operators communicate, so each of them
counts as a collective. Its mesh and placements are constants: for a parameter they are guarded by identity, otherwise
the mesh by identity and the placements by value.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from dynamo_lite.insight.break_reasons import CollectiveNotCaptured, WrapperSubclass
from dynamo_lite.plan.rows import Value
from dynamo_lite.runtime.distributed_tensors import is_distributed_class, with_constants
from dynamo_lite.runtime.shared_memory import all_memory_of
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import own_namespace
from dynamo_lite.variables.core.registry import Model, models_if
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if
from dynamo_lite.variables.torch.functions.collectives import ImmutableVariable, guard_default_group
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .wrapper_subclass import WrapperVariable, guard_whole, wrapper_classes

_API = "torch.distributed.tensor._api"
_PLACEMENT_TYPES = "torch.distributed.tensor.placement_types"
_FIELDS = {"Shard": ("dim",), "Replicate": (), "Partial": ("reduce_op",), "_StridedShard": ("dim", "split_factor")}
"""The attributes of each kind of placement, which are immutable."""


class PlacementVariable(ImmutableVariable):
    """A ``Shard``, ``Replicate`` or ``Partial``."""

    __slots__ = ()
    attributes = frozenset(itertools.chain(*_FIELDS.values()))
    methods = frozenset({"is_shard", "is_replicate", "is_partial"})


def _is_placement_class(cls: type) -> bool:
    return cls.__module__ == _PLACEMENT_TYPES and cls.__name__ in _FIELDS


wraps_if(lambda value: _is_placement_class(type(value)), order=1)(PlacementVariable.by_identity)


@models_if(type)
def _placement(value: type) -> Model | None:
    """A placement that the program creates."""
    return partial(_create_placement, value) if _is_placement_class(value) else None


def _create_placement(cls: type, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    return PlacementVariable(tx.fold(cls, *tx.python_values(args, kwargs)))


_METHODS = frozenset({"to_local", "redistribute", "full_tensor"})


class DistributedTensorVariable(WrapperVariable):
    """A ``DTensor``."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in _METHODS:
            return BuiltinMethodVariable(self, name)
        if name in ("device_mesh", "placements"):
            return tx.make(getattr(self.fake, name))
        return super().getattr(tx, name)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in _METHODS:
            return _record(tx, getattr(self.cls, name), [self, *args], kwargs)
        return super().call_method(tx, name, args, kwargs)

    def guard_parts(self, tx: Translator) -> list[TensorVariable]:
        """Guard the mesh and the placements. Returns the local tensor. (The guard on a tensor checks its metadata.)"""
        assert self.source is not None
        guard_default_group(tx)
        self.has_read_size = True  # sizes are static: placements are chosen by them
        slots = own_namespace(self.cls)
        spec, source = self.value._spec, self.source.child("slot", slots["_spec"])
        source.check("type", type(spec))
        for name, value in vars(spec).items():
            part = source.instance_item(name)
            if name in ("tensor_meta", "_hash"):
                continue
            if name == "mesh" or getattr(self.value, "_is_param", False):
                part.check("id", value)
            elif name == "placements":
                _guard_placements(part, value)
            else:
                guard_whole(tx, LazyVariable(tx.attempt, value, part), set())
        local = self.value._local_tensor
        found = LazyVariable(tx.attempt, local, self.source.child("slot", slots["_local_tensor"])).realize()
        if not isinstance(found, TensorVariable):
            unsupported(WrapperSubclass(self.describe(), "its local tensor can't be in a graph"))
        return [found]

    def construct(self, plan: Planner) -> Value:
        memory = all_memory_of(self.fake)
        if self.source is None and any(memory & all_memory_of(each.fake) for each in plan.attempt.graph.tensors):
            plan.attempt.provenance.created(self, self.step)  # compilers would create it without its input's memory
            raise NotConstant(self.describe())
        return TensorVariable.construct(self, plan)


wrapper_classes.append((is_distributed_class, DistributedTensorVariable))


def _guard_placements(source: Source, placements: tuple[object, ...]) -> None:
    """Guard their values. Tensors share placements, or have equal ones: which it is doesn't matter."""
    source.check("type", tuple)
    source.check("length", len(placements))
    for at, each in enumerate(placements):
        item = source.child("tuple_item", at)
        if not _is_placement_class(type(each)):
            item.check("id", each)
            continue
        item.check("type", type(each))
        for name in _FIELDS[type(each).__name__]:
            item.child("c_attr", name).check("equals", getattr(each, name))


def _record(tx: Translator, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> VariableTracker:
    """Record a function of a tensor, with its other arguments as constants."""
    target = with_constants(function, *tx.python_values(args[1:], kwargs))
    return record(tx, target, args[:1], {})


@models_if(types.FunctionType)
def _from_local(value: types.FunctionType) -> Model | None:
    """``DTensor.from_local``."""
    is_from_local = value.__module__ == _API and value.__qualname__ == "DTensor.from_local"
    return partial(_call_from_local, value) if is_from_local else None


def _call_from_local(function: types.FunctionType, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    local = args[0].realize() if args else None
    if isinstance(local, DistributedTensorVariable) or not isinstance(local, TensorVariable):
        unsupported(CollectiveNotCaptured("DTensor.from_local", "its first argument is not a local tensor"))
    if "run_check" in kwargs and tx.truth(kwargs["run_check"]):
        unsupported(CollectiveNotCaptured("DTensor.from_local", "run_check=True communicates"))
    guard_default_group(tx)
    return _record(tx, function, args, kwargs)
