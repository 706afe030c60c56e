"""What may stand in a graph's node as text: values that the graph's code, when it is read back, gives again."""

from __future__ import annotations

import enum
import keyword
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.fx

_WORDS = (float, bool, str, bytes, range, type(None), type(Ellipsis), type(NotImplemented))
_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_TEXTS: frozenset[type] = frozenset({*_WORDS, *_OF_TORCH})
_NAMED_BY_FX = (
    *(torch.fx.Node, torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator, enum.Enum),
    *(torch.SymInt, torch.SymFloat, torch.SymBool),
)
_CONTAINERS = (tuple, list, slice, dict)
_MOST_BITS = 14_000
"""Longer integers may have more than the 4,300 digits that CPython reads."""


def is_text(value: Any) -> bool:
    """Whether a node's argument, or each one in it, may stand as text."""
    kind = type(value)
    if kind is int:
        return value.bit_length() <= _MOST_BITS
    if kind in _TEXTS:
        return True
    if kind is complex:  # `(-1-0j)` subtracts `0j` from -1, and `infj` is a name
        parts = value.real, value.imag
        return all(map(math.isfinite, parts)) and all(math.copysign(1, part) > 0 for part in parts if not part)
    if isinstance(value, _NAMED_BY_FX):
        return True
    if isinstance(value, _CONTAINERS):
        return all(map(is_text, _items(value)))
    return False


def _items(container: Any) -> Iterable[Any]:
    if isinstance(container, dict):
        return container.values()
    return (container.start, container.stop, container.step) if isinstance(container, slice) else container


def with_attributes(value: Any, attribute: Callable[[Any], torch.fx.Node]) -> Any:
    """A node's argument, in which ``attribute`` makes the nodes of what can't be text."""
    if is_text(value):
        return value
    if isinstance(value, slice):
        return slice(*(with_attributes(each, attribute) for each in _items(value)))
    if isinstance(value, dict):
        return {key: with_attributes(each, attribute) for key, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(with_attributes(each, attribute) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(with_attributes(each, attribute) for each in value))
    return attribute(value)


def is_name(keyword_argument: str) -> bool:
    """Whether it can be written as ``name=`` in a call."""
    return keyword_argument.isidentifier() and not keyword.iskeyword(keyword_argument)


def bare_name(target: object) -> str:
    """The name of a node's target without module or class; empty if it has none."""
    return target if isinstance(target, str) else getattr(target, "__name__", "")
