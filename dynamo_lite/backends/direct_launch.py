"""Calls Inductor's generated code for inference directly, without those of AOTAutograd's wrappers that do nothing.

AOTAutograd wraps compiled code to handle mutated inputs, outputs that alias inputs, random numbers and subclasses. Its
metadata (`ViewAndMutationMeta`) says which of these a graph has, but each wrapper is applied regardless. A wrapper is
skipped if the metadata shows that it does nothing. If any wrapper is unknown here, all of them are kept.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import TracingContext

from dynamo_lite import _C


def _has_no_epilogue(metadata: Any) -> bool:
    return not (
        metadata.mutated_inp_runtime_indices  # inputs that are mutated by the wrapper, after the code has run
        or metadata.num_outputs_aliased
        or metadata.num_intermediate_bases
        or metadata.grad_enabled_mutation is not None
    )


_DOES_NOTHING: dict[str, Callable[[Any], bool]] = {
    "DisableContext": lambda _: True,  # turns torch.compile's hook off, as a launch does
    "aot_module_simplified": lambda _: True,  # lists the inputs and the graph's own parameters, of which it has none
    "_create_runtime_wrapper": _has_no_epilogue,  # turns grad mode off and bumps version counters, as a launch does
    "EffectTokensWrapper": lambda metadata: not metadata.tokens,
    "FunctionalizedRngRuntimeWrapper": lambda metadata: not metadata.is_rng_op_functionalized,
}
"""Name of the function that creates a wrapper -> whether the wrapper does nothing, by AOTAutograd's metadata."""


def with_direct_launch(compiled: Callable[..., Any], gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """The result of ``compile_fx`` for a graph, or a launch of Inductor's code if all wrappers around it do nothing."""
    metadata = _metadata(compiled)
    if metadata is None or torch._C._is_any_autocast_enabled():  # the wrappers turn autocast off
        return compiled
    if any(True for _ in (*gm.parameters(), *gm.buffers())):
        return compiled
    graph = _compiled_graph(compiled, metadata)
    if graph is None:
        return compiled
    mutated = tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)
    return _C.Launch(compiled, lambda: graph.current_callable, mutated)


def _compiled_graph(compiled: Any, metadata: Any) -> Any:
    """Inductor's `CompiledFxGraph` inside wrappers that do nothing; None if any other wrapper is around it."""
    code_type = importlib.import_module("torch._inductor.output_code").CompiledFxGraph
    wrappers = importlib.import_module("torch._functorch._aot_autograd.runtime_wrappers")
    inner = compiled
    while inner is not None and type(inner) is not code_type:
        if type(inner) is wrappers.SerializableCompiledFunction:
            inner = inner.compiled_fn
        elif isinstance(inner, types.FunctionType) and _is_idle(inner, metadata):
            inner = getattr(inner, "__wrapped__", None)
        else:
            return None
    return inner


def _is_idle(wrapper: types.FunctionType, metadata: object) -> bool:
    maker = wrapper.__code__.co_qualname.partition(".")[0]
    return (
        wrapper.__globals__.get("__name__", "").startswith("torch.")
        and maker in _DOES_NOTHING
        and _DOES_NOTHING[maker](metadata)
    )


def _metadata(compiled: object) -> Any:
    """AOTAutograd's `ViewAndMutationMeta` of the graph: from this trace, or from its cache on disk."""
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        return context.fw_metadata
    saved = getattr(compiled, "serialize", None)
    return None if saved is None else getattr(saved(), "runtime_metadata", None)
