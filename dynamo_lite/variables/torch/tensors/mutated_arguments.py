"""The arguments that an operator mutates: found by the version counters of fake tensors, by what the fake mode saw of
those that have none, or by the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import increment_version

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import (
    HiddenWrite,
    InferenceWrite,
    OperatorFailed,
    OverlappingWrite,
    ViewsOfWritten,
)
from dynamo_lite.records.graph import OVERLAPS, GraphBuilder
from dynamo_lite.records.uncounted_writes import declared_writes
from dynamo_lite.runtime.shared_memory import all_memory_of, share_memory
from dynamo_lite.variables.core.base import Translator, unsupported

from .known_tensors import KnownTensors

OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
"""Types of the operators in ``torch.ops``."""


def version(fake: torch.Tensor) -> int:
    """The version counter; -1 for inference tensors, which have none."""
    return -1 if fake.is_inference() else fake._version


class Watch:
    """Which of an operator's tensors it writes into. Created before it runs. ``may_resize``: it is given ``out``."""

    def __init__(self, tx: Translator, tensors: Sequence[torch.Tensor], may_resize: bool) -> None:
        self._tensors = tensors
        self._versions = [version(each) for each in tensors]
        self._shapes = [each.shape for each in tensors] if may_resize else []
        self._uncounted = tx.graph.uncounted_writes
        self._uncounted.clear()

    def written(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Those that it has mutated, and those that it wrote into although their version counters don't show it."""
        memory = set().union(*map(all_memory_of, self._uncounted))
        mutated: list[torch.Tensor] = []
        hidden: list[torch.Tensor] = []
        for each, before in zip(self._tensors, self._versions):
            if before >= 0 and each._version != before:
                mutated.append(each)
            elif memory and not memory.isdisjoint(all_memory_of(each)):
                (mutated if before < 0 else hidden).append(each)
        return mutated, hidden

    def resized(self) -> list[torch.Tensor]:
        """Those whose shapes it has changed."""
        return [each for each, before in zip(self._tensors, self._shapes) if each.shape != before]


def is_alone_in_memory(tx: Translator, fake: torch.Tensor) -> bool:
    """Whether no other tensor of the graph shares its memory. Compilers can give no other tensor more memory."""
    known = (each.fake for each in tx.attempt.state(KnownTensors).all())
    return all(each is fake or not share_memory(each, fake) for each in known)


def mutated_by_schema(target: object, fakes: Sequence[object], kwargs: Mapping[str, object]) -> list[torch.Tensor]:
    """The tensors that an operator mutates by its schema; their version counters are incremented.

    Some operators mutate nothing on fake tensors: custom operators, and operators on lists of tensors.
    """
    if isinstance(target, torch._ops.OpOverload):
        operators = [target]
    else:
        is_packet = isinstance(target, torch._ops.OpOverloadPacket)
        packet: Any = target if is_packet else getattr(torch.ops.aten, getattr(target, "__name__", ""), None)
        overloads = [] if packet is None else packet.overloads()
        if not is_packet:
            overloads = overloads[:1]  # overloads of an aten operator differ in their numbers alone
        operators = [getattr(packet, each) for each in overloads]
    mutated = [tensor for each in operators for tensor in declared_writes(each, fakes, kwargs)]
    tensors = list({id(fake): fake for fake in mutated}.values())
    increment_version([fake for fake in tensors if not fake.is_inference()])
    return tensors


def check_resized(tx: Translator, name: str, resized: Sequence[torch.Tensor]) -> None:
    """Break the graph for an operator that resizes its ``out`` where other tensors share its memory."""
    if not all(is_alone_in_memory(tx, each) for each in resized):
        unsupported(OperatorFailed(name, "it resizes a tensor that shares memory with another"))


def check_views(tx: Translator, name: str, fakes: Sequence[object], results: Sequence[object]) -> None:
    """Break the graph before an operator that returns several views of an input which the graph has written into.
    AOTAutograd returns them as views of a copy if they require gradients."""
    viewed = fakes[0] if fakes else None
    if not tx.attempt.traits.frees_at_once or not isinstance(viewed, torch.Tensor):
        return
    if viewed.requires_grad and tx.graph.is_written(viewed) and any(share_memory(each, viewed) for each in results):
        unsupported(ViewsOfWritten(name))


def check_mutated(tx: Translator, name: str, mutated: Sequence[torch.Tensor]) -> None:
    """Break the graph for writes that kernels or AOTAutograd refuse, and for ones that resize a graph input."""
    compiles = tx.attempt.traits.frees_at_once
    may_enter_inference_mode = compiles and not tx.attempt.torch_state.began_in_inference_mode
    for fake in mutated:
        if torch._debug_has_internal_overlap(fake) == OVERLAPS and not fake.is_inference():
            unsupported(OverlappingWrite(name, "several elements of the tensor share, as after expand()"))
        if tx.graph.is_resized(fake):
            unsupported(OperatorFailed(name, "it resizes a tensor that was created outside of the graph"))
        if may_enter_inference_mode and fake.is_inference() and tx.graph.inputs_in_storage(fake):
            unsupported(InferenceWrite(name))
        if compiles and not fake.requires_grad:
            _check_hidden_write(tx.graph, name, fake)


def _check_hidden_write(graph: GraphBuilder, name: str, fake: torch.Tensor) -> None:
    """Break the graph for a write that autograd doesn't know of, by ``detach()`` or ``.data``, into an input that
    refuses others. AOTAutograd writes into a leaf without autograd, into all else with it."""
    for each in graph.inputs_in_storage(fake):
        if each.value.requires_grad and not each.value.is_leaf:
            if not _C.accepts_writes(each.value):
                unsupported(HiddenWrite(name))
            each.source.check("accepts_writes")
