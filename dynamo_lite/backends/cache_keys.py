"""Keys of AOTAutograd's and Inductor's caches on disk, for graphs that call functions of `graph_functions`.

AOTAutograd caches a graph only if it knows that the functions in it haven't changed. For each of ours the key contains
the hash of that module's source text. The bodies that these functions run are subgraphs, which the key contains as
text. So every function that a body calls has to be cacheable too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
from collections.abc import Iterable
from typing import Any

import torch

from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.inner_tensors import has_user_subclass

_SETTING = "unsafe_marked_cacheable_functions"


def cacheable_functions_setting(gm: torch.fx.GraphModule) -> dict[str, Any]:
    """Inductor's setting that makes a graph with our functions cacheable. Empty if the graph calls none of them, or if
    one of its bodies can't be cached."""
    modules = [module for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    called: list[Any] = [node.target for each in modules for node in each.graph.nodes if node.op == "call_function"]
    ours = {
        f"{each.__module__}.{each.__name__}"
        for each in called
        if getattr(each, "__module__", None) == graph_functions.__name__
    }
    if not ours:
        return {}
    config = importlib.import_module("torch._inductor.config")
    source_hash = hashlib.sha256(inspect.getsource(graph_functions).encode()).hexdigest()
    marked = {**getattr(config, _SETTING), **dict.fromkeys(ours, source_hash)}
    with config.patch({_SETTING: marked}):
        return {_SETTING: marked} if all(map(is_cacheable, modules[1:])) else {}


def is_cacheable(gm: torch.fx.GraphModule) -> bool:
    """Whether AOTAutograd caches a graph, under the current settings."""
    caches = importlib.import_module("torch._functorch._aot_autograd.autograd_cache")
    try:
        caches.check_cacheable(gm)
    except caches.BypassAOTAutogradCache:
        return False
    return True


def without_cache_of_user_subclasses(example_inputs: Iterable[object]) -> contextlib.AbstractContextManager[Any]:
    """Turn AOTAutograd's cache off if an input's class is a wrapper subclass of the user's. The key contains the class,
    but not its code, which may have changed since."""
    tensors = (each for each in example_inputs if isinstance(each, torch.Tensor))
    if any(map(has_user_subclass, tensors)):
        return importlib.import_module("torch._functorch.config").patch(enable_autograd_cache=False)
    return contextlib.nullcontext()
