"""Which operators draw random numbers."""

from __future__ import annotations

import functools
import operator

import torch
import torch.fx
import torch.nn.functional as F


def draws_nothing(op: str, target: object) -> bool:
    """Whether a node is known to draw no random numbers."""
    if op not in ("call_function", "call_method"):
        return op in ("placeholder", "output")
    name = getattr(target, "__name__", target)
    if getattr(operator, str(name), None) is target or target is torch._C._set_grad_enabled:
        return True
    return _draws(str(name).removesuffix("_")) is False


def may_draw(node: torch.fx.Node) -> bool:
    """Whether a node may draw random numbers. Each method of tensors that does has an operator of its name."""
    if node.op == "call_method":
        return draws_by_tag(node.target)
    if node.target in _ATTENTION:
        return bool(node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0) != 0.0)
    return not draws_nothing(node.op, node.target)


_ATTENTION = (F.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention.default)


def draws_by_tag(target: object) -> bool:
    """Whether a node's target is an operator of torch's that draws random numbers."""
    return _draws(str(getattr(target, "__name__", target))) is True


@functools.cache
def _draws(name: str) -> bool | None:
    """Whether the ATen operator of this name draws random numbers; None: there is no such operator."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):  # the namespace has attributes of its own, like `__eq__`
        return None
    overloads = [getattr(packet, each) for each in packet.overloads()]
    return any(torch.Tag.nondeterministic_seeded in each.tags for each in overloads)
