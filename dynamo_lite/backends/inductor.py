"""Inductor as a library."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch


def inductor(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """AOTAutograd and Inductor. ``mode`` and ``options`` are torch.compile's, for this graph alone.

    Raises:
        ValueError: both are given, or there is no such mode.
    """
    library = importlib.import_module("torch._inductor")
    if mode is not None and options is not None:
        raise ValueError("pass mode or options, not both")
    patches: dict[str, Any] = dict(options or {})
    if mode is not None and mode != "default":
        modes = library.list_mode_options()
        if mode not in modes:
            raise ValueError(f"no mode {mode!r}; there are: {', '.join(modes)}")
        patches = dict(modes[mode])
    compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
    return compile_fx(gm, example_inputs, config_patches=patches or None)
