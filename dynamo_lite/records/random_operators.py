"""Which operators draw random numbers."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch


def draws_nothing(op: str, target: Any) -> bool:
    """Whether a node is known to draw no random numbers."""
    if op not in ("call_function", "call_method"):
        return op in ("placeholder", "output")
    name = getattr(target, "__name__", target)
    if getattr(operator, str(name), None) is target or target is torch._C._set_grad_enabled:
        return True
    packet = getattr(torch.ops.aten, str(name).removesuffix("_"), None)
    if packet is None:
        return False
    overloads = [getattr(packet, each) for each in packet.overloads()]
    return not any(torch.Tag.nondeterministic_seeded in each.tags for each in overloads)


@functools.cache
def draws_by_tag(target: Any) -> bool:
    """Whether a node's target is an operator of torch's that draws random numbers."""
    packet = getattr(torch.ops.aten, str(getattr(target, "__name__", target)), None)
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return any(torch.Tag.nondeterministic_seeded in each.tags for each in overloads)
