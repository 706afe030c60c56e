"""Adds symbolic sizes of tensors to a graph's inputs, as AOTAutograd requires of graphs that it differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .registry import Backend

Expression = Any
"""An expression of sympy's, which has no types."""


def with_sizes_as_inputs(backend: Backend, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph; if it is differentiated, with its symbolic sizes as inputs. AOTAutograd saves sizes that the
    backward computes from sizes as tensors, for which it needs each symbol as an input."""
    found = _sizes(gm) if is_differentiated(example_inputs) else {}
    if not found:
        return backend(gm, example_inputs)
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        copied[node] = graph.node_copy(node)
    for at, (size, _, _) in enumerate(found.values()):
        graph.placeholder(f"size{at}").meta["example_value"] = size
    for node in gm.graph.nodes:
        if node not in copied:
            copied[node] = graph.node_copy(node, copied.__getitem__)
    example_sizes = [size for size, _, _ in found.values()]
    compiled = backend(torch.fx.GraphModule(gm, graph), [*example_inputs, *example_sizes])
    dimensions = [(at, dim) for _, at, dim in found.values()]

    def run(*args: Any) -> Any:
        return compiled(*args, *[args[at].size(dim) for at, dim in dimensions])

    return run


def has_symbols_not_given(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> bool:
    """Whether the graph is compiled with symbolic sizes that are not inputs themselves. A cache on disk checks what was
    assumed of a symbol only if it is an input."""
    return not is_differentiated(example_inputs) and bool(_sizes(gm))


def is_differentiated(example_inputs: list[Any]) -> bool:
    """Whether a graph with these inputs is compiled with a backward."""
    return torch.is_grad_enabled() and any(
        isinstance(each, torch.Tensor) and each.requires_grad for each in example_inputs
    )


def _sizes(gm: torch.fx.GraphModule) -> dict[Expression, tuple[torch.SymInt, int, int]]:
    """The symbols that are sizes but not inputs themselves -> (the size, index of its tensor, dimension)."""
    fakes = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    given = {fake.node.expr for fake in fakes if isinstance(fake, torch.SymInt)}
    found: dict[Expression, tuple[torch.SymInt, int, int]] = {}
    for at, fake in enumerate(fakes):
        for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in given:
                found.setdefault(size.node.expr, (size, at, dim))
    return found
