"""Calls of what Inductor made for inference go to its generated code, past wrappers that have nothing to do.

AOTAutograd wraps what Inductor compiled: for inputs that are written to, outputs that are views of inputs, random
numbers, subclasses. It knows of each graph what of that there is (`ViewAndMutationMeta`), but wraps it anyway. A
wrapper is left out where its own condition says that it does nothing; one that isn't known here keeps all of them.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import TracingContext

from dynamo_lite import _C


def _has_no_epilogue(facts: Any) -> bool:
    return not (
        facts.mutated_inp_runtime_indices  # those that are written to after the code has run, not by it
        or facts.num_outputs_aliased
        or facts.num_intermediate_bases
        or facts.grad_enabled_mutation is not None
    )


def _always(facts: Any) -> bool:
    return True


_IDLE: dict[str, Callable[[Any], bool]] = {
    "DisableContext": _always,  # keeps torch.compile's hook away, as a launch does
    "aot_module_simplified": _always,  # makes a list of the inputs, with the graph's own parameters if it has some
    "_create_runtime_wrapper": _has_no_epilogue,  # turns grad mode off and bumps versions, as a launch does
    "EffectTokensWrapper": lambda facts: not facts.tokens,
    "FunctionalizedRngRuntimeWrapper": lambda facts: not facts.is_rng_op_functionalized,
}
"""Makers of wrapping functions -> whether theirs do nothing, by what AOTAutograd knows of the graph."""


def launching(compiled: Callable[..., Any], gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """What ``compile_fx`` returned for a graph, with a short way to Inductor's code if all around that does nothing."""
    facts = _facts(compiled)
    if facts is None or torch._C._is_any_autocast_enabled():  # which the wrappers turn off
        return compiled
    if any(True for _ in (*gm.parameters(), *gm.buffers())):
        return compiled
    code = _code(compiled, facts)
    if code is None:
        return compiled
    written = tuple(facts.mutated_graph_handled_indices_seen_by_autograd)
    return _C.Launch(compiled, lambda: code.current_callable, written)


def _code(compiled: Any, facts: Any) -> Any:
    """Inductor's `CompiledFxGraph` under functions that do nothing; None if there is anything else."""
    code_type = importlib.import_module("torch._inductor.output_code").CompiledFxGraph
    wrappers = importlib.import_module("torch._functorch._aot_autograd.runtime_wrappers")
    inner = compiled
    while inner is not None and type(inner) is not code_type:
        if type(inner) is wrappers.SerializableCompiledFunction:
            inner = inner.compiled_fn
        elif isinstance(inner, types.FunctionType) and _does_nothing(inner, facts):
            inner = getattr(inner, "__wrapped__", None)
        else:
            return None
    return inner


def _does_nothing(wrapper: types.FunctionType, facts: Any) -> bool:
    maker = wrapper.__code__.co_qualname.partition(".")[0]
    return wrapper.__globals__.get("__name__", "").startswith("torch.") and maker in _IDLE and _IDLE[maker](facts)


def _facts(compiled: Any) -> Any:
    """AOTAutograd's `ViewAndMutationMeta` of the graph: of this trace, or saved with what was found in its cache."""
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        return context.fw_metadata
    saved = getattr(compiled, "serialize", None)
    return None if saved is None else getattr(saved(), "runtime_metadata", None)
