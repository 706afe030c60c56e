"""Graphs under ``DistributedDataParallel``: compiled in stages, so that communication overlaps with the backward pass.

DDP reduces gradients bucket by bucket, each as soon as the last gradient in it is there. The gradients of one compiled
graph are all there at its end. So a graph is cut where DDP's buckets are: its parameters are counted from the end, as
the backward pass comes to them, and each bucketful with the operators that use it is a stage of its own, compiled by
itself. Every rank compiles for itself and waits for no other: which collectives run, and in what order, is the
reducer's business, the same whether and when anything is compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed
import torch.fx

from .graph import forget_source_with

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


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
        stage_of = cut(gm, example_inputs, first, cap)
        if len(set(stage_of.values())) < 2:
            return backend(gm, example_inputs)
        return _compile_each(gm, example_inputs, stage_of, backend)

    return compile_stages


def cut(gm: torch.fx.GraphModule, example_inputs: list[Any], first: int, cap: int) -> dict[torch.fx.Node, int]:
    """The stage of each operator, counted from 0. ``first``, ``cap``: bytes of parameters in the bucket that is full
    first in the backward pass, and in the others."""
    sizes = {
        node: value.untyped_storage().nbytes()
        for node, value in zip(gm.graph.find_nodes(op="placeholder"), example_inputs)
        if _is_reduced(value)
    }
    nodes = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
    if any(node.op == "get_attr" for node in nodes):
        return dict.fromkeys(nodes, 0)  # the functions of its operators are not taken apart
    at = {node: index for index, node in enumerate(nodes)}
    legal = _legal_cuts(nodes, at)
    depth, filled = 0, 0
    found: dict[torch.fx.Node, int] = {}
    for node in reversed(nodes):
        if filled >= (cap if depth else first) and legal[at[node] + 1]:
            depth, filled = depth + 1, 0
        found[node] = depth
        filled += sum(sizes.pop(arg, 0) for arg in node.all_input_nodes)
    return {node: depth - found[node] for node in nodes}


def _is_reduced(value: Any) -> bool:
    """Whether DDP reduces the gradient of an input."""
    return isinstance(value, torch.nn.Parameter) and value.requires_grad and not getattr(value, "_ddp_ignored", False)


def _legal_cuts(nodes: list[torch.fx.Node], at: dict[torch.fx.Node, int]) -> list[bool]:
    """Whether the graph may be cut in front of each operator (and at its end): no item is taken apart from what it is
    an item of, nothing is written into in another stage than the one that makes it, and some value is handed on."""
    legal = [True] * (len(nodes) + 1)
    handed_on = [False] * (len(nodes) + 1)
    for node in nodes:
        for user in node.users:
            last = at.get(user, len(nodes))
            for place in range(at[node] + 1, last + 1):
                handed_on[place] = True
            together = user.target is operator.getitem or _writes(user, node) or "example_value" not in node.meta
            if user in at and together:
                for place in range(at[node] + 1, last + 1):
                    legal[place] = False
    return [one and other for one, other in zip(legal, handed_on)]


def _writes(node: torch.fx.Node, into: torch.fx.Node) -> bool:
    """Whether an operator may write into one of its arguments."""
    value = into.meta.get("example_value")
    if node.target is operator.setitem or into in node.kwargs.values():
        return True
    return value is not None and node.meta.get("example_value") is value


@dataclass
class _Stage:
    """A part of the graph. Values are numbered: the graph's inputs, then what each stage gives."""

    compiled: Callable[..., Any]
    takes: list[int]


def _compile_each(
    gm: torch.fx.GraphModule, example_inputs: list[Any], stage_of: dict[torch.fx.Node, int], backend: Backend
) -> Callable[..., Any]:
    number = {node: at for at, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    stages = []
    for which in range(max(stage_of.values()) + 1):
        part, given, made = _part(gm, [node for node, stage in stage_of.items() if stage == which])
        takes = [number[node] for node in given]
        examples = [
            example_inputs[at] if at < len(example_inputs) else node.meta["example_value"]
            for at, node in zip(takes, given, strict=True)
        ]
        stages.append(_Stage(backend(part, examples), takes))
        number.update((node, at) for at, node in enumerate(made, start=len(number)))
    (output,) = gm.graph.find_nodes(op="output")
    results = [number[node] for node in output.args[0]]

    def run(*inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for stage in stages:
            values.extend(stage.compiled(*[values[at] for at in stage.takes]))
        return tuple([values[at] for at in results])

    return run


def _part(
    gm: torch.fx.GraphModule, nodes: list[torch.fx.Node]
) -> tuple[torch.fx.GraphModule, list[torch.fx.Node], list[torch.fx.Node]]:
    """These operators as a graph of their own; what it takes of the others, and what it gives them."""
    own = set(nodes)
    given = list(dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in own))
    made = [node for node in nodes if not own.issuperset(node.users)]
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in given:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in made))
    part = torch.fx.GraphModule(gm, graph, "Stage")
    forget_source_with(part)
    return part, given, made
