"""Polyfills of ``torch.distributed``: collectives that write into tensors, by functional ones and copies.

torch has functional collectives for compilers (``torch.ops._c10d_functional``): each returns a tensor that
``wait_tensor`` waits for. `check_collective` does the checks and warnings of eager's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import distributed_c10d

Group: TypeAlias = "dist.ProcessGroup"
Work: TypeAlias = "dist.Work"


def is_initialized() -> bool:
    return distributed_c10d._world._default_pg is not None


def check_collective(name: str, op: object, group: Group, *tensors: torch.Tensor) -> Any:
    """Stands for a check: the graph breaks before a call of ``name`` that differs from the functional collective.
    Returns the name of the reduction ``op``, None for None."""


def _checked(name: str, op: object, group: Group | None, *tensors: torch.Tensor) -> tuple[Group, Any]:
    """The group (the default group for None) and the name of the reduction, after the checks. A collective in a block
    that coalesces collectives breaks the graph."""
    group = distributed_c10d._group_or_default_group(group)
    if group in distributed_c10d._world.pg_coalesce_state:
        refuse("a collective", "it is coalesced with others")
    return group, check_collective(name, op, group, *tensors)


def refuse(name: str, why: str) -> None:
    """Stands for a graph break."""


def pending(result: torch.Tensor, targets: Sequence[torch.Tensor]) -> Work:  # type: ignore[empty-body]
    """Stands for the ``Work`` of a collective whose result is copied into ``targets`` when the program waits for it."""


def write_back(result: torch.Tensor, targets: Sequence[torch.Tensor]) -> None:
    """Wait for a collective's result, and copy its parts into these tensors."""
    waited = torch.ops._c10d_functional.wait_tensor(result)
    if len(targets) == 1:
        (target,) = targets
        target.copy_(waited if waited.shape == target.shape else waited.view(target.shape))
    else:
        parts = waited.view(len(targets), *targets[0].shape)
        for at, target in enumerate(targets):
            target.copy_(parts[at])


def _finish(result: torch.Tensor, targets: Sequence[torch.Tensor], async_op: bool) -> Work | None:
    if async_op:
        return pending(result, targets)
    write_back(result, targets)
    return None


def _gathered(tensor: torch.Tensor, group: Group) -> torch.Tensor:
    rows = tensor if tensor.dim() else tensor.view(1)
    return torch.ops._c10d_functional.all_gather_into_tensor(rows, group.size(), group.group_name)


def all_reduce(
    tensor: torch.Tensor, op: object = dist.ReduceOp.SUM, group: Group | None = None, async_op: bool = False
) -> Work | None:
    group, reduction = _checked("all_reduce", op, group, tensor)
    result = torch.ops._c10d_functional.all_reduce(tensor, reduction, group.group_name)
    return _finish(result, (tensor,), async_op)


def all_gather_single(
    output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Group | None = None, async_op: bool = False
) -> Work | None:
    group, _ = _checked("all_gather_into_tensor", None, group, input_tensor, output_tensor)
    result = _gathered(input_tensor, group)
    return _finish(result, (output_tensor,), async_op)


def all_gather(
    tensor_list: list[torch.Tensor], tensor: torch.Tensor, group: Group | None = None, async_op: bool = False
) -> Work | None:
    group, _ = _checked("all_gather", None, group, tensor, *tensor_list)
    if len(tensor_list) != group.size() or any([each.shape != tensor.shape for each in tensor_list]):
        refuse("all_gather", "the ranks' tensors are of different shapes")
    result = _gathered(tensor, group)
    return _finish(result, tuple(tensor_list), async_op)


def reduce_scatter_single(
    output: torch.Tensor,
    input: torch.Tensor,
    op: object = dist.ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    group, reduction = _checked("reduce_scatter_tensor", op, group, input, output)
    result = torch.ops._c10d_functional.reduce_scatter_tensor(input, reduction, group.size(), group.group_name)
    return _finish(result, (output,), async_op)


def all_to_all_single(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    group, _ = _checked("all_to_all_single", None, group, input, output)
    size = group.size()
    received = list(output_split_sizes) if output_split_sizes else [output.shape[0] // size] * size
    sent = list(input_split_sizes) if input_split_sizes else [input.shape[0] // size] * size
    result = torch.ops._c10d_functional.all_to_all_single(input, received, sent, group.group_name)
    return _finish(result, (output,), async_op)


def broadcast(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    group, _ = _checked("broadcast", None, group, tensor)
    root = distributed_c10d._canonicalize_group_rank(group, src, group_src, return_global=False)
    result = torch.ops._c10d_functional.broadcast(tensor, root, group.group_name)
    return _finish(result, (tensor,), async_op)


def resolve_group(group: object, tag: str = "") -> Group | str:
    """The group, or its name, for an argument that functional collectives take for a group."""
    if isinstance(group, (dist.ProcessGroup, str)):
        return group
    mesh, dim = group if isinstance(group, tuple) else (group, 0)
    if not isinstance(mesh, dist.DeviceMesh) or mesh is group and mesh.ndim != 1:
        refuse("a functional collective", "its group is neither a ProcessGroup nor a DeviceMesh of one dimension")
    return mesh._dim_group_names[dim]


def name_of_group(group: Group | str) -> str:
    return group if isinstance(group, str) else group.group_name


def wrap_each(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Each with a wait of its own, as in eager. torch's one wait for several (2.15) returns the fakes that it is given,
    so nothing in the graph would use its results."""
    return [functional._maybe_wrap_tensor(each) for each in tensors]


def _present(*rows: tuple[str, Callable[..., Any]]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """The rows for functions that this version of torch has."""
    return {getattr(dist, name): polyfill for name, polyfill in rows if hasattr(dist, name)}


COLLECTIVES = _present(
    ("all_reduce", all_reduce),
    ("all_gather", all_gather),
    ("all_gather_single", all_gather_single),
    ("all_gather_into_tensor", all_gather_single),
    ("reduce_scatter_single", reduce_scatter_single),
    ("reduce_scatter_tensor", reduce_scatter_single),
    ("all_to_all_single", all_to_all_single),
    ("broadcast", broadcast),
)
"""Collectives that become functional ones."""

TABLE: dict[Callable[..., Any], Callable[..., Any]] = {dist.is_initialized: is_initialized}
