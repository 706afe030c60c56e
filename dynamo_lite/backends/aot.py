"""Backends on AOTAutograd, which turns a graph into functional ATen graphs of its forward and backward."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._guards import TracingContext
from torch.fx.graph import _BoxedCodeGen

from dynamo_lite import _C
from dynamo_lite.runtime.node_text import is_text, with_attributes

from .registry import Backend
from .sizes import with_sizes_as_inputs

F = TypeVar("F", bound=Callable[..., Any])
Boxed = Callable[[list[Any]], Any]
"""Takes a list of inputs and may empty it, so that each input is deallocated after its last use."""


def aot(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    keep_inference_input_mutations: bool = True,
    **compilers: object,
) -> Callable[..., Any]:
    """Compile with ``aot_module_simplified``, whose keyword arguments ``compilers`` are: ``fw_compiler``,
    ``bw_compiler``, ``decompositions`` and so on.

    Mutations of inputs stay in the graph unless ``keep_inference_input_mutations`` is False. Applied after the graph,
    they would lose the gradients of a leaf in a graph that starts without grad mode and turns it on."""
    autograd = importlib.import_module("torch._functorch.aot_autograd")
    with backward_outside_autocast():
        return autograd.aot_module_simplified(
            gm, example_inputs, keep_inference_input_mutations=keep_inference_input_mutations, **compilers
        )


def frees_saved_tensors_at_once(backend: F) -> F:
    """Mark a backend on AOTAutograd: a compiled graph is one node of autograd's graph, so its backward frees all
    tensors that the graph saved."""
    vars(backend)["frees_at_once"] = True
    return backend


def backward_outside_autocast() -> contextlib.AbstractContextManager[Any]:
    """Compile backwards without autocast, as eager runs them. AOTAutograd's default applies the forward's autocast to
    the backward too. A value that the user has set is kept."""
    config = importlib.import_module("torch._functorch.config")
    if getattr(config, "backward_pass_autocast", None) == "same_as_forward":
        return config.patch(backward_pass_autocast="off")
    return contextlib.nullcontext()


def boxed(call: Boxed) -> Boxed:
    """Tell AOTAutograd that a callable takes its inputs as a list."""
    vars(call)["_boxed_call"] = True
    return call


def run_aten(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Boxed:
    """A compiler for `aot` that runs the graph operator by operator.

    It runs with the hook off: autograd calls it on threads on which any frame hook may be installed."""
    metadata = TracingContext.get().fw_metadata if TracingContext.try_get() is not None else None
    if metadata is not None:  # donated buffers would forbid running the backward again, and nothing here reuses them
        metadata.bw_donated_idxs = []
    _keep_as_attributes(gm)
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    return boxed(_C.Wrapped(gm.forward, _C.OFF))


def _keep_as_attributes(gm: torch.fx.GraphModule) -> None:
    """Make attributes of what can't stand in a node as text: the operators of AOTAutograd's graph have it as arguments
    again (``complex(-1, -0.0)``)."""

    def attribute(value: object) -> torch.fx.Node:
        name = f"_constant{len(vars(gm))}"
        setattr(gm, name, value)
        return gm.graph.create_node("get_attr", name)

    for node in gm.graph.nodes:
        if node.op == "call_function" and not is_text((*node.args, *node.kwargs.values())):
            with gm.graph.inserting_before(node):
                node.args, node.kwargs = with_attributes((node.args, node.kwargs), attribute)


@frees_saved_tensors_at_once
def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Run AOTAutograd's graphs operator by operator."""
    return aot(gm, example_inputs, fw_compiler=run_aten, bw_compiler=run_aten)


@frees_saved_tensors_at_once
def aot_eager_decomp_partition(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Run the graphs that Inductor compiles operator by operator: with its decompositions and its partitioner."""
    config = importlib.import_module("torch._functorch.config")
    partition = importlib.import_module("torch._functorch.partitioners").min_cut_rematerialization_partition
    compile_graph: Backend = functools.partial(
        aot,
        fw_compiler=run_aten,
        bw_compiler=run_aten,
        decompositions=importlib.import_module("torch._inductor.compile_fx").select_decomp_table(),
        partition_fn=functools.partial(partition, compiler="inductor"),
    )
    with config.patch(unlift_effect_tokens=True):
        return with_sizes_as_inputs(compile_graph, gm, example_inputs)
