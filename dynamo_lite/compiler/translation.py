"""Records that the steps of a miss pass on: the request, the trace, and the translation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

import torch.fx

from dynamo_lite import _C
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.bytecode import Instruction
from dynamo_lite.bytecode.instructions import Positions
from dynamo_lite.insight.observer import GraphBreak
from dynamo_lite.plan.rows import Break, Return
from dynamo_lite.planner.planner import Planner
from dynamo_lite.records.surroundings import BackendTraits, Surroundings
from dynamo_lite.runtime.precomputed_calls import PrecomputedCalls
from dynamo_lite.shapes.policy import TranslationShapes

from .frame_identity import FrameIdentity


@dataclass(frozen=True)
class Request:
    """A frame to translate, with the settings of its owner."""

    frame: FrameIdentity
    traits: BackendTraits
    surroundings: Surroundings
    fullgraph: bool
    shapes: TranslationShapes
    precomputed: PrecomputedCalls
    prepare: Callable[[Attempt], None]
    """Changes an attempt before it begins."""
    until: float
    """The time, by `time.perf_counter`, after which no other attempt is made."""


@dataclass(frozen=True)
class AfterGraph:
    """What runs after the graph of a frame: planned, and emitted as ``code``."""

    plan: Planner
    end: Return | Break
    code: list[Instruction]


@dataclass(frozen=True)
class Translation:
    """What an attempt that succeeded leaves for the backend."""

    attempt: Attempt
    after: AfterGraph
    positions: Positions | None
    """Those of the instruction at which the trace ended."""
    state: _C.GlobalState
    """Of torch, before the attempt."""
    graph_break: GraphBreak | None
    stopped_at: tuple[tuple[CodeType, int | None], ...]
    """Where the graph breaks: the user's code and the index in it, of the frame and the inlined ones, outermost first.
    """

    @property
    def outputs(self) -> list[torch.fx.Node]:
        """The results of the graph."""
        return [each.node for each in self.after.plan.outputs]
