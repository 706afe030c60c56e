"""AOTAutograd as a library: forward and backward as functional aten graphs."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx.graph import _BoxedCodeGen

from dynamo_lite import _C

from .sizes import given_sizes

WRITES_INSIDE: dict[str, Any] = {"keep_inference_input_mutations": True}
"""Writes into inputs stay in the graph, as in Inductor's. (Written after the graph, a leaf gets no gradients where the
graph begins without them and computes some.)"""


def aot(gm: torch.fx.GraphModule, example_inputs: list[Any], **compilers: Any) -> Callable[..., Any]:
    """``aot_module_simplified`` with these compilers (``fw_compiler``, ``bw_compiler``, ``decompositions`` …)."""
    autograd = importlib.import_module("torch._functorch.aot_autograd")
    with backward_outside_autocast():
        return autograd.aot_module_simplified(gm, example_inputs, **compilers)


def of_aot_autograd(backend: Any) -> Any:
    """All that one graph of AOTAutograd has saved for its backward is one node's."""
    backend.frees_at_once = True
    return backend


@contextlib.contextmanager
def backward_outside_autocast() -> Iterator[None]:
    """A graph that is called under autocast has its backward outside of it, as eager's is called; AOTAutograd would
    cast in it too. What somebody set it to stays."""
    config = importlib.import_module("torch._functorch.config")
    if getattr(config, "backward_pass_autocast", None) == "same_as_forward":
        with config.patch(backward_pass_autocast="off"):
            yield
    else:
        yield


def run_aten(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[[list[Any]], Any]:
    """A compiler for `aot` that runs the graph operator by operator. It empties the list of its inputs, so that they
    die with their last use; autograd calls it where anybody's hook may be in."""
    metadata = TracingContext.get().fw_metadata if TracingContext.try_get() is not None else None
    if metadata is not None:  # no operator writes over what was saved for the backward: it may run again
        metadata.bw_donated_idxs = []
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    forward: Any = _C.Wrapped(gm.forward, _C.OFF)
    forward._boxed_call = True
    return forward


@of_aot_autograd
def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """AOTAutograd's graphs run operator by operator."""
    return aot(gm, example_inputs, fw_compiler=run_aten, bw_compiler=run_aten, **WRITES_INSIDE)


@of_aot_autograd
def aot_eager_decomp_partition(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The same with Inductor's decompositions and its partition into forward and backward: what Inductor compiles."""
    config = importlib.import_module("torch._functorch.config")
    partition = importlib.import_module("torch._functorch.partitioners").min_cut_rematerialization_partition
    compile_graph = functools.partial(
        aot,
        fw_compiler=run_aten,
        bw_compiler=run_aten,
        **WRITES_INSIDE,
        decompositions=importlib.import_module("torch._inductor.compile_fx").select_decomp_table(),
        partition_fn=functools.partial(partition, compiler="inductor"),
    )
    with config.patch(unlift_effect_tokens=True):
        return given_sizes(compile_graph, gm, example_inputs)
