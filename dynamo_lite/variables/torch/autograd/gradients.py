"""``torch.autograd.grad`` in a graph: one operator, which differentiates the operators before it.

A compiler sees the graph alone. So the path from outputs back to inputs may have no autograd nodes from before the
graph, and a backward that the call frees must not be needed after the graph.
"""

from __future__ import annotations

import torch
from torch.autograd.graph import Node

from dynamo_lite.insight.break_reasons import GradientBeyondGraph
from dynamo_lite.records.autograd_history import history
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .tensor_hooks import has_pending_hooks


@models(torch.autograd.grad)
def _grad(
    tx: Translator,
    outputs: VariableTracker,
    inputs: VariableTracker,
    grad_outputs: VariableTracker | None = None,
    retain_graph: VariableTracker | None = None,
    create_graph: VariableTracker | None = None,
    only_inputs: VariableTracker | None = None,
    allow_unused: VariableTracker | None = None,
    is_grads_batched: VariableTracker | None = None,
    materialize_grads: VariableTracker | None = None,
) -> VariableTracker:
    if only_inputs is not None and not tx.truth(only_inputs):
        unsupported(GradientBeyondGraph("torch warns of only_inputs=False"))
    operands = _plain_tensors(tx, outputs), _plain_tensors(tx, inputs)
    tangents = [] if grad_outputs is None or tx.is_none(grad_outputs) else _sequence(tx, grad_outputs)
    if any(not isinstance(each, TensorVariable) and not tx.is_none(each) for each in tangents):
        unsupported(GradientBeyondGraph("its grad_outputs are neither tensors nor None"))
    named = {
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "allow_unused": allow_unused,
        "materialize_grads": materialize_grads,
        "is_grads_batched": is_grads_batched,
    }
    options = {name: tx.python_value(each) for name, each in named.items() if each is not None}
    path = _check_path(tx, *operands)
    arguments = [*(TupleVariable(list(each)) for each in operands), TupleVariable(tangents), InvariantVariable(options)]
    gradients = record(tx, graph_functions.gradients, arguments, {})
    tx.graph.differentiates = True
    retains = options.get("retain_graph")
    if not (options.get("create_graph") if retains is None else retains):
        tx.attempt.provenance.freed(path)
    return gradients


def _sequence(tx: Translator, value: VariableTracker) -> list[VariableTracker]:
    value = value.realize()
    return [value] if isinstance(value, TensorVariable) else [each.realize() for each in value.elements(tx)]


def _plain_tensors(tx: Translator, value: VariableTracker) -> list[TensorVariable]:
    values = _sequence(tx, value)
    tensors = [each for each in values if isinstance(each, TensorVariable) and not each.has_torch_function]
    if len(tensors) < len(values):
        unsupported(GradientBeyondGraph("its outputs or inputs are no plain tensors"))
    return tensors


def _check_path(tx: Translator, outputs: list[TensorVariable], inputs: list[TensorVariable]) -> set[Node]:
    """The autograd nodes between outputs and inputs. Breaks the graph unless its operators created all of them."""
    if not tx.attempt.restart_facts.differentiates:
        unsupported(GradientBeyondGraph("the backend failed on a graph with it"))
    bodies = tx.graph.scope.nesting
    is_in_backward = len(bodies) == 2 and bodies[-1].is_backward  # of a Function that is called in no body
    if bodies and not is_in_backward:
        unsupported(GradientBeyondGraph("it is called in a function that an operator runs"))
    if has_pending_hooks(tx):
        unsupported(GradientBeyondGraph("a hook was registered before it, which takes effect after the graph only"))
    outside: set[Node] = set()
    for graph_input in tx.graph.tensors:
        if not graph_input.value.requires_grad or graph_input.is_thawed:
            continue
        if graph_input.convert is not None or graph_input.value._backward_hooks is not None:
            unsupported(GradientBeyondGraph(f"{graph_input.source} has hooks, or is of a subclass"))
        for name in ("_backward_hooks", "is_leaf"):
            tx.attempt.values.wrap(getattr(graph_input.value, name), graph_input.source.child("c_attr", name)).realize()
        if not graph_input.value.is_leaf:
            outside.update(history([graph_input.fake]))
    for body in bodies:
        outside.update(history(body.existing()))
    path = set(history([each.fake for each in outputs], [each.fake for each in inputs]))
    if not path.isdisjoint(outside):
        unsupported(GradientBeyondGraph("it needs the backward of operators that ran before the graph"))
    return path
