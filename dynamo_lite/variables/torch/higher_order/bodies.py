"""Functions of the program that an operator runs: traced into graphs of their own.

A body may run any number of times, at another time than the program's call, so it may have no effect on what is outside
of it, and no tensor may leave it but as its result.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedValue
from dynamo_lite.records.side_effects import slots
from dynamo_lite.variables.core.base import InvariantVariable, LazyVariable, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.torch.contexts.context import AUTOCAST_DEVICES
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


class BodyVariable(VariableTracker):
    """A traced function as an argument of the operator that runs it. ``lifted``: the nodes around it that it uses."""

    __slots__ = ("graph", "name", "lifted", "output", "differentiates", "reads_grad_mode")

    def __init__(self, graph: Any, name: str, lifted: list[Any], output: VariableTracker | None = None) -> None:
        self.source = None
        self.graph = graph
        self.name = name
        self.lifted = lifted
        self.output = output
        self.differentiates = self.reads_grad_mode = False
        """As of `Body`."""

    def python_type(self) -> type:
        return torch.fx.GraphModule

    def as_fx(self) -> tuple[Any, Any]:
        return self.graph.module(self.name)


class NodeVariable(VariableTracker):
    """A value of the graph as an argument."""

    __slots__ = ("node",)

    def __init__(self, node: Any) -> None:
        self.source = None
        self.node = node

    def python_type(self) -> type:
        return torch.Tensor

    def as_fx(self) -> tuple[Any, Any]:
        return self.node, self.node.meta["example_value"]


class NodesVariable(VariableTracker):
    """Values of the graph as a tuple argument."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Any]) -> None:
        self.source = None
        self.nodes = nodes

    def python_type(self) -> type:
        return tuple

    def as_fx(self) -> tuple[Any, Any]:
        return tuple(self.nodes), tuple(node.meta["example_value"] for node in self.nodes)


class PlainVariable(InvariantVariable):
    """A constant argument of any nesting."""

    __slots__ = ()


def given(
    tx: Translator, fakes: list[tuple[Any, torch.Tensor]], kind: type[TensorVariable] = TensorVariable
) -> list[TensorVariable]:
    """Parameters of the body under way: for nodes outside (or nothing), what they are inside."""
    body = tx.graph.bodies[-1]
    found = []
    for outer, fake in fakes:
        node = body.placeholder(fake) if outer is None else body.lift(outer, fake)
        tracker = kind(node, fake, torch.Tensor)
        tx.attempt.values.fakes[id(fake)] = tracker
        found.append(tracker)
    return found


def trace_body(
    tx: Translator,
    run: Callable[[], VariableTracker],
    outside: list[VariableTracker],
    results: Callable[[VariableTracker], list[VariableTracker]] | None = None,
    grad_mode: bool | None = None,
    transform: str = "",
    later: bool = False,
) -> BodyVariable:
    """Trace ``run`` as a body whose results are the tensors in what it returns. ``outside``: what it can reach;
    ``grad_mode``: the one it runs in, where that is not the program's; ``transform``: of torch.func, that runs it;
    ``later``: it runs in the backward, which as a rule no autocast is around."""
    before = torch.is_grad_enabled()
    body = tx.graph.open(before if grad_mode is None else grad_mode)
    body.transform, body.runs_later = transform, later
    torch._C._set_grad_enabled(body.initial_grad_mode)
    with tx.effects.forbidden(reachable(outside)), _no_autocast() if later else contextlib.nullcontext():
        output = run().realize()
    torch._C._set_grad_enabled(before)
    tensors = leaves(tx, output) if results is None else results(output)
    name = tx.graph.close(body, [each.as_fx()[0] for each in tensors])
    found = BodyVariable(tx.graph, name, list(body.lifted), output)
    found.differentiates, found.reads_grad_mode = body.differentiates, body.reads_grad_mode
    return found


@contextlib.contextmanager
def _no_autocast() -> Iterator[None]:
    enabled = [device for device in AUTOCAST_DEVICES if torch.is_autocast_enabled(device)]
    for device in enabled:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in enabled:
            torch.set_autocast_enabled(device, True)


def leaves(tx: Translator, value: VariableTracker) -> list[TensorVariable]:
    """The tensors in a structure of containers and constants."""
    return list(_leaves(tx, value))


def _leaves(tx: Translator, value: VariableTracker) -> Iterator[TensorVariable]:
    value = value.realize()
    if isinstance(value, TensorVariable):
        if value.has_torch_function:
            unsupported(UnsupportedValue(value.describe(), "an operator's function can't take or return it"))
        yield value
        return
    parts = value.structure_items()
    if parts is None and not isinstance(value, ConstantVariable):
        unsupported(UnsupportedValue(value.describe(), "an operator's function can't take or return it"))
    for part in parts or ():
        yield from _leaves(tx, part)


def replaced(tx: Translator, value: VariableTracker, new: Iterator[VariableTracker]) -> VariableTracker:
    """A structure like ``value`` with its tensors replaced, in the order of `leaves`."""
    value = value.realize()
    if isinstance(value, TensorVariable):
        return next(new)
    parts = value.structure_items()
    return value if parts is None else value.with_structure_items(tx, iter([replaced(tx, part, new) for part in parts]))


def refuse(name: str, why: str) -> NoReturn:
    """Break the graph at the call of an operator over functions."""
    unsupported(UnknownCall(name, why))


def with_results(tx: Translator, output: VariableTracker, found: VariableTracker) -> VariableTracker:
    """The structure that the program's function returned, with the operator's results in it."""
    return replaced(tx, output, iter(leaves(tx, found)))


def all_tensors(tx: Translator, value: VariableTracker) -> bool:
    """Whether a structure has no constants in it."""
    value = value.realize()
    parts = value.structure_items()
    return isinstance(value, TensorVariable) if parts is None else all(all_tensors(tx, part) for part in parts)


def alike(tx: Translator, one: VariableTracker, other: VariableTracker) -> bool:
    """Whether two results have one structure, of tensors alike and the same integers."""
    if isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
        facts = [(each.fake.shape, each.fake.dtype, each.fake.device, each.fake.stride()) for each in (one, other)]
        return facts[0] == facts[1]
    if type(one) is not type(other):
        return False
    if isinstance(one, DictVariable) and list(one.items) != list(other.items):  # type: ignore[attr-defined]
        return False
    if one.structure_items() is not None:
        mine, theirs = ([part.realize() for part in each.structure_items() or ()] for each in (one, other))
        return len(mine) == len(theirs) and all(alike(tx, a, b) for a, b in zip(mine, theirs))
    values = [each.as_constant() if each.is_constant() else None for each in (one, other)]
    return type(values[0]) is int and values[0] == values[1]  # of constants torch takes no others


def element(fake: torch.Tensor, dim: int) -> torch.Tensor:
    """What a function sees of a tensor that it is mapped over: there may be no element to take."""
    if fake.shape[dim]:
        return fake.select(dim, 0)
    shape, strides = list(fake.shape), list(fake.stride())
    del shape[dim], strides[dim]
    made = torch.empty_strided(shape, strides, dtype=fake.dtype, device=fake.device)
    return made.requires_grad_(fake.requires_grad).view_as(made)


def reachable(roots: list[VariableTracker]) -> set[VariableTracker]:
    """The trackers that can be reached from these, those that were made inside of the trace among them."""
    found: set[VariableTracker] = set()
    waiting: list[Any] = list(roots)
    while waiting:
        value = waiting.pop()
        kind = type(value)  # not isinstance: some are the program's, and would be asked
        if kind is LazyVariable:
            if value.is_realized:
                waiting.append(value.realize())
        elif issubclass(kind, VariableTracker):
            if value not in found:
                found.add(value)
                waiting.extend(content for _, content in slots(value))
        elif kind in (list, tuple, deque):
            waiting.extend(value)
        elif kind is dict:
            waiting.extend(value.values())
    return found
