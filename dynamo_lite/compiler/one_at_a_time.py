"""Which threads wait while one translates, and which greenlets.

A frame's code is translated by one thread; others that call it wait for the entry. Backends compile one at a time, in
the whole process: torch's tracers patch modules and keep globals (``make_fx``, ``fx.Tracer``), which two at once would
restore wrong. A greenlet can't wait for another of its own thread, and torch keeps much of a tracer's state for the
thread: its frames run in eager meanwhile."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from types import CodeType, FrameType

from dynamo_lite import _C

PATIENCE = 60.0
"""Seconds that a thread waits for another's translation. That may be waiting for this thread in turn, in a backend or a
finalizer, so there has to be an end."""


class _Backends:
    """One backend of this process compiles at a time."""

    lock = threading.RLock()


class _Innermost(threading.local):
    """The frame that runs the innermost translation which this thread has begun, if any."""

    frame: FrameType | None = None


_innermost = _Innermost()
_getframe = sys._getframe


class TranslationLocks:
    """A lock for each code object, of the owners of one family: what one translates, the others run as well."""

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[CodeType, threading.RLock] = weakref.WeakKeyDictionary()
        _LIVE.add(self)

    def hold(self, view: _C.FrameView) -> bool:
        """Wait until no other thread translates this code. From then until the callback ends, none does. False: one
        still does."""
        return view.hold(self._locks.setdefault(view.code, threading.RLock()), PATIENCE)

    def forget(self) -> None:
        self._locks.clear()


_LIVE: weakref.WeakSet[TranslationLocks] = weakref.WeakSet()


def hold_backends(view: _C.FrameView) -> bool:
    """Wait until no other thread's backend compiles. From then until the callback ends, none does. False: one still
    does."""
    return view.hold(_Backends.lock, PATIENCE)


class Translating:
    """Marks a block as a translation."""

    def __enter__(self) -> None:
        self.outer, _innermost.frame = _innermost.frame, _getframe(1)

    def __exit__(self, *error: object) -> None:
        _innermost.frame = self.outer


def another_greenlet_translates() -> bool:
    """Whether a translation has begun on this thread that isn't among the callers."""
    if _innermost.frame is None:
        return False
    frame: FrameType | None = _getframe()
    while frame is not None and frame is not _innermost.frame:
        frame = frame.f_back
    return frame is None


def _forget_other_threads() -> None:
    """In a forked child: the threads that held these locks are gone."""
    _Backends.lock = threading.RLock()
    for each in _LIVE:
        each.forget()


os.register_at_fork(after_in_child=_forget_other_threads)
