"""Run the captured graph operator by operator: the same kernels as without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def eager(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The graph module's own ``forward``."""
    return gm.forward
