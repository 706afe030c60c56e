"""Making numbers known that may differ from call to call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dynamo_lite.runtime.inner_tensors import is_wrapper, leaves
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber

from .tensor import TensorVariable


def settle(symbols: Any, variables: Iterable[VariableTracker], seen: set[int]) -> bool:
    """From now on these numbers, sizes of these tensors, and what is in these containers are the same in every call.
    Returns whether there were such sizes. ``seen``: ids of what needs not be looked at."""
    found = False
    for variable in variables:
        real = variable.realize()
        if id(real) in seen:
            continue
        seen.add(id(real))
        if isinstance(real, SymbolicNumber):
            if not real.is_data_dependent:
                real.as_constant()
            if isinstance(variable, LazyVariable):
                variable.rewrap()
        elif isinstance(real, TensorVariable):
            found |= _settle_sizes(symbols, real.fake)
        receiver = getattr(real, "receiver", None)
        parts = [*(real.structure_items() or ()), *([] if receiver is None else [receiver])]
        found |= settle(symbols, parts, seen)
    return found


def _settle_sizes(symbols: Any, fake: Any) -> bool:
    tensors = [fake, *leaves(fake)] if is_wrapper(fake) else [fake]
    found = (number for of in tensors for number in (*of.shape, *of.stride(), of.storage_offset()))
    numbers = [each for each in found if isinstance(each, SYMBOLIC)]
    for number in numbers:
        if not symbols.is_data_dependent(number):
            int(number)
    return bool(numbers)
