"""Specialization: symbolic numbers and sizes become constants of this compilation, and are guarded as such."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from dynamo_lite.runtime.inner_tensors import is_wrapper, leaves
from dynamo_lite.shapes.symbols import Symbols
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.deferred_number import DeferredNumberVariable
from dynamo_lite.variables.core.deferred_text import DeferredTextVariable
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber

from .tensor import TensorVariable


def specialize(symbols: Symbols, variables: Iterable[VariableTracker], seen: set[int]) -> None:
    """Specialize these numbers, the sizes of these tensors, and what these containers hold.

    Args:
        seen: ids of trackers that are done.
    """
    for variable in variables:
        real = variable.realize()
        if id(real) in seen:
            continue
        seen.add(id(real))
        if isinstance(real, DeferredNumberVariable):
            real.as_constant()
        elif isinstance(real, SymbolicNumber):
            if not real.is_data_dependent:
                real.as_constant()
            if isinstance(variable, LazyVariable):
                variable.rewrap()
        elif isinstance(real, TensorVariable):
            _specialize_sizes(symbols, real.fake)
        inner = [*(real.structure_items() or ()), *([] if real.receiver is None else [real.receiver])]
        if isinstance(real, DeferredTextVariable) and real.writes is None:
            inner += real.operands()
        specialize(symbols, inner, seen)


def _specialize_sizes(symbols: Symbols, fake: torch.Tensor) -> None:
    tensors = [fake, *leaves(fake)] if is_wrapper(fake) else [fake]
    numbers = [number for each in tensors for number in (*each.shape, *each.stride(), each.storage_offset())]
    for number in numbers:
        if isinstance(number, torch.SymInt) and not symbols.is_data_dependent(number):
            int(number)  # guards the value
