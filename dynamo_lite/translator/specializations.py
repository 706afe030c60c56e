"""What a translation has to know of numbers that may differ from call to call, because it can't go on without."""

from __future__ import annotations

from typing import Any

from dynamo_lite.insight.break_reasons import OperatorFailed
from dynamo_lite.records.guards import Assumed, Guards
from dynamo_lite.shapes.policy import Settled
from dynamo_lite.variables.core.protocols import Attempt

_MOST = 12
"""Steps of one translation at which numbers are settled."""


class Settlings:
    """For the attempts at one frame. Each comes to the same steps until numbers are settled that another one leaves."""

    def __init__(self, before: Settled | None = None, differentiate: bool = True) -> None:
        self.differentiate = differentiate
        """Whether graphs may differentiate inside."""
        self.all_known = False
        """Whether there are to be no symbols."""
        self.leaves_before = False
        """Whether tensors that are told to require gradients are made before the graph: one of them leaves it."""
        self.data_stay: set[int] = set()
        """Steps at which no tensor gets other data, as something that hangs on the old ones leaves the graph."""
        self.untold: set[Any] = set()
        """Where the program asks whether it is compiled, and isn't told so."""
        self.untraced_functions: set[type] = set()
        """``torch.autograd.Function`` classes that are left to CPython, as what their backward reads may change."""
        self.goes_back = False
        """Whether the graph breaks for a `backward`."""
        self._before = before or Settled()
        self._steps: dict[int, Any] = dict(self._before.steps)
        """Before which the numbers and sizes are settled that the instruction takes, and where that is; None: not known
        yet."""
        self._given_up: set[int] = set()
        self.whole = self._before.whole
        """Ids of functions that may be put into the graph as they are, and can't be traced: whether they can so."""
        self.unmet = self._before.unmet
        """Places of conditions on data at which it breaks, as they failed again and again."""
        self._to_fill: set[Any] = set()
        self._failed: tuple[int, Any] | None = None
        """The step for which numbers are all known now, and how it failed before."""

    def first_after(self, step: int) -> int | None:
        return min((each for each in self._steps if each > step), default=None)

    def is_at(self, step: int, where: Any) -> bool:
        """Whether numbers are settled before this step, which another translation may have come to elsewhere."""
        if step in self._steps and self._steps[step] in (None, where):
            self._steps[step] = where
            return True
        self._steps.pop(step, None)
        return False

    def may_help(self, attempt: Attempt, error: Any) -> bool:
        """Whether there is to be another attempt that knows more: the numbers that the failed instruction takes; if it
        takes tensors, all there are."""
        stack = tuple((frame.filename, frame.lineno, frame.name) for frame in error.user_stack)
        how = type(error.reason), stack
        if self._failed is not None and self.all_known:
            self.all_known = how != self._failed[1]
            self._given_up.add(self._failed[0])
            return not self.all_known
        symbols, step = attempt.graph.symbols, attempt.steps
        if not error.reason.numbers_matter or not (symbols.there_are or symbols.has_floats):
            return False
        if step in self._given_up or len(self._steps) >= _MOST:
            return False
        if step not in self._steps and how not in self._before.hopeless:
            self._steps[step] = None
            return True
        self._steps.pop(step, None)
        self._given_up.add(step)
        takes_tensors = attempt.settled_sizes or isinstance(error.reason, OperatorFailed) and error.reason.over_operands
        if self._failed is None and (takes_tensors or how in self._before.hopeless):
            self.all_known, self._failed = True, (step, how)
        return self.all_known

    def makes_leaves_before(self, attempt: Attempt, tracker: Any) -> bool:
        """Whether there is to be another attempt that does: this is what it can be done to."""
        again = attempt.provenance.is_created_leaf(tracker) and not self.leaves_before
        self.leaves_before |= again
        return again

    def to_fill(self, guards: Guards) -> list[Assumed]:
        """What is assumed of dicts and caches that lack something where a translation breaks, and may be filled by what
        runs then (they hold what was loaded, or worked out), so that there is no break any more. Each is waited for
        once."""
        known = self._before.to_fill
        if len(known) >= _MOST:
            return []
        dicts = [place for place in guards.lacking if str(place) not in known]
        caches = {entry: assumed for entry, assumed in guards.unfilled.items() if entry not in known}
        self._to_fill.update(map(str, dicts), caches)
        return [*guards.of(dicts), *caches.values()]

    def keep(self) -> None:
        """They came through: the next translation of the frame begins with what these had to find out."""
        self._before.to_fill |= self._to_fill
        self._before.steps = dict(self._steps)
        if self.all_known and self._failed is not None:
            self._before.hopeless.add(self._failed[1])
