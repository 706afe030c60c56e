"""Control flow operators: ``torch.cond``, ``while_loop`` and ``scan``.

Their Python code, which flattens the arguments, is inlined; the operator that it calls takes traced functions. In
eager, torch compiles these functions and raises where it can't. So a call that torch refuses breaks the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import torch
from torch._higher_order_ops import utils as torch_operators
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from dynamo_lite.insight.break_reasons import HigherOrderOperator
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.shared_memory import memory_of
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.registry import models, models_break, models_raw
from dynamo_lite.variables.python.containers.sequences import SequenceVariable, TupleVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .bodies import (
    BodyVariable,
    all_tensors,
    body_parameters,
    same_structure,
    tensor_leaves,
    trace_body,
    tuple_of_nodes,
    with_results,
)


def _refuse(operator: str, why: str) -> NoReturn:
    unsupported(HigherOrderOperator(operator, why))


@models(torch_operators._maybe_compile_and_run_fn)
def _compile_and_run(tx: Translator, function: VariableTracker, *args: VariableTracker) -> VariableTracker:
    return tx.call(function, list(args), {})


def _check_body(
    operator: str, body: BodyVariable, check_inputs: bool = True, carried: Iterable[VariableTracker] = ()
) -> None:
    """Break the graph for a body that torch refuses.

    Its results may share memory neither with each other nor with its inputs, and the inputs not with each other. And
    where the operator is differentiated, torch runs the body without autograd: gradients computed inside would be zero.
    """
    graph: Any = body.graph.module(body.name)[1].graph
    nodes: torch.fx.graph._node_list = graph.nodes
    inputs = [node for node in nodes if node.op == "placeholder"]
    results = next(iter(reversed(nodes))).args[0]
    taken, returned = ([_memory(node) for node in some if _memory(node) is not None] for some in (inputs, results))
    if len(set(returned)) < len(returned) or not set(returned).isdisjoint(taken):
        _refuse(operator, "a result of its function shares memory with another result or with an input")
    fakes = [node.meta["example_value"] for node in inputs] + [each.as_fx()[1] for each in carried]
    if not all(isinstance(fake, (torch.Tensor, torch.SymInt)) for fake in fakes if type(fake) is not int):
        _refuse(operator, "its function uses a value that is no tensor")
    requires_grad = any(getattr(fake, "requires_grad", False) for fake in fakes)
    if body.differentiates and torch.is_grad_enabled() and requires_grad:
        _refuse(operator, "its function computes gradients, and is differentiated itself")
    if check_inputs and len(set(taken)) < len(taken):
        _refuse(operator, "tensors that its function uses share memory")


def _memory(node: object) -> int | None:
    return memory_of(node.meta["example_value"] if isinstance(node, torch.fx.Node) else node)


def _shared_operands(bodies: Sequence[BodyVariable]) -> tuple[TupleVariable, Args]:
    """The nodes that the bodies use, each once; and for each body the indices of those that it takes."""
    union = list(dict.fromkeys(node for body in bodies for node in body.lifted))
    return tuple_of_nodes(union), [InvariantVariable(tuple(map(union.index, body.lifted))) for body in bodies]


def _inline_whole(function: Callable[..., object], tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Inline a function without graph breaks inside it. It takes another path where `is_compiling` returns True, so a
    break must be before its call."""
    return tx.inline(tx.make(function), args, kwargs)


for _each in (torch.cond, torch.while_loop):
    models_raw(_each, functools.partial(_inline_whole, _each))


for _name in ("map", "switch"):  # torch 2.15 has the latter
    if hasattr(torch._higher_order_ops, _name):
        _reason = HigherOrderOperator(
            f"torch._higher_order_ops.{_name}()", "it is a prototype, which torch compiles itself"
        )
        models_break(_reason, getattr(torch._higher_order_ops, _name))


@models(type(cond_op).__call__)
def _cond(
    tx: Translator,
    _: VariableTracker,
    pred: VariableTracker,
    true_fn: VariableTracker,
    false_fn: VariableTracker,
    operands: VariableTracker,
) -> VariableTracker:
    branch_args: Args = operands.elements(tx)
    if pred.python_type() in (bool, int, float):
        return tx.call(true_fn if tx.truth(pred) else false_fn, branch_args, {})
    if not isinstance(pred, TensorVariable):
        _refuse("torch.cond()", "its predicate is no tensor")
    bodies = [
        trace_body(tx, functools.partial(tx.call, each, branch_args, {}), [each, *branch_args])
        for each in (true_fn, false_fn)
    ]
    if not same_structure(bodies[0].output, bodies[1].output):
        _refuse("torch.cond()", "its branches return different structures, or tensors of different metadata")
    for body in bodies:
        _check_body("torch.cond()", body, torch.is_grad_enabled())
    shared, picks = _shared_operands(bodies)
    arguments = [pred, *bodies, *picks, shared]
    return with_results(tx, bodies[0].output, record(tx, graph_functions.cond, arguments, {}))


@models(type(while_loop_op).__call__)
def _while_loop(
    tx: Translator,
    _: VariableTracker,
    cond_fn: VariableTracker,
    body_fn: VariableTracker,
    carried_inputs: VariableTracker,
    additional_inputs: VariableTracker,
) -> VariableTracker:
    name = "torch.while_loop()"
    carried = [each.realize() for each in carried_inputs.elements(tx)]
    tensors = [each for each in carried if isinstance(each, TensorVariable)]
    if len(tensors) < len(carried) or additional_inputs.elements(tx):
        _refuse(name, "it carries values that are no tensors")

    def trace(function: VariableTracker) -> BodyVariable:
        def run() -> VariableTracker:
            return tx.call(function, [*body_parameters(tx, [each.fake.clone() for each in tensors])], {})

        return trace_body(tx, run, [function])

    condition, body = trace(cond_fn), trace(body_fn)
    returns_tensors = all_tensors(body.output) and len(tensor_leaves(body.output)) == len(carried)
    truth = condition.output
    returns_truth = isinstance(truth, TensorVariable) and truth.fake.dtype is torch.bool and truth.fake.ndim == 0
    if not returns_truth or not returns_tensors:
        _refuse(name, "its functions must return a truth value, and new tensors for those that it carries")
    for each in (condition, body):
        _check_body(name, each, carried=carried)
    tx.graph.reads_inside = True
    shared, picks = _shared_operands([condition, body])
    arguments = [condition, body, *picks, TupleVariable(carried), shared]
    return with_results(tx, body.output, record(tx, graph_functions.while_loop, arguments, {}))


@models(type(scan_op).__call__)
def _scan(
    tx: Translator,
    _: VariableTracker,
    combine_fn: VariableTracker,
    init: VariableTracker,
    xs: VariableTracker,
    additional_inputs: VariableTracker,
) -> VariableTracker:
    name = "torch._higher_order_ops.scan()"
    carried, scanned = ([each.realize() for each in some.elements(tx)] for some in (init, xs))
    if additional_inputs.elements(tx):
        _refuse(name, "it has additional inputs")

    def run() -> VariableTracker:
        fakes = [each.as_fx()[1].clone() for each in carried]
        fakes += [torch_operators.first_slice_copy(each.as_fx()[1]) for each in scanned]
        return tx.call(combine_fn, [*body_parameters(tx, fakes)], {})

    body = trace_body(tx, run, [combine_fn])
    output = body.output
    pair = [each.realize() for each in output.items] if isinstance(output, SequenceVariable) else []
    if len(pair) != 2 or not all_tensors(output):
        _refuse(name, "its function does not return a pair of structures of tensors")
    state = tensor_leaves(pair[0])
    if len(state) != len(carried) or not all(map(same_structure, carried, state)):
        _refuse(name, "its function does not return new values of what it carries")
    _check_body(name, body)
    tx.graph.reads_inside = True
    arguments = [body, init, xs, tuple_of_nodes(body.lifted)]
    return with_results(tx, output, record(tx, scan_op, arguments, {}))
