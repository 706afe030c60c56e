"""Recompilation: which guards failed, and what happens at the limit of entries."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import CodeType
from typing import NamedTuple

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_lite import _C, config, logs
from dynamo_lite.bytecode.decode import PerCode
from dynamo_lite.exc import RecompileLimitExceeded
from dynamo_lite.insight.changes import Change, change_of
from dynamo_lite.insight.counters import counted, counters
from dynamo_lite.insight.notices import warn_here
from dynamo_lite.insight.observer import Observer, Recompile
from dynamo_lite.insight.recorder import RECORDING, RecompileRecord
from dynamo_lite.records.guards import GuardReason, RegistrationsReason
from dynamo_lite.resume.resume_code import RESUME_CODES, continued
from dynamo_lite.resume.varying_numbers import jumps_back

from .frame_identity import FrameIdentity

_VERSIONS_OF_ITERATIONS = 3
"""Two in which numbers have the values of an iteration (0 and 1 stay constants), and one in which they are symbolic."""


class End(NamedTuple):
    """Why a frame is not translated again, although none of its entries holds."""

    why: str
    tell: Callable[[FrameIdentity, bool], None]
    """Logs it or warns of it; raises if ``fullgraph`` forbids it."""
    verdict: _C.Verdict


class _CodeVersions:
    """What was made of one code object."""

    __slots__ = ("counts", "in_call", "outdated", "differed_in", "needs_data_at", "is_left")

    def __init__(self) -> None:
        self.counts = WeakIdKeyDictionary()
        """Module -> entries."""
        self.in_call: Counter[tuple[int, int]] = Counter()
        """Of a resume function: `_occasion` -> entries made on it."""
        self.outdated = 0
        """Translations in a row that were dropped."""
        self.differed_in = -1
        """The outermost call in which a loop of this code was left to eager, whoever called it."""
        self.needs_data_at = set[int]()
        """Indices in loops of this code at which graphs broke since the program needs a tensor's value."""
        self.is_left = False
        """Whether loops of this code are left to eager where they broke."""


class Versions:
    """The number of entries of each code object, by the module that it was called with.

    Layers share the code of their methods, and the guards of an entry may hold for one layer alone (on its name, its
    index): each layer may have as many versions as a function. Modules are compared by identity: their ``__hash__`` and
    ``__eq__`` are user code, and may need attributes that ``__init__`` has yet to set.
    """

    def __init__(self) -> None:
        self._of = PerCode(lambda _: _CodeVersions())

    def add(self, frame: FrameIdentity) -> None:
        """Count a new entry."""
        made = self._of(frame.code)
        made.outdated = 0
        key = _module_key(frame)
        made.counts[key] = made.counts.get(key, 0) + 1
        if frame.is_rest:
            occasion = _occasion(frame)
            in_call = {each: n for each, n in made.in_call.items() if each[0] == occasion[0]}
            made.in_call = Counter(in_call) + Counter([occasion])

    def end(self, frame: FrameIdentity) -> End | None:
        """Why the frame gets no further entry; None: it may get one."""
        if self._differ_by_iteration(frame):
            return End(_left_loop(frame), _note_left_loop, _C.SKIP)
        if self._at_limit(frame):
            why = f"calls that none of its {len(frame.misses)} compiled versions fits; there are no more than that"
            return End(why, _limit_reached, _C.FREEZE)
        if self._is_always_outdated(frame):
            return End("what it guards changes in each translation", _outdated_too_often, _C.FREEZE)
        return None

    def _differ_by_iteration(self, frame: FrameIdentity) -> bool:
        """Whether the frame continues a loop or what one calls, and goes on in eager: one call has made several entries
        for it already, none of which holds (each iteration would make another one, as for a list that grows), there may
        be no further one, or the loop is left to eager."""
        loop = _loop_of(frame)
        known = None if loop is None else self._of(loop)
        if known is not None and (known.is_left or known.differed_in == _C.outermost_calls() or self._at_limit(frame)):
            return True
        versions = self._of.get(frame.code)
        made = versions.in_call if versions is not None else None
        if not made:
            return False
        occasion = _occasion(frame)
        every = (occasion[0], 0)
        differs = max(made[occasion], made[every]) >= _VERSIONS_OF_ITERATIONS
        if differs and known is not None:
            known.differed_in = occasion[0]
        for inner in frame.in_loop[1:] if differs else ():  # they continue the same loop
            self._of(inner).in_call = Counter({every: _VERSIONS_OF_ITERATIONS})
        return differs

    def needs_data_again(self, frame: FrameIdentity, stopped_at: Iterable[tuple[CodeType, int | None]]) -> bool:
        """Whether the frame, which breaks there for a tensor's value, continues a loop that has broken for another one
        at another place. Its iterations are then left to eager: they would be cut into several small graphs. What they
        call is compiled.

        ``stopped_at``: the user's code and the index in it, of the frame and the inlined ones, outermost first."""
        in_loops = [(code, at) for code, at in stopped_at if at is not None and _loops_around(code, at)]
        if not in_loops:
            return False
        code, at = in_loops[-1]
        versions = self._of(code)
        versions.needs_data_at.add(at)
        goes_on = [info.point.index for info in continued(frame.code) if info.original is code]
        for start, end in _loops_around(code, at):
            places = [each for each in versions.needs_data_at if start <= each <= end]
            if len(places) > 1 and any(start <= each <= end for each in goes_on):
                versions.is_left = True
                return True
        return False

    def _at_limit(self, frame: FrameIdentity) -> bool:
        """Whether there may be no further entry for this call."""
        limit: int = config.in_force("recompile_limit")
        if frame.view.entries < limit:
            return False
        if frame.view.entries >= config.in_force("total_recompile_limit"):
            return True
        return self.count(frame) >= limit

    def count(self, frame: FrameIdentity) -> int:
        """Entries of the frame's code for its module."""
        made = self._of.get(frame.code)
        return 0 if made is None else made.counts.get(_module_key(frame), 0)

    def add_outdated(self, frame: FrameIdentity) -> None:
        """Count a translation that was dropped, as a guard no longer held when it was finished."""
        self._of(frame.code).outdated += 1

    def _is_always_outdated(self, frame: FrameIdentity) -> bool:
        """Whether so many in a row were dropped that there may be no further one."""
        made = self._of.get(frame.code)
        return made is not None and made.outdated >= max(1, config.in_force("recompile_limit"))

    def forget(self) -> None:
        self._of.clear()


def _module_key(frame: FrameIdentity) -> object:
    """The module that entries are counted for; `Versions` stands for none."""
    return Versions if frame.module is None else frame.module


def _loop_of(frame: FrameIdentity) -> CodeType | None:
    """The user's code whose loop a resume function, or the innermost call that it interrupts, continues."""
    info = RESUME_CODES.info(frame.in_loop[-1]) if frame.in_loop else None
    return None if info is None else info.original


def _loops_around(code: CodeType, index: int) -> list[tuple[int, int]]:
    """The loops of the user's code that an instruction is in: indices of the first instruction and the last."""
    return [(start, end) for start, end in jumps_back(code) if start <= index <= end]


def _occasion(frame: FrameIdentity) -> tuple[int, int]:
    """The number of the outermost call, and the id of the module that a resume function continues a call of; 0 in a
    loop, whose iterations may be over modules."""
    return _C.outermost_calls(), 0 if frame.in_loop else id(frame.module)


def revalidate_abc_guards(view: _C.FrameView) -> bool:
    """Renew the guards on registrations with abstract classes that still hold after one. Whether there were any."""
    reasons = [each.reason for each in view.misses()] if view.entries else []
    return any([isinstance(each, RegistrationsReason) and each.checks.renew() for each in reasons])


def note_recompile(frame: FrameIdentity, versions: Versions, observer: Observer | None) -> None:
    """Count, log and report a translation of a frame that has entries. Observers don't see a module's first
    compilation as a recompilation."""
    if not frame.failures:
        return
    counters.recompiles += 1
    recorder = RECORDING.now
    if observer is None and recorder is None and not logs.recompiles.isEnabledFor(logging.INFO):
        return
    found = recompile_of(frame)
    logs.recompiles.info("%s%s", logs.rank(), found)
    if observer is not None and versions.count(frame):
        observer.recompiles.append(found)
    if recorder is not None:
        at = time.perf_counter() - recorder.began
        recorder.note_recompile(RecompileRecord(**vars(found), at=at))


def _nearest(frame: FrameIdentity) -> _C.Failure:
    """Of the frame's failures, of which there are some, the one to tell a user of: that of the entry most of whose
    guards hold. Another entry may fail at a value that this one was made for. Of entries that fail at the same value,
    the one used last."""
    entries = frame.view.owner.entries(frame.code)
    if len(entries) != len(frame.misses):  # one has been dropped meanwhile
        return frame.failures[0]
    held = {id(miss): _held(entry, miss) for entry, miss in zip(entries, frame.misses)}
    furthest = _change(max(frame.failures, key=lambda each: held[id(each)])).subject
    return next(each for each in frame.failures if _change(each).subject == furthest)


def _held(entry: _C.Entry, miss: _C.Failure) -> int:
    """How many checks of the entry held before the one that failed."""
    return next((at for at, check in enumerate(entry.tree.checks()) if check[0] is miss.reason), 0)


def recompile_of(frame: FrameIdentity) -> Recompile:
    """Why a frame whose entries all failed is compiled again, in the program's terms."""
    return Recompile(*frame.place, *_change(_nearest(frame)))


def _change(failure: _C.Failure, at_limit: bool = False) -> Change:
    reason = failure.reason
    if not isinstance(reason, GuardReason):  # of a tree that isn't built from sources
        reason = GuardReason(str(reason or "its guards"), failure.kind, "")
    return change_of(failure, reason.subject, reason.is_expression, reason.text, at_limit)


def note_recompiled(frame: FrameIdentity, seconds: float) -> None:
    """Log the end of a recompilation for which other processes may have waited."""
    if frame.view.entries and logs.recompiles.isEnabledFor(20) and (rank := logs.rank()):
        logs.recompiles.info("%s%s runs again, after %.1f s", rank, frame.code.co_qualname, seconds)


def _left_loop(frame: FrameIdentity) -> str:
    return f"a loop with a graph break, none of whose {len(frame.misses)} compiled versions fits the next iteration"


def _note_left_loop(frame: FrameIdentity, fullgraph: bool) -> None:
    """Log that the frame goes on in eager. (Under ``fullgraph`` the break before it has raised.)"""
    logs.recompiles.info("%s goes on in eager: it continues %s", frame.place, _left_loop(frame))


def note_outdated(frame: FrameIdentity, failure: _C.Failure) -> None:
    """Count and log that a translation is dropped: a guard no longer holds of the frame it was made from. This call
    runs in eager, the next one is translated again."""
    counters.outdated += 1
    logs.recompiles.info(
        "%s%s changed while it was compiled, so this call runs in eager: the guard %r no longer holds (%s)",
        logs.rank(),
        frame.place,
        str(failure.reason),
        _change(failure).text,
    )


def _outdated_too_often(frame: FrameIdentity, fullgraph: bool) -> None:
    """Warn that a frame runs in eager from now on, as guards changed in each of several translations; under
    ``fullgraph``, which forbids that, raise."""
    message = (
        f"{logs.rank()}{frame.place} was compiled several times (dl.config.recompile_limit), and each time a "
        f"value that it guards had changed when that was done"
    )
    hint = "\nHint: the logger dynamo_lite.recompiles (INFO) names the guards; compile before other threads change them"
    if fullgraph:
        raise RecompileLimitExceeded(f"{message}; fullgraph=True forbids eager{hint}")
    warn_here(f"{message}; it runs in eager from now on{hint}")


def _limit_reached(frame: FrameIdentity, fullgraph: bool) -> None:
    """Warn, once for each code object, that it runs in eager from now on; under ``fullgraph``, which forbids that,
    raise."""
    entries = frame.view.entries
    reasons = Counter(str(each.reason) for each in frame.misses)
    listed = "".join(f"\n  {count} of {entries} entries: {reason}" for reason, count in reasons.most_common(8))
    message = (
        f"{logs.rank()}{frame.place} has {counted(entries, 'compiled version')}, the limit "
        f"(dl.config.recompile_limit for each module, total_recompile_limit in all); "
    )
    last = _last_change(_change(_nearest(frame), at_limit=True)) if frame.failures else ""
    guards = f". The guards that failed now:{listed}{last}"
    if fullgraph or config.torchs("fail_on_recompile_limit_hit"):
        forbids = "fullgraph=True" if fullgraph else "torch._dynamo.config.fail_on_recompile_limit_hit"
        raise RecompileLimitExceeded(f"{message}none of them fits this call, and {forbids} forbids eager{guards}")
    warn_here(f"{message}calls that none of them fits run in eager from now on{guards}")


def _last_change(last: Change) -> str:
    limit = config.in_force("recompile_limit")
    return (
        f"\nWhat changed last: {last.text}"
        f"\nHint: {last.hint}. Or allow more versions: dl.config.recompile_limit = {2 * limit} (it is {limit})"
    )
