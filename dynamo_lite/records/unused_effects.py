"""Operators whose effect is noticed although the program doesn't use their results: they start a collective or wait for
one, and other processes take part, or they advance the generator of random numbers. Compilers would drop them."""

from __future__ import annotations

from typing import TypeGuard

import torch
import torch.fx

from dynamo_lite.runtime.node_text import bare_name

from .graph import GraphBuilder
from .random_operators import draws_by_tag

_COLLECTIVES = frozenset({"_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "c10d"})
_KEPT = "kept_if_unused"


def is_collective(target: object) -> TypeGuard[torch._ops.OpOverload | torch._ops.OpOverloadPacket]:
    """Whether an operator communicates with other processes, or waits for them."""
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] in _COLLECTIVES
    return isinstance(target, torch._ops.OpOverload) and target.namespace in _COLLECTIVES


def keep_if_unused(node: torch.fx.Node, result: object) -> None:
    """Mark an operator that may communicate: the graph returns its result even if the program doesn't use it. The
    result is a tensor, or its first item is."""
    of = node if isinstance(result, torch.Tensor) else next(iter(node.users), node)
    of.meta[_KEPT] = of is not node or isinstance(result, torch.Tensor)


def unused_effects(graph: GraphBuilder, results: list[torch.fx.Node], *, compiles: bool) -> list[torch.fx.Node]:
    """The nodes with such an effect that no result depends on. They become results of the graph too: partitioners drop
    what no result needs. ``compiles``: the backend does, and so drops random numbers."""
    used, unused = set(results), []
    for node in reversed(graph.graph.nodes):
        written = node.args[0] if node.target == "copy_" else None
        writes_used = isinstance(written, torch.fx.Node) and (written.op == "placeholder" or written in used)
        is_used = node in used or writes_used
        if not is_used and (graph.communicates and _communicates(node) or compiles and _draws(node)):
            unused.append(node)
        if is_used or node in unused:
            used.update(node.all_input_nodes)
    return unused


def _communicates(node: torch.fx.Node) -> bool:
    """Whether it waits for a collective, or is marked."""
    is_wait = is_collective(node.target) and bare_name(node.target).startswith("wait_tensor")
    return is_wait or bool(node.meta.get(_KEPT))


def _draws(node: torch.fx.Node) -> bool:
    """Whether compilers would drop a node that draws random numbers, were it unused."""
    if node.op not in ("call_function", "call_method") or not draws_by_tag(node.target):
        return False
    of = node.all_input_nodes[:1]
    writes_input = bare_name(node.target).endswith("_") and of and of[0].op == "placeholder"
    return isinstance(node.meta["example_value"], torch.Tensor) and not writes_input
