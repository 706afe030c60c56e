"""What the attempts at one frame have learned: every attempt is given the facts of those before it, which are frozen.

All attempts at a frame reach the same steps, up to the first at which one uses a fact that another didn't have. What
later translations of the same code need too is remembered with the code (`shapes.policy.SpecializationHistory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from traceback import FrameSummary
from typing import NoReturn

from dynamo_lite.exc import RunsOnceInEager, SkipFrame, Unsupported
from dynamo_lite.insight.break_reasons import FreedTogether, LeafLeavesGraph, OperatorFailed, SharedMemory
from dynamo_lite.insight.observer import GraphBreak
from dynamo_lite.insight.site import Site
from dynamo_lite.shapes.policy import SpecializationHistory
from dynamo_lite.sources.source import PlaceKey

from .guards import AllAssumed, Assumed, Guards
from .restart import (
    AnsweredAsInEager,
    BreakAt,
    EndsBefore,
    Fact,
    FunctionsUntraced,
    MadeByCPython,
    NumbersRead,
    NumbersSpecialized,
    OtherWay,
)

_MOST = 12
"""Steps of one translation before which numbers are specialized; dicts and caches of one that may be filled."""


@dataclass(frozen=True)
class Specializations:
    """The steps before which symbolic numbers are specialized, because the instruction there needs their values."""

    steps: Mapping[int, Site | None]
    """With the instruction at each; None if no attempt has reached it yet."""
    given_up: frozenset[int] = frozenset()
    """Steps before which specializing numbers didn't help."""

    def first_after(self, step: int) -> int | None:
        return min((each for each in self.steps if each > step), default=None)

    def is_at(self, step: int, site: Site) -> bool:
        """Whether numbers are specialized before this step."""
        return step in self.steps and self.steps[step] in (None, site)

    def after(self, met: Mapping[int, Site]) -> Specializations:
        """The specializations after an attempt. ``met``: those of the steps that it reached. If another translation
        had another instruction at a step, what that one learned is forgotten."""
        kept = [step for step in self.steps if step not in met or self.is_at(step, met[step])]
        known = {**self.steps, **met}
        return replace(self, steps={step: known[step] for step in kept})

    def fact_about(self, error: Unsupported, step: int, has_numbers: bool) -> NumbersSpecialized | None:
        """What may fix a failure at this step: to specialize the numbers that the instruction takes, and the sizes of
        its tensors. None: the graph breaks. ``has_numbers``: whether any number isn't a constant."""
        is_possible = error.reason.numbers_matter and has_numbers and len(self.steps) < _MOST
        return NumbersSpecialized(step) if is_possible and step not in self.given_up | self.steps.keys() else None

    def give_up(self, step: int) -> Specializations:
        """Specializing numbers before this step didn't help."""
        left = {each: site for each, site in self.steps.items() if each != step}
        return replace(self, steps=left, given_up=self.given_up | {step})


@dataclass(frozen=True)
class RestartFacts:
    """The facts, each as what it means for the next attempt. `learn` returns them with one more."""

    remembered: SpecializationHistory
    """Of earlier translations of the same code."""
    numbers: Specializations
    fullgraph: bool = False
    """Whether what breaks the graph is an error instead."""
    differentiates: bool = True
    """Whether graphs may differentiate inside."""
    graph_break: GraphBreak | None = None
    """Why the graph breaks at ``break_at``."""
    break_at: tuple[int, ...] = ()
    """The path of steps at which to break, as in `BreakAt`; empty: the graph goes to the frame's return."""
    assumed: tuple[Assumed, ...] = ()
    """Guards on what caused the breaks, the last one's and earlier ones'."""
    raised: AllAssumed | None = None
    """The guards under which the program raises out of the frame, as in `BreakAt`."""
    to_fill: frozenset[PlaceKey | tuple[int, int]] = frozenset()
    """Dicts and caches that may be filled at the break. Later translations don't wait for them again."""
    calls_backward: bool = False
    """Whether the graph breaks for a ``backward``."""
    untraced_functions: frozenset[type] = frozenset()
    """``torch.autograd.Function`` classes that break the graph."""
    answers_as_in_eager: bool = False
    """Whether ``is_compiling()`` is False."""

    @classmethod
    def first(
        cls, remembered: SpecializationHistory | None = None, fullgraph: bool = False, differentiates: bool = True
    ) -> RestartFacts:
        """The facts for the first attempt."""
        known = SpecializationHistory() if remembered is None else remembered
        return cls(known, Specializations(dict(known.steps)), fullgraph, differentiates)

    def after(self, met: Mapping[int, Site]) -> RestartFacts:
        """The facts after an attempt: see `Specializations.after`."""
        return replace(self, numbers=self.numbers.after(met))

    def learn(self, fact: Fact, place: FrameSummary) -> RestartFacts:
        """The facts with one more. ``place``: where in the root frame the attempt ended.

        Raises:
            SkipFrame: there is nothing else to try.
            RunsOnceInEager: the program raises an exception, which a graph alone can't lead to.
            Unsupported: the graph would break, under ``fullgraph=True``.
        """
        match fact:
            case BreakAt():
                return self._break_at(fact)
            case EndsBefore():
                return self._end_before(fact, place)
            case MadeByCPython():
                return self._leave_to_cpython(fact, place)
            case FunctionsUntraced(functions):
                return replace(self, untraced_functions=self.untraced_functions | functions)
            case OtherWay(function, succeeds):
                self.remembered.other_way[function] = succeeds
            case NumbersRead(sites):
                self.remembered.numbers_read |= sites
            case AnsweredAsInEager():  # what was learned is of another way through the program
                first = RestartFacts.first(self.remembered, self.fullgraph, self.differentiates)
                return replace(first, answers_as_in_eager=True)
            case NumbersSpecialized(step):
                return replace(self, numbers=replace(self.numbers, steps={**self.numbers.steps, step: None}))
        return self

    def _break_at(self, fact: BreakAt) -> RestartFacts:
        _check_is_earlier(fact.path, self.break_at, fact.graph_break)
        return replace(
            self,
            graph_break=fact.graph_break,
            break_at=fact.path,
            assumed=self.assumed + fact.assumed,
            raised=fact.raised or self.raised,
            to_fill=self.to_fill | fact.to_fill,
            calls_backward=self.calls_backward or fact.calls_backward,
            numbers=self.numbers if fact.unhelpful_step is None else self.numbers.give_up(fact.unhelpful_step),
        )

    def _end_before(self, fact: EndsBefore, place: FrameSummary) -> RestartFacts:
        path = (fact.step,)
        if self.fullgraph or not fact.step or self.break_at and path >= self.break_at:
            _skip(fact.otherwise, self.graph_break)
        return replace(self, graph_break=GraphBreak(fact.reason, (place,)), break_at=path)

    def _leave_to_cpython(self, fact: MadeByCPython, place: FrameSummary) -> RestartFacts:
        graph_break = self.graph_break or GraphBreak(fact.reason, (place,))
        if self.fullgraph and self.raised is not None:  # eager raises as well: it has no graph to lose
            raise RunsOnceInEager(graph_break.reason.what()) from None
        if self.fullgraph:
            raise Unsupported(fact.reason, graph_break.user_stack) from None
        if len(self.break_at) > 1:  # it may be something that only the inlined frame has
            return replace(self, graph_break=graph_break, break_at=self.break_at[:1])
        if not fact.step:
            _skip(fact.reason.what(), graph_break)
        _check_is_earlier((fact.step,), self.break_at, graph_break)
        return replace(self, graph_break=graph_break, break_at=(fact.step,))

    def unfilled(self, guards: Guards) -> tuple[list[Assumed], frozenset[PlaceKey | tuple[int, int]]]:
        """Guards on dicts and caches that lack something where an attempt breaks, and which they are. What runs there
        may fill them (they hold what was loaded or computed), so that the graph doesn't break any more. Each is waited
        for once."""
        known = self.remembered.to_fill
        if len(known) >= _MOST:
            return [], frozenset()
        dicts = [place for place in guards.missing_key_dicts if place.key not in known]
        caches = {entry: assumed for entry, assumed in guards.cache_misses.items() if entry not in known}
        return [*guards.of(dicts), *caches.values()], frozenset([*(place.key for place in dicts), *caches])

    def remember(self) -> None:
        """After an attempt that succeeded: keep what the next translation of the code would have to find out again."""
        self.remembered.to_fill |= self.to_fill
        self.remembered.steps = dict(self.numbers.steps)

    def break_seen_from(self, place: FrameSummary) -> GraphBreak | None:
        """Why the graph breaks, when the attempt that breaks ended here. What is known only at the end of an attempt is
        placed where the next one breaks."""
        found = self.graph_break
        if found is None or not isinstance(found.reason, (SharedMemory, FreedTogether, LeafLeavesGraph)):
            return found
        return GraphBreak(found.reason, (place,))


def is_over_operands(error: Unsupported) -> bool:
    """Whether an operator failed, and might not on operands of other shapes, types or devices."""
    return isinstance(error.reason, OperatorFailed) and error.reason.over_operands


def _check_is_earlier(path: tuple[int, ...], before: tuple[int, ...], graph_break: GraphBreak) -> None:
    if before and path >= before:
        _skip("what its break needs can't be made", graph_break)


def _skip(why: str, graph_break: GraphBreak | None) -> NoReturn:
    raise SkipFrame(why, cause=graph_break) from None
