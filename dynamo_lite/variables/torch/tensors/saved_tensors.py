"""Writes into tensors that autograd has saved for a backward.

In eager such a write makes the backward raise, if there is one. A backend that compiles the backward with the forward
raises while it compiles, so the write is in a graph of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx

from dynamo_lite.insight.break_reasons import SavedIsOverwritten
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import unsupported

from .overlapping_views import Operands, nodes_of, path_to_base


def check_saved(name: str, mutated: Sequence[torch.Tensor], operands: Operands) -> None:
    """Break the graph before an operator that mutates what an earlier one has saved. Its fakes have been mutated."""
    for node in nodes_of(mutated, operands):
        base = list(path_to_base(node))[-1][0]
        for value in _computed_from(base):
            if not _is_intact(value):
                unsupported(SavedIsOverwritten(name))


def _is_intact(value: torch.Tensor) -> bool:
    """Whether nothing that a tensor's history needs was mutated since."""
    try:
        grad_fn = value.grad_fn
    except RuntimeError:  # of a view, after a mutation of its base by which torch can't compute it
        return False
    return grad_fn is None or _has_all_it_saved(grad_fn)


def _computed_from(base: torch.fx.Node) -> Iterator[torch.Tensor]:
    """The tensors with a history among: a tensor, its views, and what was computed from these directly."""
    memory, todo = base.meta["example_value"], [base]
    seen = set(todo)
    for node in todo:
        value = node.meta.get("example_value")
        items = value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in items if isinstance(each, torch.Tensor) and each.requires_grad)
        if any(share_memory(each, memory) for each in items):
            new = [user for user in node.users if user not in seen]
            seen.update(new)
            todo += new


def _names_of_saved(node: object) -> list[str]:
    return [name for name in dir(type(node)) if name.startswith("_saved_")]


def _before(grad_fn: Any) -> list[Any]:
    return [each for each, _ in grad_fn.next_functions if each is not None]


def _has_all_it_saved(grad_fn: Any) -> bool:
    """Whether a node of autograd's graph, and those before it, have saved nothing that was mutated since. (An operator
    that mutates its operand puts a node in front of the one that computed it, and another one if that is a view.)"""
    nodes = [grad_fn, *_before(grad_fn)]
    nodes += [node for each in nodes if _is_write_into_view(each) for node in _before(each)]
    try:
        for each in nodes:
            for name in _names_of_saved(each):
                getattr(each, name)
            if _is_write_into_view(each):
                _run_on_fakes(each)
    except RuntimeError:  # as the backward would
        return False
    return True


def _is_write_into_view(node: Any) -> bool:
    return bool(node.name() == "torch::autograd::CopySlices")


def _run_on_fakes(node: Any) -> None:
    """Run the backward of a write into a view. What it has saved belongs to a node in it that Python doesn't see."""
    (gradient,) = node._input_metadata
    with torch.no_grad():
        node(torch.zeros(gradient.shape, dtype=gradient.dtype, device=gradient.device))
