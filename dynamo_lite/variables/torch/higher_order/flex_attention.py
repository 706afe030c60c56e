"""``torch.nn.attention.flex_attention``: the operator that it ends in, and the context in which its functions index."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch
from torch.fx import traceback as fx_traceback

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import Model, models, models_if
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.torch.contexts.context import ContextVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .bodies import BodyVariable, NodesVariable, PlainVariable, given, trace_body


class IndexingVariable(ContextVariable):
    """The mode of torch's in which ``tensor[i]`` is an operator also where ``i`` is a tensor without dimensions."""

    __slots__ = ()

    def enter(self, tx: Translator) -> None:
        tx.graph.indexing += 1

    def exit(self, tx: Translator) -> None:
        tx.graph.indexing -= 1


_MODE = ("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex")


@models_if
def _indexing(value: Any) -> Model | None:
    if not isinstance(value, type) or (value.__module__, value.__name__) != _MODE:
        return None
    return lambda tx, args, kwargs: IndexingVariable(tx.fold(value), ())


@models_if
def _mark_static(value: Any) -> Model | None:
    """Sizes of a tensor are known from here on; the mark itself would be for another compilation."""
    if type(value) is not types.FunctionType or value.__module__ != "torch._dynamo.decorators":
        return None
    return _known_sizes if value.__name__ == "mark_static" else None


def _known_sizes(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    if kwargs or len(args) != 2 or not isinstance(args[0].realize(), TensorVariable):
        unsupported(UnknownCall("mark_static()", "it is not called with a tensor and dimensions"))
    dims = tx.python_value(args[1])
    for dim in [dims] if isinstance(dims, int) else dims:
        int(args[0].realize().fake.shape[dim])
    return ConstantVariable(None)


@models(fx_traceback.annotate)
def _annotate(tx: Translator, annotations: VariableTracker) -> VariableTracker:
    """Notes for graphs that other tracers make: nothing is computed by them."""
    return tx.call(tx.make(contextlib.nullcontext), [], {})  # type: ignore[no-any-return]


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
    known = all(isinstance(each, TensorVariable) for each in inputs) and isinstance(options, DictVariable)
    if not known or tx.is_none(mask_mod):
        unsupported(UnknownCall("flex_attention()", "its operands are not all known"))
    query_fake = inputs[0].as_fx()[1]
    score = torch.empty((), dtype=query_fake.dtype, device=query_fake.device, requires_grad=query_fake.requires_grad)
    bodies = [_trace_mod(tx, score_mod, query_fake, [score]), _trace_mod(tx, mask_mod, query_fake, [])]
    extras = [NodesVariable(body.lifted) for body in bodies]
    settings = [TupleVariable(sizes), scale, PlainVariable(tuple(tx.python_value(options).items()))]
    return record(tx, "call_function", graph_functions.flex_attention, [*bodies, *extras, *settings, *inputs], {})


def _trace_mod(
    tx: Translator, function: VariableTracker, query: torch.Tensor, score: list[torch.Tensor]
) -> BodyVariable:
    """A function of (a score,) batch, head, place of the query and place of the key, none of them with dimensions."""

    def run() -> VariableTracker:
        places = [torch.empty((), dtype=torch.int32, device=query.device) for _ in range(4)]
        inside: Args = list(given(tx, [(None, each) for each in (*score, *places)]))
        tx.graph.indexing += 1
        found = tx.call(function, inside, {}).realize()
        tx.graph.indexing -= 1
        return found  # type: ignore[no-any-return]

    body = trace_body(tx, run, [function], transform="vmap")
    if not isinstance(body.output, TensorVariable):
        unsupported(UnknownCall("flex_attention()", "a function of its scores does not return a tensor"))
    return body
