"""AOTAutograd as a library: forward and backward as functional aten graphs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch


def aot(gm: torch.fx.GraphModule, example_inputs: list[Any], **compilers: Any) -> Callable[..., Any]:
    """``aot_module_simplified`` with these compilers (``fw_compiler``, ``bw_compiler``, ``decompositions`` …)."""
    autograd = importlib.import_module("torch._functorch.aot_autograd")
    return autograd.aot_module_simplified(gm, example_inputs, **compilers)


def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """AOTAutograd's graphs run operator by operator."""
    compilers = importlib.import_module("functorch.compile")
    return aot(gm, example_inputs, fw_compiler=compilers.nop, bw_compiler=compilers.nop)
