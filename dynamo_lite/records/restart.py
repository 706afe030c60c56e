"""`Restart`, the one exception that restarts a translation, and the facts that it carries.

An attempt that can't go on raises it with one fact: what the next attempt must do differently. The restart loop adds
the fact to `RestartFacts`, which every later attempt at the frame is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.observer import GraphBreak
from dynamo_lite.insight.site import Site
from dynamo_lite.sources.source import PlaceKey

from .guards import AllAssumed, Assumed


@dataclass(frozen=True)
class BreakAt:
    """The graph breaks at this step, because what comes there can't be in a graph, or raises out of the frame."""

    path: tuple[int, ...]
    """The step of the root frame; then, if the graph breaks inside inlined calls, of each of those frames."""
    graph_break: GraphBreak
    assumed: tuple[Assumed, ...] = ()
    """Guards on what caused the break: tensors that an operator rejected, keys that a dict lacked. Other values might
    not break."""
    to_fill: frozenset[PlaceKey | tuple[int, int]] = frozenset()
    """The dicts and caches that these guards are on. What runs at the break may fill them."""
    calls_backward: bool = False
    """Whether the break is a call of ``backward``."""
    unhelpful_step: int | None = None
    """The step before which numbers were specialized in vain; None: no such step."""
    raised: AllAssumed | None = None
    """The guards of the attempt in which the program raised out of the frame: others might not raise."""


@dataclass(frozen=True)
class EndsBefore:
    """The graph must not contain what follows from this step of the root frame on: it mutates memory that two inputs
    share, or is differentiated apart from what came before."""

    step: int
    reason: BreakReason
    otherwise: str
    """Why the frame is skipped if the graph can't break there."""


@dataclass(frozen=True)
class MadeByCPython:
    """A value that the trace created survives the graph, but generated code can't make it (or keep it alive). So the
    graph breaks at the step that created it, which CPython runs."""

    step: int
    """0: none is known."""
    reason: BreakReason


@dataclass(frozen=True)
class FunctionsUntraced:
    """Calls of these ``torch.autograd.Function`` classes break the graph: what their backward reads may change."""

    functions: frozenset[type]


@dataclass(frozen=True)
class OtherWay:
    """The first of two ways of tracing a function failed: whether the second may succeed."""

    function: int
    """Its id."""
    succeeds: bool


@dataclass(frozen=True)
class NumbersRead:
    """The program needs the numbers that ``item()`` returned at these sites: the graph breaks there."""

    sites: frozenset[Site]


@dataclass(frozen=True)
class NumbersSpecialized:
    """The symbolic numbers that the instruction at this step takes are specialized before it."""

    step: int


@dataclass(frozen=True)
class AnsweredAsInEager:
    """An operation raises out of the frame after the program has asked whether it is compiled: ``is_compiling()`` is
    False in the next attempt, as in eager, in case the answer led there."""


Fact = (
    BreakAt
    | EndsBefore
    | MadeByCPython
    | FunctionsUntraced
    | OtherWay
    | NumbersRead
    | NumbersSpecialized
    | AnsweredAsInEager
)


class Restart(Exception):
    """Starts the translation of the frame again, which then knows this fact."""

    def __init__(self, fact: Fact) -> None:
        super().__init__(fact)
        self.fact = fact


def leave_to_cpython(step: int, reason: BreakReason) -> NoReturn:
    """Let CPython run an earlier step."""
    raise Restart(MadeByCPython(step, reason))


def specialize_before(step: int) -> NoReturn:
    """Specialize the symbolic numbers that the instruction at this step takes."""
    raise Restart(NumbersSpecialized(step))
