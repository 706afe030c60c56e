"""Sizes as inputs of a graph, for what looks for each symbol by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


def given_sizes(backend: Backend, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """What the backend makes of a graph that is differentiated. Where numbers in its backward are computed of sizes,
    AOTAutograd makes tensors of them, and for that has to find each symbol: it is given to the graph."""
    found = _sizes(gm) if _is_differentiated(example_inputs) else {}
    if not found:
        return backend(gm, example_inputs)
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        copied[node] = graph.node_copy(node)
    for at, (number, _, _) in enumerate(found.values()):
        graph.placeholder(f"size{at}").meta["example_value"] = number
    for node in gm.graph.nodes:
        if node not in copied:
            copied[node] = graph.node_copy(node, copied.__getitem__)
    numbers = [number for number, _, _ in found.values()]
    compiled = backend(torch.fx.GraphModule(gm, graph), [*example_inputs, *numbers])
    places = [(at, dim) for _, at, dim in found.values()]

    def run(*args: Any) -> Any:
        return compiled(*args, *[args[at].size(dim) for at, dim in places])

    return run


def has_unseen_symbols(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> bool:
    """Whether sizes are symbols that the graph is not given. A cache on disk asks what was assumed of those that it is
    given alone, when it finds a graph."""
    return not _is_differentiated(example_inputs) and bool(_sizes(gm))


def _is_differentiated(example_inputs: list[Any]) -> bool:
    return torch.is_grad_enabled() and any(map(_requires_grad, example_inputs))


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _sizes(gm: torch.fx.GraphModule) -> dict[Any, tuple[torch.SymInt, int, int]]:
    """Symbol -> its number, and which dimension of which input it is; those that are no inputs themselves."""
    fakes = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    given = {fake.node.expr for fake in fakes if isinstance(fake, torch.SymInt)}
    found: dict[Any, tuple[torch.SymInt, int, int]] = {}
    for at, fake in enumerate(fakes):
        for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in given:
                found.setdefault(size.node.expr, (size, at, dim))
    return found
