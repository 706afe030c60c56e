"""Recompilation: which guards failed, and what happens at the limit of entries."""

from __future__ import annotations

import warnings
import weakref
from collections import Counter
from types import CodeType

import torch
from torch.utils.weak import WeakIdKeyDictionary

from dynamo_lite import _C, config, logs
from dynamo_lite.exc import RecompileLimitExceeded
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.observer import Observer


class Versions:
    """The number of entries of each code object, by the module that it was called with.

    Layers share the code of their methods, and the guards of an entry may hold for one layer alone (on its name, its
    index): each layer may have as many versions as a function. Modules are compared by identity: their ``__hash__`` and
    ``__eq__`` are user code, and may need attributes that ``__init__`` has yet to set.
    """

    def __init__(self) -> None:
        self._of: weakref.WeakKeyDictionary[CodeType, WeakIdKeyDictionary] = weakref.WeakKeyDictionary()

    def add(self, view: _C.FrameView) -> None:
        """Count a new entry."""
        counts = self._of.setdefault(view.code, WeakIdKeyDictionary())
        module = _module_of(view)
        counts[module] = counts.get(module, 0) + 1

    def at_limit(self, view: _C.FrameView) -> bool:
        """Whether there may be no further entry for this call."""
        limit: int = config.in_force("recompile_limit")
        if view.entries < limit:
            return False
        if view.entries >= config.in_force("total_recompile_limit"):
            return True
        counts = self._of.get(view.code)
        count = 0 if counts is None else counts.get(_module_of(view), 0)
        return count >= limit

    def forget(self) -> None:
        self._of.clear()


def _module_of(view: _C.FrameView) -> object:
    """The first argument that is a module; `Versions` stands for none."""
    found = (value for value in view.locals.values() if issubclass(type(value), torch.nn.Module))
    return next(found, Versions)


def hold_again(view: _C.FrameView) -> bool:
    """Whether guards failed only because of registrations with abstract classes that they don't depend on."""
    misses = view.misses() if view.entries else []
    return any([each.kind == "registrations" and each.reason.answers.renew() for each in misses])


def note_recompile(view: _C.FrameView, observer: Observer | None) -> None:
    """Count a translation of a frame that has entries; log and report which of their guards failed."""
    if not view.entries:
        return
    counters.recompiles += 1
    if observer is None and not logs.recompiles.isEnabledFor(20):
        return
    failed = "; ".join(describe(failure) for failure in view.misses())
    logs.recompiles.info("%s%s is translated again: %s", logs.rank(), view.code.co_qualname, failed)
    if observer is not None:
        observer.recompiles.append(f"{view.code.co_qualname}: {failed}")


def note_recompiled(view: _C.FrameView, seconds: float) -> None:
    """Log, where other processes may wait for this one, that they needn't any longer."""
    if view.entries and logs.recompiles.isEnabledFor(20) and (rank := logs.rank()):
        logs.recompiles.info("%s%s runs again, after %.1f s", rank, view.code.co_qualname, seconds)


def describe(failure: _C.Failure) -> str:
    """A failed guard, in words."""
    return f"{failure.reason} (found: {failure.found})"


def limit_reached(view: _C.FrameView, fullgraph: bool) -> None:
    """Warn, once for each code object, that it runs in eager from now on; under ``fullgraph``, which forbids that,
    raise."""
    failures = Counter(str(failure.reason) for failure in view.misses())
    listed = "".join(f"\n  {count} of {view.entries} entries: {reason}" for reason, count in failures.most_common(8))
    code = view.code
    message = (
        f"{logs.rank()}{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) has {view.entries} compiled "
        f"versions, the limit (dl.config.recompile_limit for each module, total_recompile_limit in all); "
    )
    guards = f". The guards that failed now:{listed}"
    if fullgraph or config.torchs("fail_on_recompile_limit_hit"):
        forbids = "fullgraph=True" if fullgraph else "torch._dynamo.config.fail_on_recompile_limit_hit"
        raise RecompileLimitExceeded(f"{message}none of them fits this call, and {forbids} forbids eager{guards}")
    warnings.warn(f"{message}calls that none of them fits run eager from now on{guards}", RuntimeWarning, stacklevel=3)
