"""Which frames are worth translating, where a whole process is compiled rather than a function that its user named.

A process calls most of its frames a few times, on little data: translating them costs more than running them. So
frames are translated at their first call only until that took `config.enable_allowance` seconds in all. After that a
frame runs in eager until those of its calls for which no entry holds have taken as long as translating it is expected
to take. A translation that takes far longer than expected is given up for now, and expected to take longer the next
time. So a process takes at most a few times as long as in eager, and what runs often is compiled sooner or later.
"""

from __future__ import annotations

import functools
import logging
import math
import weakref
from types import CodeType

from dynamo_lite import _C, config, logs
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.site import code_place

_LONGER = 4.0
"""A translation may take so many times as long as expected."""


class TakesTooLong(Exception):
    """A translation has taken longer than the frame's calls are worth up to now."""


def _forget(waiting: dict[int, weakref.ref[CodeType]], key: int, _: object) -> None:
    waiting.pop(key, None)


class TranslationBudget:
    """What an owner has spent on translations, in seconds, and which code objects wait."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin as a new budget does."""
        self._has_translated = self._has_captured = False
        self._spent = 0.0
        self._translations = 0
        self._costs: weakref.WeakKeyDictionary[CodeType, float] = weakref.WeakKeyDictionary()
        """What translating each code object is expected to take: as long as the last time."""
        self._waiting: dict[int, weakref.ref[CodeType]] = {}
        """By identity: two functions of equal code are two."""

    def wait(self, view: _C.FrameView) -> float | None:
        """The seconds that frames of this code are to run in eager before it is translated; None: translate it now."""
        if self.has_to_wait(view.code):
            return self.begin_wait(view)
        self._waiting.pop(id(view.code), None)
        return None

    def has_to_wait(self, code: CodeType) -> bool:
        """Whether the allowance is spent, and this code's calls haven't taken long enough yet."""
        return self._spent >= config.enable_allowance and id(code) not in self._waiting

    def begin_wait(self, view: _C.FrameView) -> float:
        """Have frames of this code wait. Returns for how many seconds."""
        code = view.code
        seconds = self._expected(code)
        # It leaves before its memory, and so its id, can be reused.
        self._waiting[id(code)] = weakref.ref(code, functools.partial(_forget, self._waiting, id(code)))
        counters.waits += 1
        if logs.perf.isEnabledFor(logging.INFO):
            what = "translating it again" if view.entries else "translating it"
            logs.perf.info("%s runs in eager until that took %.3f s, as %s may", code_place(code), seconds, what)
        return seconds

    def _expected(self, code: CodeType) -> float:
        return self._costs.get(code, self._spent / max(self._translations, 1))

    def limit(self, code: CodeType) -> float:
        """The seconds after which a translation of this code is not attempted again, but given up for now."""
        is_known = self._translations > 0 and self._spent >= config.enable_allowance
        return _LONGER * self._expected(code) if is_known else math.inf

    def give_up(self, view: _C.FrameView, seconds: float) -> float | None:
        """Record a translation that wasn't done after so many seconds. Returns what `wait` does for the next."""
        logs.perf.info("translating %s was given up after %.3f s, for now", view.code.co_qualname, seconds)
        self.note(view.code, seconds, made_entry=False)
        self._costs[view.code] = 2 * seconds
        return self.wait(view)

    def note(self, code: CodeType, seconds: float, made_entry: bool) -> None:
        """Record how long a translation took. The first, and the first that made an entry, don't count: they include
        imports and caches that all later ones share."""
        is_first = not (self._has_captured if made_entry else self._has_translated)
        self._has_translated = True
        self._has_captured = self._has_captured or made_entry
        if is_first:
            return
        self._spent += seconds
        self._translations += 1
        self._costs[code] = seconds
