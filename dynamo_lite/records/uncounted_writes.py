"""Writes that no version counter shows: into inference tensors, which have none, and into the statistics of batch and
instance norm, which the schemas of these operators don't declare as written to either."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

_aten = torch.ops.aten

_UNDECLARED: dict[torch._ops.OpOverload, str | None] = {
    _aten.batch_norm.default: "training",
    _aten._batch_norm_impl_index.default: "training",
    _aten.native_batch_norm.default: "training",
    _aten.cudnn_batch_norm.default: "training",
    _aten.miopen_batch_norm.default: "training",
    _aten.instance_norm.default: "use_input_stats",
    _aten.batch_norm_update_stats.default: None,
    _aten.batch_norm_gather_stats.default: None,
    _aten.batch_norm_gather_stats_with_counts.default: None,
}
"""Operators that update ``running_mean`` and ``running_var``: the argument that says whether they do; None: always."""
_STATISTICS = ("running_mean", "running_var")


@functools.lru_cache(maxsize=4096)
def may_be_uncounted(func: object) -> bool:
    """Whether an operator writes into something that may have no version counter, or doesn't declare what it does."""
    return not isinstance(func, torch._ops.OpOverload) or func in _UNDECLARED or func._schema.is_mutable


def written(func: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[torch.Tensor]:
    """The tensors that an operator writes into, by its schema and by what that doesn't declare. A higher-order operator
    may write into all inference tensors that it takes."""
    if not isinstance(func, torch._ops.OpOverload):
        yield from (each for each in tensors_in(tree_leaves((args, kwargs))) if each.is_inference())
        return
    yield from declared_writes(func, args, kwargs)
    if func in _UNDECLARED:
        given, flag = _by_name(func, args, kwargs), _UNDECLARED[func]
        if flag is None or given.get(flag):
            yield from tensors_in(map(given.get, _STATISTICS))


def declared_writes(
    func: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[torch.Tensor]:
    """The tensors that an operator writes into by its schema."""
    given, (_, declared) = _by_name(func, args, kwargs), _arguments(func)
    return tensors_in(map(given.get, declared))


def _by_name(func: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
    """An operator's arguments by their names in its schema."""
    return {**dict(zip(_arguments(func)[0], args)), **kwargs}


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among the values, and in lists and tuples of them."""
    tensors: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif type(value) in (list, tuple):
            tensors += tensors_in(value)
    return tensors


@functools.lru_cache(maxsize=4096)
def _arguments(func: torch._ops.OpOverload) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of an operator's arguments, and of those that it declares to write into."""
    arguments = func._schema.arguments
    declared = (each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write)
    return tuple(each.name for each in arguments), tuple(declared)
