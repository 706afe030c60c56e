"""``torch.nn.attention.flex_attention``: its operator, and the mode in which its functions index tensors by tensors."""

from __future__ import annotations

import contextlib

import torch
from torch.fx import traceback as fx_traceback

from dynamo_lite.insight.break_reasons import HigherOrderOperator
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Args, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.registry import Model, models, models_if
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.torch.contexts.torch_contexts import ContextVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .bodies import BodyVariable, body_parameters, trace_body, tuple_of_nodes


class IndexingVariable(ContextVariable):
    """torch's mode in which ``tensor[i]`` is an operator even if ``i`` is a tensor without dimensions."""

    __slots__ = ()

    def enter(self, tx: Translator) -> None:
        tx.graph.indexing += 1

    def exit(self, tx: Translator) -> None:
        tx.graph.indexing -= 1


_MODE = ("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex")


@models_if(type)
def _indexing(value: type) -> Model | None:
    if (value.__module__, value.__name__) != _MODE:
        return None
    return lambda tx, args, kwargs: IndexingVariable(tx.fold(value), ())


@models(fx_traceback.annotate)
def _annotate(tx: Translator, annotations: VariableTracker) -> VariableTracker:
    """Annotations are for the graphs of other tracers, and compute nothing."""
    return tx.call(tx.make(contextlib.nullcontext), [], {})


@models(type(torch.ops.higher_order.flex_attention).__call__)
def _flex_attention(
    tx: Translator,
    operator: VariableTracker,
    query: VariableTracker,
    key: VariableTracker,
    value: VariableTracker,
    score_mod: VariableTracker,
    block_mask: VariableTracker,
    scale: VariableTracker,
    kernel_options: VariableTracker,
) -> VariableTracker:
    inputs: Args = [each.realize() for each in (query, key, value)]
    *sizes, mask_mod = block_mask.elements(tx)
    options = kernel_options.realize()
    are_tensors = all(isinstance(each, TensorVariable) for each in inputs)
    if not are_tensors or not isinstance(options, DictVariable) or tx.is_none(mask_mod):
        unsupported(HigherOrderOperator("flex_attention()", "its operands are no plain tensors, or it has no mask_mod"))
    query_fake = inputs[0].as_fx()[1]
    score = torch.empty((), dtype=query_fake.dtype, device=query_fake.device, requires_grad=query_fake.requires_grad)
    bodies = [_trace_mod(tx, score_mod, query_fake, [score]), _trace_mod(tx, mask_mod, query_fake, [])]
    extras = [tuple_of_nodes(body.lifted) for body in bodies]
    settings = [TupleVariable(sizes), scale, InvariantVariable(tuple(tx.python_value(options).items()))]
    return record(tx, graph_functions.flex_attention, [*bodies, *extras, *settings, *inputs], {})


def _trace_mod(
    tx: Translator, function: VariableTracker, query: torch.Tensor, score: list[torch.Tensor]
) -> BodyVariable:
    """Trace a score_mod or mask_mod: a function of (a score,) batch, head, query index and key index, all 0-dim."""

    def run() -> VariableTracker:
        indices = [torch.empty((), dtype=torch.int32, device=query.device) for _ in range(4)]
        parameters: Args = [*body_parameters(tx, [*score, *indices])]
        tx.graph.indexing += 1
        output = tx.call(function, parameters, {}).realize()
        tx.graph.indexing -= 1
        return output

    body = trace_body(tx, run, [function], transform="vmap")
    if not isinstance(body.output, TensorVariable):
        unsupported(HigherOrderOperator("flex_attention()", "its score_mod or mask_mod does not return a tensor"))
    return body
