"""What an operator writes into, as its fakes and its schema tell."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import increment_version

from dynamo_lite.insight.break_reasons import OperatorFailed
from dynamo_lite.records.graph import OVERLAPS
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.protocols import Translator

OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
"""Types of ``torch.ops``' operators."""


def tensors_in(values: Any, found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            tensors_in(value, found)


def version(fake: torch.Tensor) -> int:
    """The count of writes; an inference tensor has none, and may have been written to by any operator."""
    return -1 if fake.is_inference() else fake._version


def said_to_be_written(target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """What an operator writes into by its schema, for those whose fake implementation doesn't: operators of lists, and
    the program's own."""
    if isinstance(target, torch._ops.OpOverload):
        schemas = [target._schema]
    else:
        packet = (
            target if isinstance(target, OPERATORS) else getattr(torch.ops.aten, getattr(target, "__name__", ""), None)
        )
        overloads = () if packet is None else packet.overloads()
        if packet is not target:
            overloads = overloads[:1]  # they are alike, but for numbers
        schemas = [getattr(packet, each)._schema for each in overloads]
    given: list[Any] = []
    for schema in schemas:
        writes = [(each.name, each.alias_info is not None and each.alias_info.is_write) for each in schema.arguments]
        given += [fake for fake, (_, is_write) in zip(fakes, writes) if is_write]
        given += [kwargs[name] for name, is_write in writes if is_write and name in kwargs]
    found: list[torch.Tensor] = []
    tensors_in(given, found)
    found = list({id(fake): fake for fake in found}.values())
    increment_version([fake for fake in found if not fake.is_inference()])
    return found


def check_written(tx: Translator, name: str, written: list[torch.Tensor]) -> None:
    """What an operator may write into, as the real ones would see it."""
    for fake in written:
        if torch._debug_has_internal_overlap(fake) == OVERLAPS and not fake.is_inference():
            unsupported(OperatorFailed(name, "it writes into a tensor whose elements share memory"))
        if tx.graph.is_resized(fake):
            unsupported(OperatorFailed(name, "it resizes a tensor that was given"))
