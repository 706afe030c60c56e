"""Bodies: functions of the program that an operator calls, traced into subgraphs.

An operator may call a body any number of times, and later than the program does. So a body may have no side effects
outside of it, unless it runs once, where the program calls it. Tensors may leave it only as its results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import EffectInOperatorFunction, UnsupportedValue
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.random_operators import draws_nothing
from dynamo_lite.records.subgraphs import Runs, Scope
from dynamo_lite.runtime.later_calls import Called
from dynamo_lite.variables.core.base import ObservedException, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.reachable import reachable
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.containers.structures import map_structure, structure_leaves
from dynamo_lite.variables.torch.contexts.torch_contexts import AUTOCAST_DEVICES
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors
from dynamo_lite.variables.torch.tensors.later_states import check_returned
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


class BodyVariable(VariableTracker):
    """A traced function as an argument of the operator that calls it.

    ``lifted``: the nodes of outer graphs that it uses; ``output``: what the program's function returned.
    """

    __slots__ = ("graph", "name", "lifted", "output", "results", "differentiates", "reads_grad_mode", "called")

    def __init__(
        self,
        graph: GraphBuilder,
        name: str,
        lifted: Sequence[torch.fx.Node] = (),
        output: VariableTracker | None = None,
    ) -> None:
        self.source = None
        self.graph = graph
        self.name = name
        self.lifted = list(lifted)
        self.output = output or ConstantVariable(None)
        self.results: list[VariableTracker] = []
        """What was selected of it."""
        self.differentiates = self.reads_grad_mode = False
        self.called = Called()
        """What the closed `Scope` noted."""

    def python_type(self) -> type:
        return torch.fx.GraphModule

    def as_fx(self) -> tuple[Any, Any]:
        return self.graph.module(self.name)


class NodeVariable(VariableTracker):
    """A node of the graph as an argument."""

    __slots__ = ("node",)

    def __init__(self, node: torch.fx.Node) -> None:
        self.source = None
        self.node = node

    def python_type(self) -> type:
        return torch.Tensor

    def as_fx(self) -> tuple[Any, Any]:
        return self.node, self.node.meta["example_value"]


def tuple_of_nodes(nodes: Iterable[torch.fx.Node]) -> TupleVariable:
    """Nodes of the graph as a tuple argument."""
    return TupleVariable([NodeVariable(node) for node in nodes])


def body_parameters(tx: Translator, fakes: Iterable[torch.Tensor]) -> list[TensorVariable]:
    """New parameters of the innermost body, one for each fake tensor."""
    body = tx.graph.scope
    parameters = []
    for fake in fakes:
        parameter = TensorVariable(body.placeholder(fake), fake, torch.Tensor)
        tx.attempt.state(KnownTensors).add(fake, parameter)
        parameters.append(parameter)
    return parameters


def trace_body(
    tx: Translator,
    run: Callable[[], VariableTracker],
    outside: Iterable[VariableTracker],
    results: Callable[[VariableTracker], Sequence[VariableTracker]] | None = None,
    grad_mode: bool | None = None,
    transform: str = "",
    runs: Runs = "now",
    takes_wrappers: bool = False,
    runs_once: bool = False,
) -> BodyVariable:
    """Trace a call of the program's function as a body.

    Args:
        run: calls the function.
        outside: values that the function can reach; it may not mutate what is reachable from them.
        results: selects the body's results in what ``run`` returns; by default the tensors in it.
        grad_mode: the grad mode of the body, if it isn't the program's.
        transform: the torch.func transform that calls the body.
        runs: when the body runs. In a backward, autocast is usually disabled.
        takes_wrappers: whether it may compute with wrapper subclasses.
        runs_once: whether the operator runs it once, where the program calls it, so that it may have side effects.
    """
    before, writes = torch.is_grad_enabled(), tx.graph.writes
    body = tx.graph.open(before if grad_mode is None else grad_mode, runs)
    body.transform, body.takes_wrappers, body.opened_by = transform, takes_wrappers, tx
    torch._C._set_grad_enabled(body.initial_grad_mode)
    try:
        with (
            tx.effects.forbidden(set(reachable(outside)), runs_once) as effects,
            _autocast_disabled() if body.is_backward else contextlib.nullcontext(),
        ):
            output = run().realize()
    except ObservedException:
        if not body.is_backward:
            torch._C._set_grad_enabled(before)
            _abandon(tx.graph, body, tx.graph.writes > writes)
            _check_stores(body, [*effects.mutated, *effects.globals])
        raise
    torch._C._set_grad_enabled(before)
    if effects.mutated or effects.globals:
        _check_stores(body, [*effects.mutated, *effects.globals])
    selected: Sequence[VariableTracker] = tensor_leaves(output) if results is None else results(output)
    if not body.is_backward and not all(tx.graph.may_be_output(each.as_fx()[1]) for each in selected):
        unsupported(EffectInOperatorFunction("it returns a tensor that a backward writes into"))
    check_returned(tx, [each.as_fx()[1] for each in selected if isinstance(each, TensorVariable)])
    name = tx.graph.close(body, [each.as_fx()[0] for each in selected])
    traced = BodyVariable(tx.graph, name, list(body.lifted), output)
    traced.results = [*selected]
    traced.differentiates, traced.reads_grad_mode = body.differentiates, body.reads_grad_mode
    traced.called = body.called
    return traced


def _abandon(graph: GraphBuilder, body: Scope, writes: bool) -> None:
    """Drop the innermost body, in which the program raises: the graph won't run its operators. ``writes``: whether one
    of them writes into a tensor."""
    ended = graph.scope
    are_known = all(node.op == "get_attr" or draws_nothing(node.op, node.target) for node in body.graph.nodes)
    if ended is not body or writes or graph.may_fail or not are_known:
        unsupported(EffectInOperatorFunction("it raises an exception after operators that may have effects"))
    graph.end(body)


def _check_stores(body: Scope, mutated: Iterable[VariableTracker]) -> None:
    """Break the graph if objects from outside hold a tensor that the body computes: it is one of the operator's."""
    if any(isinstance(each, TensorVariable) and each.node.graph is body.graph for each in reachable(mutated)):
        unsupported(EffectInOperatorFunction("it stores a tensor in an object from outside"))


@contextlib.contextmanager
def _autocast_disabled() -> Iterator[None]:
    enabled = [device for device in AUTOCAST_DEVICES if torch.is_autocast_enabled(device)]
    for device in enabled:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in enabled:
            torch.set_autocast_enabled(device, True)


def tensor_leaves(value: VariableTracker) -> list[TensorVariable]:
    """The tensors in a structure of containers and constants."""
    found = []
    for leaf in structure_leaves(value):
        if isinstance(leaf, TensorVariable):
            if leaf.has_torch_function:
                unsupported(UnsupportedValue(leaf.describe(), "an operator's function can't take or return a subclass"))
            found.append(leaf)
        elif not isinstance(leaf, ConstantVariable):
            unsupported(UnsupportedValue(leaf.describe(), "an operator's function can't take or return it"))
    return found


def results_anywhere(tx: Translator, output: VariableTracker) -> list[TensorVariable]:
    """The tensors that the innermost body computes, among all that its output refers to; for an output without any, the
    tensors in its structure."""
    graph = tx.graph.scope.graph
    found = []
    for each in reachable([output]):
        node = getattr(each, "node", None)
        if isinstance(node, torch.fx.Node) and node.graph is graph:
            if not isinstance(each, TensorVariable) or each.has_torch_function:
                unsupported(UnsupportedValue(each.describe(), "an operator's function can't take or return it"))
            found.append(each)
    return found or tensor_leaves(output)


def become_results(tx: Translator, body: BodyVariable, results: VariableTracker) -> None:
    """Let the tensors that `results_anywhere` found stand for an operator's results: whatever the body's output is, it
    holds these then."""
    open_graphs = [tx.graph.graph, *(each.graph for each in tx.graph.scope.nesting)]
    for tensor, made in zip(body.results, tensor_leaves(results), strict=True):
        if isinstance(tensor, TensorVariable) and tensor.node.graph not in open_graphs:
            tensor.node, tensor.fake, tensor.cls = made.node, made.fake, made.cls
            tx.attempt.state(KnownTensors).add(made.fake, tensor)


def replace_tensors(tx: Translator, value: VariableTracker, new: Iterator[VariableTracker]) -> VariableTracker:
    """A structure like ``value`` with other tensors, in the order of `tensor_leaves`."""
    return map_structure(tx, value, lambda leaf: next(new) if isinstance(leaf, TensorVariable) else leaf)


def with_results(tx: Translator, output: VariableTracker, results: VariableTracker) -> VariableTracker:
    """The structure that the program's function returned, with the operator's results as its tensors."""
    return replace_tensors(tx, output, iter(tensor_leaves(results)))


def all_tensors(value: VariableTracker) -> bool:
    """Whether a structure consists of tensors alone, without constants."""
    return all(isinstance(leaf, TensorVariable) for leaf in structure_leaves(value))


def same_structure(one: VariableTracker, other: VariableTracker, compares_metadata: bool = True) -> bool:
    """Whether two results have the same structure, of tensors with equal metadata and of equal integers."""
    if isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
        if not compares_metadata:
            return True
        metadata = [(each.fake.shape, each.fake.dtype, each.fake.device, each.fake.stride()) for each in (one, other)]
        return metadata[0] == metadata[1]
    if type(one) is not type(other):
        return False
    keys = [list(part.items) for each in (one, other) if isinstance(part := each.builtin_part(), DictVariable)]
    if any(each != keys[0] for each in keys):
        return False
    if one.structure_items() is not None:
        items, others = ([item.realize() for item in each.structure_items() or ()] for each in (one, other))
        pairs = zip(items, others)
        return len(items) == len(others) and all(same_structure(*pair, compares_metadata) for pair in pairs)
    values = [each.as_constant() if each.is_constant() else None for each in (one, other)]
    return type(values[0]) is int and values[0] == values[1]  # torch's operators take no other constants


def mapped_element(fake: torch.Tensor, dim: int) -> torch.Tensor:
    """An element of a tensor along the dimension that a function is mapped over, which may have size 0."""
    if fake.shape[dim]:
        return fake.select(dim, 0)
    shape, strides = list(fake.shape), list(fake.stride())
    del shape[dim], strides[dim]
    created = torch.empty_strided(shape, strides, dtype=fake.dtype, device=fake.device)
    return created.requires_grad_(fake.requires_grad).view_as(created)
