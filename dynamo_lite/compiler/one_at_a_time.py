"""Which threads wait while one translates.

A frame's code is translated by one thread; others that call it wait for the entry. Backends compile one at a time, in
the whole process: torch's tracers patch modules and keep globals (``make_fx``, ``fx.Tracer``), which two at once would
restore wrong. Who holds a turn for too long is waited for once: after that, calls run in eager until it is done."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref

from dynamo_lite import _C
from dynamo_lite.bytecode.decode import PerCode

PATIENCE = 60.0
"""Seconds from the beginning of a translation for which other threads wait for it. It may be waiting for one of them in
turn, in a backend or a finalizer, so there has to be an end."""

_GRACE = 0.05
"""Seconds in which a thread that has just got its turn has noted that."""


class Turn:
    """A lock that one thread holds until its callback ends, and since when one has held it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._since = -math.inf
        self._given_up = math.nan
        """``_since`` of a holder that was waited for in vain."""

    def hold(self, view: _C.FrameView) -> bool:
        """Wait for the turn, until `PATIENCE` has passed since its holder got it. False: it holds it still, and later
        calls don't wait for it."""
        until = time.monotonic() + PATIENCE
        held = view.hold(self._lock, 0.0)
        while not held and self._since != self._given_up and time.monotonic() < until:
            since = self._since
            patience = min(since + PATIENCE, until) - time.monotonic()
            held = view.hold(self._lock, max(patience, _GRACE))
            if not held and since == self._since:
                self._given_up = since
        if held:
            self._since = time.monotonic()
        return held

    def is_given_up(self) -> bool:
        """Whether a thread holds it for which no other one waits any more."""
        return self._since == self._given_up and not _C.is_free(self._lock)


class _Backends:
    """One backend of this process compiles at a time."""

    turn = Turn()


class TranslationLocks:
    """A turn for each code object, of the owners of one family: what one translates, the others run as well."""

    def __init__(self) -> None:
        self._turns = PerCode(lambda _: Turn())
        _LIVE.add(self)

    def hold(self, view: _C.FrameView) -> bool:
        """Wait until no other thread translates this code. From then until the callback ends, none does. False: one
        still does."""
        return self._turns(view.code).hold(view)

    def forget(self) -> None:
        self._turns.clear()


_LIVE: weakref.WeakSet[TranslationLocks] = weakref.WeakSet()


def hold_backends(view: _C.FrameView) -> bool:
    """Wait until no other thread's backend compiles. From then until the callback ends, none does. False: one still
    does."""
    return _Backends.turn.hold(view)


def backend_hangs() -> bool:
    """Whether a backend compiles on another thread for which none waits any more. What needs a backend would be
    translated for nothing."""
    return _Backends.turn.is_given_up()


def _forget_other_threads() -> None:
    """In a forked child: the threads that held these locks are gone."""
    _Backends.turn = Turn()
    for each in _LIVE:
        each.forget()


os.register_at_fork(after_in_child=_forget_other_threads)
