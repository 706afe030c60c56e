"""Graphs under ``DistributedDataParallel``: compiled in stages, so that communication overlaps with the backward pass.

DDP reduces gradients bucket by bucket, each as soon as its last gradient is computed. One compiled graph has all
of its gradients at the end of its backward. So a graph is cut where DDP's buckets end: parameters are counted from the
end, in the backward's order, and each bucketful is compiled as a stage of its own, with the operators that use it.
Every rank compiles for itself and waits for no other: the reducer alone decides which collectives run, and in what
order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
import torch.fx

from dynamo_lite.backends.pieces import compile_each, graph_of, legal_cuts, operators_of, pieces_between
from dynamo_lite.backends.registry import Backend


def active_ddp() -> Any:
    """The ``DistributedDataParallel`` whose forward is running on this thread, or None."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return torch.nn.parallel.DistributedDataParallel._get_active_ddp_module()


def in_stages(backend: Backend, ddp: Any) -> Backend:
    """The backend, for graphs under this ``DistributedDataParallel``."""
    cap = ddp.bucket_bytes_cap
    first = min(torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, cap)

    def compile_stages(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        nodes = operators_of(gm)
        pieces = pieces_between(nodes, cut(gm, example_inputs, first, cap))
        if len(pieces) < 2:
            return backend(gm, example_inputs)
        return compile_each(gm, example_inputs, pieces, lambda piece, examples: backend(graph_of(gm, piece), examples))

    return compile_stages


def cut(gm: torch.fx.GraphModule, example_inputs: list[Any], first: int, cap: int) -> list[int]:
    """The positions of the operators that begin a stage, the first left out. ``first``, ``cap``: bytes of parameters in
    the bucket that is full first in the backward pass, and in the others."""
    sizes = {
        node: value.untyped_storage().nbytes()
        for node, value in zip(gm.graph.find_nodes(op="placeholder"), example_inputs)
        if _is_reduced(value)
    }
    nodes = operators_of(gm)
    legal = legal_cuts(nodes)
    found: list[int] = []
    filled = 0
    for at in reversed(range(len(nodes))):
        if filled >= (cap if found else first) and legal[at + 1]:
            found.insert(0, at + 1)
            filled = 0
        filled += sum(sizes.pop(arg, 0) for arg in nodes[at].all_input_nodes)
    return found


def _is_reduced(value: object) -> bool:
    """Whether DDP reduces the gradient of an input."""
    return isinstance(value, torch.nn.Parameter) and value.requires_grad and not getattr(value, "_ddp_ignored", False)
