"""``torch.autograd.grad`` in a graph: the gradients are operators of it, as the forward's are.

Autograd goes back through what the operators on fakes left, as it will through what they leave in each call. A compiler
sees no more than the graph, so nothing that was computed before it may be on the way; and what the call frees must not
be left to be differentiated after the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.records.replaced_data import history
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.torch.higher_order.bodies import LiteralVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .tensor_hooks import hooks_wait

_NAME = "torch.autograd.grad()"


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
        unsupported(UnknownCall(_NAME, "it warns of only_inputs=False"))
    given = [_tensors(tx, each) for each in (outputs, inputs)]
    tangents = [] if grad_outputs is None or tx.is_none(grad_outputs) else _parts(tx, grad_outputs)
    if any(not isinstance(each, TensorVariable) and not tx.is_none(each) for each in tangents):
        unsupported(UnknownCall(_NAME, "its grad_outputs are no tensors"))
    named = {"retain_graph": retain_graph, "create_graph": create_graph, "allow_unused": allow_unused}
    named.update(materialize_grads=materialize_grads, is_grads_batched=is_grads_batched)
    options = {name: tx.python_value(each) for name, each in named.items() if each is not None}
    freed = _check_way(tx, *given)
    arguments = [*(TupleVariable(list(each)) for each in given), TupleVariable(tangents), LiteralVariable(options)]
    found = record(tx, "call_function", graph_functions.gradients, arguments, {})
    tx.graph.differentiates = True
    kept = options.get("retain_graph")
    if not (options.get("create_graph") if kept is None else kept):
        tx.attempt.provenance.freed(freed)
    return found


def _parts(tx: Translator, value: VariableTracker) -> list[VariableTracker]:
    value = value.realize()
    return [value] if isinstance(value, TensorVariable) else [each.realize() for each in value.elements(tx)]


def _tensors(tx: Translator, value: VariableTracker) -> list[TensorVariable]:
    found = _parts(tx, value)
    if not all(isinstance(each, TensorVariable) and not each.has_torch_function for each in found):
        unsupported(UnknownCall(_NAME, "what it is given are no plain tensors"))
    return found  # type: ignore[return-value]


def _check_way(tx: Translator, outputs: list[TensorVariable], inputs: list[TensorVariable]) -> set[Any]:
    """The nodes of autograd's graph on the way back: all of them are to be made by operators of the graph."""
    if not tx.attempt.restart_facts.differentiates:
        unsupported(UnknownCall(_NAME, "the backend failed on a graph that has it"))
    bodies = tx.graph.bodies
    if bodies and not (len(bodies) == 2 and bodies[-1].is_backward):  # of a Function that is called in none
        unsupported(UnknownCall(_NAME, "it is called in a function that an operator runs"))
    if hooks_wait(tx):
        unsupported(UnknownCall(_NAME, "hooks are registered after the graph"))
    outside: set[Any] = set()
    for given in tx.graph.tensors:
        if not given.value.requires_grad or given.make is not None:
            continue
        if given.convert is not None or given.value._backward_hooks is not None:
            unsupported(UnknownCall(_NAME, f"gradients of {given.source} are for its hooks or its class"))
        for name in ("_backward_hooks", "is_leaf"):
            tx.attempt.values.wrap(getattr(given.value, name), given.source.child("c_attr", name)).realize()
        if not given.value.is_leaf:
            outside.update(history([given.fake]))
    for body in bodies:
        outside.update(history(body.found()))
    way = set(history([each.fake for each in outputs], [each.fake for each in inputs]))
    if not way.isdisjoint(outside):
        unsupported(UnknownCall(_NAME, "what was computed before the graph, or the backward, is on the way back"))
    return way
