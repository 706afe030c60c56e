"""The backend ``eager``: runs the captured graph operator by operator, with the kernels of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def eager(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The graph module's own ``forward``."""
    return gm.forward
