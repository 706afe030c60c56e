"""Which frames are worth translating, where a whole process is compiled rather than a function that its user named.

A process calls most of its frames a few times, on little data: translating them costs more than they ever take. What
is translated at its first call therefore has a limit, `config.enable_allowance` seconds in all. After that a frame runs
in eager until its calls have taken as long as translating it is expected to; a call is only waited for if no entry
holds. So a process takes at most a few times as long as in eager, and what runs often is compiled sooner or later.
"""

from __future__ import annotations

import weakref
from types import CodeType

from dynamo_lite import _C, config, logs
from dynamo_lite.insight.counters import counters


class TranslationBudget:
    """What an owner has spent on translations, in seconds, and which code objects wait."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._has_begun = False
        self._spent = 0.0
        self._translations = 0
        self._costs: weakref.WeakKeyDictionary[CodeType, float] = weakref.WeakKeyDictionary()
        """The last translation's, of each code object."""
        self._waiting: weakref.WeakSet[CodeType] = weakref.WeakSet()

    def wait(self, view: _C.FrameView) -> float | None:
        """The seconds that frames of this code are to run in eager before it is translated; None: translate it now."""
        if self._spent < config.enable_allowance:
            return None
        if view.code in self._waiting:  # they have
            self._waiting.discard(view.code)
            return None
        seconds = self._costs.get(view.code, self._spent / max(self._translations, 1))
        self._waiting.add(view.code)
        counters.waits += 1
        if logs.code.isEnabledFor(20):
            code = view.code
            place = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            again = " again" if view.entries else ""
            logs.code.info("%s runs in eager until that took %.3f s, as translating it%s may", place, seconds, again)
        return seconds

    def note(self, code: CodeType, seconds: float, made_entry: bool) -> None:
        """A translation of this code took so long. Until one has made an entry none counts: it was the first that
        needed what is imported and built for translating."""
        if not self._has_begun:
            self._has_begun = made_entry
            return
        self._spent += seconds
        self._translations += 1
        self._costs[code] = seconds
