"""Writes that no version counter shows: into inference tensors, which have none, and into the statistics of batch and
instance norm, which the schemas of these operators don't declare as written to either."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
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


def are_uncounted(func: object) -> bool:
    """Whether the version counters may not show what this operator writes into."""
    return func in _UNDECLARED or torch.is_inference_mode_enabled()


def written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that an operator writes into, by its schema and by what that doesn't declare. A higher-order operator
    may write into all that it takes."""
    if not isinstance(func, torch._ops.OpOverload):
        yield from (each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor))
        return
    names, declared = _arguments(func)
    given = {**dict(zip(names, args)), **kwargs}
    flag = _UNDECLARED.get(func, "")
    undeclared = _STATISTICS if flag is None or given.get(flag) else ()
    for name in (*declared, *undeclared):
        value = given.get(name)
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, torch.Tensor):
                yield each


@functools.lru_cache(maxsize=4096)
def _arguments(func: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of an operator's arguments, and of those that it declares to write into."""
    arguments = func._schema.arguments
    declared = (each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write)
    return tuple(each.name for each in arguments), tuple(declared)
