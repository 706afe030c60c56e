"""Modules that a program mutates between its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from programs import built, check, repeated, tensor


def check_changes(
    make: Callable[[], nn.Module], *steps: Callable[[Any], object], x: torch.Tensor | None = None
) -> None:
    """Checks a program that makes one of the steps on its module and then calls it: over all steps, and once more."""

    def build():
        m = make()

        def program(x, at):
            if at is not None:
                steps[at](m)
            return call(x)

        def call(x):
            return m(x)

        return program

    x = tensor(2, 3) if x is None else x
    others = [(x, at) for at in range(len(steps))] + [(x, None)]
    check(built(repeated(1)(build)), x, None, graphs=None, others=others)
