"""Recompilation: why entries did not hold, and what happens at the limit of entries."""

from __future__ import annotations

import warnings
from collections import Counter

from . import _C, config, logs
from .counters import counters


def hold_again(view: _C.FrameView) -> bool:
    """Whether entries did not hold for nothing but a registration with abstract classes that they never asked about."""
    misses = view.misses() if view.entries else []
    return any([each.kind == "registrations" and each.reason.answers.renew() for each in misses])


def note_recompile(view: _C.FrameView) -> None:
    """Count a translation of a frame that has entries, and log what failed in them."""
    if not view.entries:
        return
    counters.recompiles += 1
    if logs.recompiles.isEnabledFor(20):
        failed = "; ".join(describe(failure) for failure in view.misses())
        logs.recompiles.info("%s is translated again: %s", view.code.co_qualname, failed)


def describe(failure: _C.Failure) -> str:
    """A failed guard, in words."""
    return f"{failure.reason} (found: {failure.found})"


def limit_reached(view: _C.FrameView) -> str:
    """Warn, once a code object, that it runs eager from now on; returns the message."""
    failures = Counter(str(failure.reason) for failure in view.misses())
    listed = "".join(f"\n  {count} of {view.entries} entries: {reason}" for reason, count in failures.most_common(8))
    code = view.code
    message = (
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) has {config.recompile_limit} compiled "
        f"versions, the limit (dl.config.recompile_limit); calls that none of them fits run eager from now on. "
        f"The guards that failed now:{listed}"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=3)
    return message
