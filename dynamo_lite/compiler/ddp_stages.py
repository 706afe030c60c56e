"""Graphs under ``DistributedDataParallel``: compiled in stages, so that communication overlaps with the backward pass.

DDP reduces gradients bucket by bucket, each as soon as its last gradient is computed. One compiled graph has all
of its gradients at the end of its backward. So a graph is cut where DDP's buckets end: parameters are counted from the
end, in the backward's order, and each bucketful is compiled as a stage of its own, with the operators that use it.
Every rank compiles for itself and waits for no other: the reducer alone decides which collectives run, and in what
order.

A region of the graph that is run under autocast may be cut: the stage leaves it, and the next one enters it again. One
in another grad mode than the graph's own, or in inference mode, stays whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
import torch.fx
from torch.amp import autocast_mode

from dynamo_lite.backends.registry import Backend
from dynamo_lite.records.graph import forget_source_with
from dynamo_lite.runtime.graph_functions import (
    enter_inference_mode,
    enter_sdpa_kernel,
    exit_inference_mode,
    exit_sdpa_kernel,
)

_LEAVES: dict[Any, Callable[..., Any]] = {
    autocast_mode._enter_autocast: autocast_mode._exit_autocast,
    enter_inference_mode: exit_inference_mode,
    enter_sdpa_kernel: exit_sdpa_kernel,
}
"""What enters a region that may be cut, and what leaves it."""


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
    """Whether the graph may be cut in front of each operator (and at its end): nothing that must be together is taken
    apart, nothing is written into in another stage than the one that makes it, some value is handed on, and the grad
    mode is the one that the graph is called in."""
    legal = _in_first_grad_mode(nodes)
    handed_on = [False] * (len(nodes) + 1)
    for node in nodes:
        if node.target in _LEAVES:
            _keep_casts(legal, nodes[at[node] : max(at[user] for user in node.users)], at)
            continue
        for user in node.users:
            last = at.get(user, len(nodes))
            handed_on[at[node] + 1 : last + 1] = [True] * (last - at[node])
            if user in at and _belong_together(node, user):
                _forbid(legal, at[node], last)
    return [one and other for one, other in zip(legal, handed_on)]


def _forbid(legal: list[bool], first: int, last: int) -> None:
    """No cut between these operators."""
    legal[first + 1 : last + 1] = [False] * (last - first)


def _belong_together(node: torch.fx.Node, user: torch.fx.Node) -> bool:
    """Whether one stage has both: an item and what it is an item of, an operator and the function that it runs, the
    ends of a region that isn't cut, a write and what it writes into."""
    is_value = node.op != "get_attr" and node.meta.get("example_value") is not None
    return not is_value or user.target is operator.getitem or _writes(user, node)


def _in_first_grad_mode(nodes: list[torch.fx.Node]) -> list[bool]:
    """Whether the grad mode in front of each operator (and at the end) is the one that the graph begins in."""
    found, is_first = [], True
    for node in nodes:
        found.append(is_first)
        if node.target is torch._C._set_grad_enabled:  # there is one for each change only
            is_first = not is_first
    return [*found, is_first]


def _keep_casts(legal: list[bool], region: list[torch.fx.Node], at: dict[torch.fx.Node, int]) -> None:
    """Autocast converts a parameter once in a region, where its gradients are summed before they are converted."""
    first_use: dict[torch.fx.Node, int] = {}
    for node in region:
        for arg in node.all_input_nodes:
            if arg.op == "placeholder" and _is_other_float(arg, node):
                _forbid(legal, first_use.setdefault(arg, at[node]), at[node])


def _is_other_float(node: torch.fx.Node, user: torch.fx.Node) -> bool:
    """Whether a value and what is computed of it are floating tensors of two types."""
    values = [each.meta.get("example_value") for each in (node, user)]
    dtypes = {each.dtype for each in values if isinstance(each, torch.Tensor) and each.is_floating_point()}
    return len(dtypes) == 2


def _writes(node: torch.fx.Node, into: torch.fx.Node) -> bool:
    """Whether an operator may write into one of its arguments."""
    value = into.meta.get("example_value")
    is_kernel = isinstance(node.target, torch._ops.HigherOrderOperator)
    if is_kernel or node.target is operator.setitem or into in node.kwargs.values():
        return True
    return value is not None and node.meta.get("example_value") is value


def _compile_each(
    gm: torch.fx.GraphModule, example_inputs: list[Any], stage_of: dict[torch.fx.Node, int], backend: Backend
) -> Callable[..., Any]:
    # Values are numbered: the graph's inputs, then what each stage gives.
    number = {node: at for at, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    stages: list[tuple[Callable[..., Any], list[int]]] = []  # with the values that each takes
    opened: list[torch.fx.Node] = []
    for which in range(max(stage_of.values()) + 1):
        part, given, made = _part(gm, [node for node, stage in stage_of.items() if stage == which], opened)
        takes = [number[node] for node in given]
        examples = [
            example_inputs[at] if at < len(example_inputs) else node.meta["example_value"]
            for at, node in zip(takes, given, strict=True)
        ]
        stages.append((backend(part, examples), takes))
        number.update((node, at) for at, node in enumerate(made, start=len(number)))
    (output,) = gm.graph.find_nodes(op="output")
    results = [number[node] for node in output.args[0]]

    def run(*inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for compiled, takes in stages:
            values.extend(compiled(*[values[at] for at in takes]))
        return tuple([values[at] for at in results])

    return run


def _part(
    gm: torch.fx.GraphModule, nodes: list[torch.fx.Node], opened: list[torch.fx.Node]
) -> tuple[torch.fx.GraphModule, list[torch.fx.Node], list[torch.fx.Node]]:
    """These operators as a graph of their own; what it takes of the others, and what it gives them. ``opened``: what
    entered the regions that are open at its beginning, outermost first; after it those at its end."""
    own = {*opened, *nodes}
    given = list(dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in own))
    made = [node for node in nodes if node.target not in _LEAVES and not own.issuperset(node.users)]
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in given:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in (*opened, *nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    entered = [*opened, *(node for node in nodes if node.target in _LEAVES)]
    opened[:] = [node for node in entered if own.isdisjoint(node.users)]
    for node in reversed(opened):
        graph.call_function(_LEAVES[node.target], (copies[node],))
    graph.output(tuple(copies[node] for node in made))
    part = torch.fx.GraphModule(gm, graph, "Stage")
    forget_source_with(part)
    return part, given, made
