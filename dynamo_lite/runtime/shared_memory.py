"""Which tensors share memory.

Memory is named by the address of a tensor's storage. Two names are equal just if the two tensors have one storage, as a
tensor and its views do, also if they are fake or on the meta device. A name is valid while a tensor of that storage
lives: afterwards, another storage may have its address.

What names don't tell:

- *Which part of a storage* a tensor covers: the views of one tensor have its name, also those that don't overlap.
- *Several storages at one address*: two calls of ``torch.from_numpy`` on one array make two storages, each with a name
  of its own. `memory_ranges` and `overlap` see that, on real tensors only.
- *What is inside a wrapper subclass*: a wrapper has a storage of its own, which is empty. `all_memory_of` names the
  memory of its inner tensors too. A ``FunctionalTensor`` has no ``__tensor_flatten__``: nothing is known of it.
- *Sparse tensors* have no storage: torch raises NotImplementedError.
"""

from __future__ import annotations

import itertools
from typing import overload

import torch

from .inner_tensors import is_wrapper, leaves

MemoryRange = tuple[int, int, int]
"""The name of a storage, and the addresses where its data begin and end; 0 and 0 if it has none."""


@overload
def memory_of(value: torch.Tensor) -> int: ...
@overload
def memory_of(value: object) -> int | None: ...
def memory_of(value: object) -> int | None:
    """The name of a tensor's memory; None for what is no tensor."""
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def share_memory(one: object, other: object) -> bool:
    """Whether two values are tensors that have one storage."""
    return isinstance(one, torch.Tensor) and memory_of(one) == memory_of(other)


def is_cut_off(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a view of one that has other memory since its ``.data`` was replaced."""
    if tensor.layout is not torch.strided or is_wrapper(tensor) or not tensor._is_view():
        return False
    base = tensor._base
    return base is not None and memory_of(base) != memory_of(tensor)


def all_memory_of(tensor: torch.Tensor) -> set[int]:
    """The names of a tensor's memory: its own and, of a wrapper, those of its inner tensors."""
    found = {memory_of(tensor)}
    return found.union(map(memory_of, leaves(tensor))) if is_wrapper(tensor) else found


def memory_ranges(tensor: torch.Tensor) -> list[MemoryRange]:
    """The range of addresses of a real tensor's storage and, of a wrapper, of those of its inner tensors."""
    name = memory_of(tensor)
    if is_wrapper(tensor):
        return [(name, 0, 0), *(found for each in leaves(tensor) for found in memory_ranges(each))]
    storage = tensor.untyped_storage()
    begin = 0 if tensor.device.type == "meta" else storage.data_ptr()
    return [(name, begin, begin + storage.nbytes())]


def overlap(ones: list[MemoryRange], others: list[MemoryRange]) -> bool:
    """Whether a range of one tensor overlaps one of another, or has its storage."""
    return any(
        one[0] == other[0] or bool(one[1] and other[1]) and one[1] < other[2] and other[1] < one[2]
        for one, other in itertools.product(ones, others)
    )


def overlaps_itself(ranges: list[MemoryRange]) -> bool:
    """Whether two inner tensors of a tensor share memory."""
    return any(overlap([one], [other]) for one, other in itertools.combinations(ranges, 2))
