"""Writes through views whose items share memory: of ``expand``, ``unfold``, ``as_strided``.

Compilers replace a write into a view by operators on the whole tensor under it. Where items of a view on the way share
memory, they fail or compute something else. So a write into a part without such items is recorded as one into a view
of the tensor under the overlapping views; other writes break the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.nn.parameter import is_lazy

from dynamo_lite.insight.break_reasons import OverlappingWrite
from dynamo_lite.runtime.node_text import bare_name
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import Translator, unsupported

from .known_tensors import KnownTensors

_OVERLAPPING = frozenset(
    {"unfold", "as_strided", "expand", "expand_as", "broadcast_to", "broadcast_tensors", "meshgrid"}
)
"""Operators whose results may be views with items that share memory."""

Operands = tuple[tuple[Any, ...], dict[str, Any]]
"""A node's arguments, positional ones and named ones."""


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether items may share memory. False is certain."""
    if not tensor.numel():
        return False
    end = 0  # of the items along the dimensions so far
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= end:
                return True
            end += (size - 1) * stride
    return False


def nodes_of(mutated: Sequence[torch.Tensor], operands: Operands) -> list[torch.fx.Node]:
    """The nodes of the operands that an operator mutates."""
    found: list[torch.fx.Node] = []
    torch.fx.node.map_arg(operands, found.append)
    return [node for node in found if any(node.meta.get("example_value") is fake for fake in mutated)]


def path_to_base(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, torch.Tensor]]:
    """A tensor's node and fake, then those of the tensors that it is a view of, in turn."""
    found: torch.fx.Node | None = node
    while found is not None:
        fake = found.meta.get("example_value")
        if isinstance(fake, torch.Tensor):
            memory = fake
            yield found, fake
        above = [each for each in found.all_input_nodes if _may_hold(each.meta.get("example_value"), memory)]
        found = above[0] if above else None


def _may_hold(value: object, memory: torch.Tensor) -> bool:
    if isinstance(value, (list, tuple)):
        return any(share_memory(each, memory) for each in value)
    return share_memory(value, memory)


def through_base(
    tx: Translator, name: str, mutated: Sequence[torch.Tensor], fakes: Sequence[Any], operands: Operands
) -> Operands:
    """The operands of an operator that mutates some of them. If it writes into its first one, and that is taken from an
    overlapping view, a view of the tensor under it takes its place. Otherwise such a write breaks the graph."""
    for node in nodes_of(mutated, operands):
        path = list(path_to_base(node))
        if any(_is_overlapping(tx, each, fake) for each, fake in path):
            is_first = len(mutated) == 1 and bool(operands[0]) and operands[0][0] is node
            if not is_first or fakes[0]._base is not path[-1][1]:
                unsupported(OverlappingWrite(name, _SHARED))
            return _rebased(tx, name, path[-1], fakes, operands)
    return operands


_SHARED = "several elements of the tensor share, as after expand()"
_BASIC_INDEX = (int, torch.SymInt, slice, type(None), type(...))


def _rebased(
    tx: Translator, name: str, base: tuple[torch.fx.Node, torch.Tensor], fakes: Sequence[Any], operands: Operands
) -> Operands:
    """The operands with a view of ``base`` in the place of the first one. It is the only one on the way: AOTAutograd
    takes no others under or over ``as_strided``."""
    written, rest = fakes[0], [*operands[0][1:]]
    if name in ("setitem", "__setitem__"):  # it writes into the indexed view
        indices = fakes[1] if isinstance(fakes[1], tuple) else (fakes[1],)
        if not all(isinstance(each, _BASIC_INDEX) and not isinstance(each, bool) for each in indices):
            unsupported(OverlappingWrite(name, _SHARED))
        written, rest = written.detach()[fakes[1]], [..., *rest[1:]]
    if _overlaps_itself(written):
        unsupported(OverlappingWrite(name, _SHARED))
    for each in tx.graph.inputs_in_storage(base[1]):
        if not each.is_array:
            each.source.check("storage_offset", each.value.storage_offset())
    layout = written.shape, written.stride(), written.storage_offset()
    numbers = [tx.make(each).as_fx()[0] for each in layout]
    view = tx.graph.call("call_method", "as_strided", (base[0], *numbers), {}, base[1].as_strided(*layout))
    return (view, *rest), operands[1]


def _is_overlapping(tx: Translator, node: torch.fx.Node, fake: torch.Tensor) -> bool:
    if node.op == "placeholder":
        given = tx.attempt.state(KnownTensors).of(fake)
        value = None if given is None else given.value
        return isinstance(value, torch.Tensor) and not is_lazy(value) and _overlaps_itself(value)
    made_by = node.args[0] if bare_name(node.target) == "getitem" else node
    name = bare_name(made_by.target) if isinstance(made_by, torch.fx.Node) else ""
    # Windows overlap by their size and step for functionalization, also where there is just one.
    return name == "unfold" or name in _OVERLAPPING and _overlaps_itself(fake)
