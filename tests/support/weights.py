"""Modules whose weights don't depend on earlier tests."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def seeded(module: M, scale: float = 0.3) -> M:
    """Returns the module with newly drawn parameters."""
    generator = torch.Generator("cpu").manual_seed(7)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, device="cpu") * scale)
    return module
