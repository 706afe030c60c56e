"""Variables that the rest of the program doesn't read: which of them stay bound at a graph break, as in CPython.

Code that runs at the break may read them from the frame by their names (``DataFrame.query("a > @k")``, a debugger), and
user code may observe when their values are deallocated.
"""

from __future__ import annotations

import types
from collections.abc import Iterable

import torch

from dynamo_lite.bytecode import decode, roles
from dynamo_lite.planner.planner import Planner
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.class_lookup import has_finalizer
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import (
    ListVariable,
    SequenceVariable,
    SizeVariable,
    SliceVariable,
    TupleVariable,
)
from dynamo_lite.variables.python.containers.sets import SetVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_UNOBSERVED = frozenset(
    map(
        id,  # a metaclass may compare classes
        (
            *(int, float, complex, bool, str, bytes, type(None), torch.Tensor, torch.nn.Parameter, torch.Size),
            *(torch.dtype, torch.device, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
        ),
    )
)


def is_deallocation_observable(plan: Planner, value: VariableTracker) -> bool:
    """Whether user code can observe the deallocation of a value: by a weak reference, a finalizer, or in C."""
    if isinstance(value, LazyVariable):
        return id(type(value.value)) not in _UNOBSERVED
    if isinstance(value, (ConstantVariable, TensorVariable)) or value.is_symbolic or value.is_loaded_as_constant:
        return False
    return plan.has_created(value) or value.source is not None and not value.is_guarded_by_identity


def exists(plan: Planner, value: VariableTracker) -> bool:
    """Whether generated code has a value without another result of the graph: it is pre-existing, a constant or
    computed from such, an output already, or an object that code can create from such values alone."""
    return _exists(plan, value, set())


def _exists(plan: Planner, value: VariableTracker, inside: set[int]) -> bool:
    value = value.known()
    if isinstance(value, (LazyVariable, ConstantVariable)) or value.is_loaded_as_constant:
        return True
    if plan.has_created(value) or value in plan.outputs or value.source is not None:
        return True
    if isinstance(value, SymbolicNumber):
        return value.is_computed_outside
    if id(value) in inside:
        return True
    inside.add(id(value))
    parts = _parts(value)
    return parts is not None and all(_exists(plan, each, inside) for each in parts)


def _parts(value: VariableTracker) -> Iterable[VariableTracker] | None:
    """What code creates an object of, where nothing keeps it from that; None for other objects."""
    if type(value) in (ListVariable, TupleVariable, SizeVariable):
        assert isinstance(value, SequenceVariable)
        return value.items
    if type(value) is SliceVariable:
        return value.parts
    if type(value) is DictVariable and value.cls is dict:
        return (*value.keys.values(), *value.items.values())
    if type(value) is SetVariable:
        return value.parts()
    if type(value) is UserObjectVariable and value.is_new and not has_finalizer(value.cls):
        if value.payload is None:
            call = value.creating_call()
            return None if call is None else call.operands
        return (value.payload,) if type(value.payload) is TupleVariable and not value.attrs else None
    return None


def rebound_by_closures(code: types.CodeType) -> frozenset[str]:
    """The variables of a code object that functions defined in it assign to (``nonlocal``)."""
    nested = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    names = {
        each.argval
        for inner in nested
        for each in decode(inner)
        if roles.assigns_cell(each) and each.argval in inner.co_freevars
    }
    return frozenset(names.union(*(rebound_by_closures(inner) & {*inner.co_freevars} for inner in nested)))
