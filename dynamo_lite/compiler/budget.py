"""Which frames are worth translating, where a whole process is compiled rather than a function that its user named.

A process calls most of its frames a few times, on little data: translating them costs more than running them. So
frames are translated at their first call only until misses have taken `config.enable_allowance` seconds in all. After
that a frame runs in eager until those of its calls for which no entry holds have taken as long as translating it is
expected to take. A translation that takes far longer than expected is given up for now, and expected to take longer the
next time. So a process takes at most a few times as long as in eager, and what runs often is compiled sooner or later.

The hook measures misses (`_C.Owner.spent`), keeps what is known of each code object, and lets frames of new code wait
without asking (`_C.Owner.wait_of_new`).
"""

from __future__ import annotations

import logging
import math

from dynamo_lite import _C, logs
from dynamo_lite.insight.site import code_place

_LONGER = 4.0
"""A translation may take so many times as long as expected."""


class TakesTooLong(Exception):
    """A translation has taken longer than the frame's calls are worth up to now."""


class TranslationBudget:
    """What translations of an owner took, in seconds, and which frames wait."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin as a new budget does."""
        self._has_captured = False
        self._seconds = 0.0
        self._translations = 0

    def wait(self, view: _C.FrameView) -> float | None:
        """The seconds that frames of this code are to run in eager before it is translated; None: translate it now."""
        if view.end_wait() or not view.owner.has_spent_allowance:
            return None
        return self._begin_wait(view)

    def _begin_wait(self, view: _C.FrameView) -> float:
        """Returns for how many seconds frames of this code wait."""
        seconds, is_logged = self._expected(view), logs.perf.isEnabledFor(logging.INFO)
        view.owner.wait_of_new = 0.0 if is_logged else self._average()
        if is_logged:
            what = "translating it again" if view.entries else "translating it"
            logs.perf.info("%s runs in eager until that took %.3f s, as %s may", code_place(view.code), seconds, what)
        return seconds

    def _average(self) -> float:
        return self._seconds / max(self._translations, 1)

    def _expected(self, view: _C.FrameView) -> float:
        """As long as the last translation of this code took; where there was none, the average of all."""
        return view.cost or self._average()

    def limit(self, view: _C.FrameView) -> float:
        """The seconds after which a translation of this code is not attempted again, but given up for now."""
        is_known = self._translations > 0 and view.owner.has_spent_allowance
        return _LONGER * self._expected(view) if is_known else math.inf

    def give_up(self, view: _C.FrameView, seconds: float) -> float | None:
        """Record a translation that wasn't done after so many seconds. Returns what `wait` does for the next."""
        logs.perf.info("translating %s was given up after %.3f s, for now", view.code.co_qualname, seconds)
        self.note(view, seconds, made_entry=False)
        view.set_cost(2 * seconds)
        return self.wait(view)

    def note(self, view: _C.FrameView, seconds: float, made_entry: bool) -> None:
        """Record how long a translation took. The first that made an entry doesn't count: it includes imports and
        caches that all later ones share."""
        is_first, self._has_captured = made_entry and not self._has_captured, self._has_captured or made_entry
        if is_first:
            view.owner.spent -= seconds
            return
        self._seconds += seconds
        self._translations += 1
        view.set_cost(seconds)
