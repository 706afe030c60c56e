"""Branches and loops that are operators: ``torch.cond``, ``while_loop``, ``map`` and ``scan``.

Their Python, which flattens what they are given, is inlined; the operators beneath it take traced functions. In eager
torch's own compiler traces those and raises where it can't, so what it refuses breaks the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._higher_order_ops import utils as torch_operators
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Args, VariableTracker
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import SequenceVariable, TupleVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .bodies import (
    BodyVariable,
    NodesVariable,
    PlainVariable,
    alike,
    all_tensors,
    element,
    given,
    leaves,
    refuse,
    trace_body,
    with_results,
)


@models(torch_operators._maybe_compile_and_run_fn)
def _compile_and_run(tx: Translator, function: VariableTracker, *args: VariableTracker) -> VariableTracker:
    return tx.call(function, list(args), {})  # type: ignore[no-any-return]


def _check_body(name: str, body: BodyVariable, inputs_too: bool = True, carried: Sequence[Any] = ()) -> None:
    """Torch takes no function of which two results, or one and what it is given, share memory; nor two that it is
    given. Where gradients are followed through the operator its function is run without autograd, and what
    differentiates inside gives zeros."""
    nodes = body.graph.module(body.name)[1].graph.nodes
    inputs = [node for node in nodes if node.op == "placeholder"]
    results = next(iter(reversed(nodes))).args[0]
    taken, made = ([_storage(node) for node in nodes if _storage(node) is not None] for nodes in (inputs, results))
    if len(set(made)) < len(made) or not set(made).isdisjoint(taken):
        refuse(name, "what its function returns shares memory")
    fakes = [node.meta["example_value"] for node in inputs] + [each.as_fx()[1] for each in carried]
    if not all(isinstance(fake, (torch.Tensor, torch.SymInt)) for fake in fakes if type(fake) is not int):
        refuse(name, "its function uses what is no tensor")
    needs = [getattr(fake, "requires_grad", False) for fake in fakes]
    if body.differentiates and torch.is_grad_enabled() and any(needs):
        refuse(name, "its function differentiates, and so does what runs it")
    if inputs_too and len(set(taken)) < len(taken):
        refuse(name, "tensors that its function uses share memory")


def _storage(node: Any) -> int | None:
    fake = node.meta["example_value"] if isinstance(node, torch.fx.Node) else node
    return fake.untyped_storage()._cdata if isinstance(fake, torch.Tensor) else None


def _shared_operands(bodies: list[BodyVariable]) -> tuple[NodesVariable, Args]:
    """All that the bodies use, once; and for each body which of those it takes."""
    union = list(dict.fromkeys(node for body in bodies for node in body.lifted))
    return NodesVariable(union), [PlainVariable(tuple(union.index(node) for node in body.lifted)) for body in bodies]


def _whole(function: Any) -> None:
    """It does something else where it is told that it is compiled, so nothing breaks inside."""

    @models(function)
    def model(tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        return tx.inline(tx.make(function), list(args), kwargs)  # type: ignore[no-any-return]


for _each in (torch.cond, torch.while_loop):
    _whole(_each)


@models(type(cond_op).__call__)
def _cond(
    tx: Translator,
    _: VariableTracker,
    pred: VariableTracker,
    true_fn: VariableTracker,
    false_fn: VariableTracker,
    operands: VariableTracker,
) -> VariableTracker:
    given_operands: Args = operands.elements(tx)
    if pred.python_type() in (bool, int, float):
        return tx.call(true_fn if tx.truth(pred) else false_fn, given_operands, {})  # type: ignore[no-any-return]
    if not isinstance(pred, TensorVariable):
        refuse("torch.cond()", "its predicate is no tensor")
    bodies = [
        trace_body(tx, functools.partial(tx.call, each, given_operands, {}), [each, *given_operands])
        for each in (true_fn, false_fn)
    ]
    if not alike(tx, bodies[0].output, bodies[1].output):
        refuse("torch.cond()", "its branches do not return the same")
    for body in bodies:
        _check_body("torch.cond()", body, torch.is_grad_enabled())
    operands_node, picks = _shared_operands(bodies)
    arguments = [pred, *bodies, *picks, operands_node]
    return with_results(tx, bodies[0].output, record(tx, "call_function", graph_functions.cond, arguments, {}))


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
    if not all(_is_carried(each) for each in carried) or additional_inputs.elements(tx):
        refuse(name, "not all that it carries are tensors and integers")
    if not tx.attempt.carries_integers and not all(isinstance(each, TensorVariable) for each in carried):
        refuse(name, "it carries integers, which the backend doesn't take")

    def traced(function: VariableTracker) -> BodyVariable:
        def run() -> VariableTracker:
            return tx.call(function, [_in_a_round(tx, each) for each in carried], {})  # type: ignore[no-any-return]

        return trace_body(tx, run, [function], functools.partial(_flat, tx))

    bodies = [traced(cond_fn), traced(body_fn)]
    results = _flat(tx, bodies[1].output)
    if (
        not _is_truth(bodies[0].output)
        or len(results) != len(carried)
        or not all(_is_carried(each) for each in results)
    ):
        refuse(name, "its functions do not return a truth value and what it carries")
    for body in bodies:
        _check_body(name, body, carried=carried)
    tx.graph.reads_inside = True
    operands, picks = _shared_operands(bodies)
    arguments = [*bodies, *picks, TupleVariable(list(carried)), operands]
    found = record(tx, "call_function", graph_functions.while_loop, arguments, {})
    return _refilled(tx, bodies[1].output, iter(_flat(tx, found)))


def _is_carried(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) or value.python_type() is int


def _in_a_round(tx: Translator, carried: VariableTracker) -> VariableTracker:
    """What a loop's functions see of what it carries: nothing is known of integers."""
    if isinstance(carried, TensorVariable):
        return given(tx, [(None, carried.as_fx()[1].clone())])[0]
    return tx.make(tx.graph.body_integer_input())  # type: ignore[no-any-return]


def _flat(tx: Translator, value: Any) -> list[Any]:
    """All that is in a structure of containers, in the order of `leaves`."""
    value = value.realize()
    parts = value.structure_items()
    return [value] if parts is None else [each for part in parts for each in _flat(tx, part)]


def _refilled(tx: Translator, value: Any, new: Iterator[VariableTracker]) -> VariableTracker:
    """A structure like this with other things in it."""
    value = value.realize()
    parts = value.structure_items()
    if parts is None:
        return next(new)
    return value.with_structure_items(tx, iter([_refilled(tx, part, new) for part in parts]))  # type: ignore[no-any-return]


def _is_truth(value: Any) -> bool:
    if isinstance(value, TensorVariable):
        return value.fake.dtype is torch.bool and value.fake.ndim == 0
    return value.is_symbolic and value.python_type() is bool


@models(type(map_impl).__call__)
def _map(
    tx: Translator, _: VariableTracker, function: VariableTracker, xs: VariableTracker, pos_args: VariableTracker
) -> VariableTracker:
    name = "torch._higher_order_ops.map()"
    mapped, others = ([each.realize() for each in some.elements(tx)] for some in (xs, pos_args))

    def run() -> VariableTracker:
        inside = given(tx, [(None, element(each.as_fx()[1], 0)) for each in mapped])
        return tx.call(function, [*inside, *others], {})

    body = trace_body(tx, run, [function, *others])
    if not all_tensors(tx, body.output) and not tx.is_none(body.output):
        refuse(name, "its function returns more than tensors")
    _check_body(name, body)
    tx.graph.reads_inside = True
    arguments = [body, xs, NodesVariable(body.lifted)]
    return with_results(tx, body.output, record(tx, "call_function", map_impl, arguments, {}))


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
        refuse(name, "it is given additional inputs")

    def run() -> VariableTracker:
        fakes = [each.as_fx()[1].clone() for each in carried]
        fakes += [torch_operators.first_slice_copy(each.as_fx()[1]) for each in scanned]
        return tx.call(combine_fn, list(given(tx, [(None, fake) for fake in fakes])), {})

    body = trace_body(tx, run, [combine_fn])
    output = body.output
    pair = [each.realize() for each in output.items] if isinstance(output, SequenceVariable) else []
    if len(pair) != 2 or not all_tensors(tx, output):
        refuse(name, "its function does not return two structures of tensors")
    state = leaves(tx, pair[0])
    if len(state) != len(carried) or not all(alike(tx, one, other) for one, other in zip(carried, state)):
        refuse(name, "its function does not return what it carries")
    _check_body(name, body)
    tx.graph.reads_inside = True
    arguments = [body, init, xs, NodesVariable(body.lifted)]
    return with_results(tx, output, record(tx, "call_function", scan_op, arguments, {}))
