"""Operators that are tried for real: what kernels warn of, fakes don't say.

Where the program records warnings, or makes errors of them, it would miss what a kernel alone says: backends run other
kernels, and set no filters on their way. So an operator is tried there on ones of the same shapes, strides and types,
which is what kernels warn of.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from dynamo_lite.records.captured_warnings import Listening, Overheard
from dynamo_lite.runtime.interrupts import let_through

from .fake_calls import called_on

_MOST = 1 << 22
"""Elements of all the operands."""


class Untried(Exception):
    """Why an operator can't be tried."""


def heard_in_trial(kind: str, target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> list[Overheard]:
    """What an operator warns of, each time or once in a process: one of torch's own, for others are run as they are,
    and may do anything. Raises `Untried`."""
    if not _is_torchs(kind, target):
        return []
    with _apart() as listening:
        try:
            operands, named = _real([fakes, kwargs], [0])
            called_on(kind, target, operands, named)
        except (Untried, Warning):
            raise
        except Exception as error:
            let_through(error)
            raise Untried(f"on ones it raises {type(error).__name__}") from error
    return listening.heard


def _is_torchs(kind: str, target: Any) -> bool:
    if kind == "call_method" or getattr(operator, getattr(target, "__name__", ""), None) is target:
        return True
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target).startswith(("aten.", "aten::"))
    owner = getattr(target, "__module__", None) or "torch"
    return type(target).__name__.startswith("builtin") and owner.startswith("torch") or owner == "torch.nn.functional"


@contextlib.contextmanager
def _apart() -> Iterator[Listening]:
    """Nothing is left of what runs: no random number, no warning that was shown."""
    always = torch.is_warn_always_enabled()
    with (
        unset_fake_temporarily(),
        torch._C.DisableTorchFunction(),
        torch.no_grad(),
        torch.random.fork_rng(),
        Listening() as listening,
    ):
        torch.set_warn_always(True)
        try:
            yield listening
        finally:
            torch.set_warn_always(always)


def _real(value: Any, elements: list[int]) -> Any:
    """The same with tensors of ones for fakes. ``elements``: how many there are so far."""
    if isinstance(value, (list, tuple)):
        made = [_real(each, elements) for each in value]
        return made if type(value) is list else tuple(made)
    if isinstance(value, dict):
        return {name: _real(each, elements) for name, each in value.items()}
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.hint
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) is not FakeTensor or value.layout is not torch.strided:
        raise Untried("it is given a tensor of another class or layout")
    sizes, strides = _real(tuple(value.shape), elements), _real(value.stride(), elements)
    length = sum((size - 1) * stride for size, stride in zip(sizes, strides)) + 1 if all(sizes) else 0
    elements[0] += length
    if elements[0] > _MOST:
        raise Untried("its operands are large")
    return torch.ones(length, dtype=value.dtype, device=value.device).as_strided(sizes, strides)
