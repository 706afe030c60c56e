"""Graphs cut into pieces that are compiled one by one and run one after the other.

A piece is a run of operators. Cuts are made only where they are legal: nothing that must be together is taken apart. A
region that is run under autocast may be cut: the piece leaves it, and the next one enters it again. One in another grad
mode than the graph's own, or in inference mode, stays whole.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.amp import autocast_mode

from dynamo_lite import _C
from dynamo_lite.records.subgraphs import forget_source_with
from dynamo_lite.runtime.graph_functions import (
    enter_inference_mode,
    enter_sdpa_kernel,
    exit_inference_mode,
    exit_sdpa_kernel,
)
from dynamo_lite.runtime.shared_memory import memory_of

LEAVES: dict[Any, Callable[..., Any]] = {
    autocast_mode._enter_autocast: autocast_mode._exit_autocast,
    enter_inference_mode: exit_inference_mode,
    enter_sdpa_kernel: exit_sdpa_kernel,
}
"""What enters a region that may be cut, and what leaves it."""


@dataclass(frozen=True)
class Piece:
    """A run of a graph's operators."""

    opened: tuple[torch.fx.Node, ...]
    """What entered the regions that are open at its beginning, outermost first."""
    nodes: tuple[torch.fx.Node, ...]
    left_open: tuple[torch.fx.Node, ...]
    """What entered the regions that are open at its end, outermost first."""
    given: tuple[torch.fx.Node, ...]
    """Values of the graph's inputs and of other pieces that it takes."""
    made: tuple[torch.fx.Node, ...]
    """Its values that other pieces, or the graph's caller, take."""

    @classmethod
    def of(cls, opened: tuple[torch.fx.Node, ...], nodes: tuple[torch.fx.Node, ...]) -> Piece:
        """The piece of these operators, in whose beginning the regions of ``opened`` are open."""
        own = {*opened, *nodes}
        entered = [*opened, *(node for node in nodes if node.target in LEAVES)]
        return cls(
            opened,
            nodes,
            tuple(node for node in entered if own.isdisjoint(node.users)),
            tuple(dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in own)),
            tuple(node for node in nodes if node.target not in LEAVES and not own.issuperset(node.users)),
        )


def operators_of(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes of a graph that are neither its inputs nor its results."""
    return [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]


def pieces_between(nodes: list[torch.fx.Node], cuts: list[int]) -> list[Piece]:
    """The pieces of a graph's operators. ``cuts``: the positions of the operators that begin one, the first left out,
    in order."""
    found: list[Piece] = []
    for first, last in zip([0, *cuts], [*cuts, len(nodes)], strict=True):
        found.append(Piece.of(found[-1].left_open if found else (), tuple(nodes[first:last])))
    return found


def legal_cuts(nodes: list[torch.fx.Node]) -> list[bool]:
    """Whether the graph may be cut in front of each operator (and at its end): nothing that must be together is taken
    apart, nothing is written into in another piece than the one that makes it, some value is handed on, and the grad
    mode is the one that the graph is called in."""
    at = {node: index for index, node in enumerate(nodes)}
    first_with = _first_with_memory(nodes)
    legal = _in_first_grad_mode(nodes)
    handed_on = [False] * (len(nodes) + 1)
    for node in nodes:
        if node.target in LEAVES:
            _keep_casts(legal, nodes[at[node] : max(at[user] for user in node.users)], at)
            continue
        for user in node.users:
            last = at.get(user, len(nodes))
            handed_on[at[node] + 1 : last + 1] = [True] * (last - at[node])
            if user in at and _belong_together(node, user):
                _forbid(legal, first_with.get(memory_of(_value(node)), at[node]), last)
    return [one and other for one, other in zip(legal, handed_on)]


def _forbid(legal: list[bool], first: int, last: int) -> None:
    """No cut between these operators."""
    legal[first + 1 : last + 1] = [False] * (last - first)


def _value(node: torch.fx.Node) -> object:
    return node.meta.get("example_value")


def _first_with_memory(nodes: list[torch.fx.Node]) -> dict[int | None, int]:
    """For memory that the operators allocate, the position of the first whose value has it: of a base, whose views have
    it too."""
    found: dict[int | None, int] = {}
    for at, node in enumerate(nodes):
        found.setdefault(memory_of(_value(node)), at)
    for memory in (None, *(memory_of(_value(node)) for node in nodes[0].graph.find_nodes(op="placeholder"))):
        found.pop(memory, None)
    return found


def _belong_together(node: torch.fx.Node, user: torch.fx.Node) -> bool:
    """Whether one piece has both: an item and the sequence that it is of, an operator and the function that it runs,
    the ends of a region that isn't cut, a write and what it writes into."""
    value = _value(node)
    if node.op == "get_attr" or value is None:
        return True
    return user.target is operator.getitem and not isinstance(value, torch.Tensor) or _writes(user, node)


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
    value = _value(into)
    if isinstance(node.target, torch._ops.HigherOrderOperator) or node.target is operator.setitem:
        return True
    if any(_body_writes(_value(each)) for each in node.all_input_nodes if each.op == "get_attr"):
        return True
    if into in node.kwargs.values():
        is_custom = isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        return is_custom or not isinstance(value, torch.Tensor) or _is_written(node, value)
    return value is not None and _value(node) is value


def _body_writes(body: object) -> bool:
    """Whether a function that an operator runs, as a checkpoint does, may write into what it is given."""
    if not isinstance(body, torch.fx.GraphModule):
        return False
    given = {memory_of(_value(node)) for node in body.graph.find_nodes(op="placeholder")}
    of_given = [node for node in body.graph.nodes if memory_of(_value(node)) in given]
    return any(_writes(user, node) for node in of_given for user in node.users)


def _is_written(node: torch.fx.Node, tensor: torch.Tensor) -> bool:
    """Whether one of torch's functions may write into a tensor that it is given by name: if any operator has. A tensor
    of inference mode doesn't count that; then it is what the result is put into."""
    return "out" in node.kwargs if tensor.is_inference() else tensor._version > 0


def graph_of(gm: torch.fx.GraphModule, piece: Piece) -> torch.fx.GraphModule:
    """A piece as a graph of its own, which takes what the piece is given and returns what it makes."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in piece.given:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = copy.copy(node.meta)
    for node in (*piece.opened, *piece.nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    for node in reversed(piece.left_open):
        graph.call_function(LEAVES[node.target], (copies[node],))
    graph.output(tuple(copies[node] for node in piece.made))
    part = torch.fx.GraphModule(gm, graph, "Piece")
    forget_source_with(part)
    return part


def compile_each(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    pieces: list[Piece],
    compile_piece: Callable[[Piece, list[Any]], Callable[..., Any]],
) -> Callable[..., Any]:
    """Compile the pieces of a graph, in order, and return what runs them. ``compile_piece`` is given a piece and
    examples of what it takes: the graph's own inputs, and fake tensors for what other pieces make."""
    # Values are numbered: the graph's inputs, then what each piece makes.
    number = {node: at for at, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    (output,) = gm.graph.find_nodes(op="output")
    steps: list[tuple[Callable[..., Any], list[int], int]] = []
    for piece in pieces:
        takes = [number[node] for node in piece.given]
        examples = [
            example_inputs[at] if at < len(example_inputs) else node.meta["example_value"]
            for at, node in zip(takes, piece.given, strict=True)
        ]
        steps.append((compile_piece(piece, examples), takes, len(piece.made)))
        number.update((node, at) for at, node in enumerate(piece.made, start=len(number)))
    return _C.Sequence(len(example_inputs), steps, [number[node] for node in output.args[0]])
