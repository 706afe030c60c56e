"""What caches of compiled code on disk are told of functions of ours in a graph.

AOTAutograd saves what it made of a graph whose functions it knows; others may have changed since. Those of
`graph_functions` are named in the key together with the text of that module. The functions that they run are graphs
within the graph, and in the key as text: what those call has to be known in turn.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.inner_tensors import has_user_subclass

_SETTING = "unsafe_marked_cacheable_functions"


@functools.cache
def _text() -> str:
    return hashlib.sha256(inspect.getsource(graph_functions).encode()).hexdigest()


def keyed_functions(gm: torch.fx.GraphModule) -> dict[str, Any]:
    """The setting of Inductor's that makes a graph with our functions one that can be found again; empty if it needs
    none, or can't be."""
    ours = {
        _name(node.target)
        for node in _calls(gm)
        if getattr(node.target, "__module__", None) == graph_functions.__name__
    }
    if not ours:
        return {}
    config = importlib.import_module("torch._inductor.config")
    marked = {**getattr(config, _SETTING), **dict.fromkeys(ours, _text())}
    caches = importlib.import_module("torch._functorch._aot_autograd.autograd_cache")
    bodies = [module for module in gm.modules() if isinstance(module, torch.fx.GraphModule) and module is not gm]
    with config.patch({_SETTING: marked}):
        try:
            for body in bodies:
                caches.check_cacheable(body)
        except caches.BypassAOTAutogradCache:
            return {}
    return {_SETTING: marked}


@contextlib.contextmanager
def classes_seen(example_inputs: Iterable[Any]) -> Iterator[None]:
    """Tensors whose operators are code of the program's have no graphs in AOTAutograd's cache: it knows the class, not
    its code, which may have changed since."""
    tensors = (each for each in example_inputs if isinstance(each, torch.Tensor))
    if any(map(has_user_subclass, tensors)):
        with importlib.import_module("torch._functorch.config").patch(enable_autograd_cache=False):
            yield
    else:
        yield


def _calls(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    graphs = [module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    return [node for graph in graphs for node in graph.nodes if node.op == "call_function"]


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__name__}"
