"""The callback of an owner: a frame that missed becomes a guarded entry, in steps that are read from top to bottom.

    is it ours? → translate, and generate the code after the graph → compile the graph → install the entry

A translation restarts until an attempt succeeds (`restart_loop`). If the backend fails on a kind of operation that
graphs can do without, the frame is translated again without it.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from dataclasses import KW_ONLY, dataclass
from multiprocessing.util import register_after_fork
from types import CodeType
from typing import TypeVar

from dynamo_lite import _C, config, logs
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.backends.registry import Backend
from dynamo_lite.callables.cached_entries import note_graph
from dynamo_lite.controls.errors_at_call import shows_own_frames
from dynamo_lite.controls.takeover import entry_in_place_of
from dynamo_lite.controls.torch_compile import warn_ignored_settings
from dynamo_lite.exc import (
    BackendCompilerFailed,
    ConstraintViolation,
    GuardFilterFailed,
    InternalError,
    RecompileForbidden,
    RecompileLimitExceeded,
    RunsOnceInEager,
    SkipFrame,
    Unsupported,
)
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.notices import warn_here
from dynamo_lite.insight.observer import Observer
from dynamo_lite.insight.site import code_place
from dynamo_lite.records.surroundings import Surroundings
from dynamo_lite.resume.graph_break import continues_where_errors_may_be_swallowed
from dynamo_lite.resume.resume_code import raising_code, runs_rest_as_own_function
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous, without_garbage_collection
from dynamo_lite.runtime.precomputed_calls import PendingExceptions, PrecomputedCalls

from .backend_traits import traits_of, traits_on_aotautograd
from .budget import TakesTooLong, TranslationBudget
from .eligibility import refuse_here, verdict, verdict_of_entries
from .entry import Entry, make_entry
from .families import Family
from .frame_identity import FrameIdentity
from .graph_call import compile_graph, traits_without
from .guard_filter import Filter
from .observers import BUILTINS, builtins_are_unchanged, without_dispatch_modes, without_saved_tensor_hooks
from .one_at_a_time import backend_hangs, hold_backends
from .recompilation import Versions, note_outdated, note_recompile, note_recompiled
from .reports import Times, report_entry, report_once_in_eager, report_skip, report_writes
from .restart_loop import translate
from .translation import Request, Translation

Answer = Entry | _C.Verdict | float | BaseException | tuple[CodeType, BaseException]
"""What the hook does with a frame, as `_C.Owner` documents."""

_SAY_WHERE = (Unsupported, BackendCompilerFailed, ConstraintViolation, GuardFilterFailed)
"""Errors whose message names the user's line: frames of the tracer would only hide it."""
_RAISED = (*_SAY_WHERE, InternalError, TakesTooLong)
_FROM_THE_CALL = (*_SAY_WHERE, RecompileLimitExceeded, RecompileForbidden, KeyboardInterrupt)
"""What is raised from the user's line. Where in the tracer an interrupt came is chance."""
E = TypeVar("E", bound=BaseException)


@dataclass(eq=False, repr=False)
class FrameCompiler:
    """Called with each frame for which its owner has no entry whose guards hold. It has the owner's settings."""

    backend: Backend
    name: str
    family: Family
    _: KW_ONLY
    fullgraph: bool = False
    observer: Observer | None = None
    budget: TranslationBudget | None = None
    """None: each frame is translated at once."""
    guard_filter: Filter | None = None
    is_exporting = False
    """Whether it is `export`'s."""

    def __post_init__(self) -> None:
        self.traits = traits_of(self.backend)
        self.versions = Versions()
        self.frozen = threading.local()
        """Has an attribute ``on`` on threads that run cached code only."""
        self.precomputed_exceptions = PendingExceptions()

    def __call__(self, view: _C.FrameView) -> Answer:
        frame = FrameIdentity(view)
        if not self.fullgraph and not builtins_are_unchanged():  # before anything that uses them
            return refuse_here(frame, BUILTINS, self.observer)
        try:
            answer = self._miss(frame)
        except BaseException as error:  # raised in the resume function's blocks, as any error there
            if isinstance(error, KeyboardInterrupt):
                error.add_note(f"{frame.place} was being compiled")
                error.__suppress_context__ = True  # an exception that the tracer was handling
            code = raising_code(frame.code)
            if code is not None:
                return code, _without_our_frames(error)
            if not isinstance(error, _FROM_THE_CALL):
                raise
            return _without_our_frames(error)
        if type(answer) is float and runs_rest_as_own_function(frame.code):
            return _C.SKIP
        return answer

    def _miss(self, frame: FrameIdentity) -> Entry | _C.Verdict | float | Exception:
        """Is it ours, and is it its turn? If so, compile it."""
        is_frozen = getattr(self.frozen, "on", False)
        in_its_place = entry_in_place_of(frame.view)
        if in_its_place is not None:
            return in_its_place
        waiting, fullgraph = self.precomputed_exceptions, self.fullgraph
        found = verdict(frame, waiting, self.observer, is_frozen=is_frozen, fullgraph=fullgraph)
        if found is None:
            if not self.family.locks.hold(frame.view) and not self.fullgraph:
                return _has_waited_too_long(frame.code, "translates it")
            found = verdict_of_entries(frame, self.versions, fullgraph=self.fullgraph)
        if found is not None:
            return found
        if backend_hangs() and not self.fullgraph:
            return _has_waited_too_long(frame.code, "compiles a graph")
        if self.budget is None:
            return self._try_compiling(frame)
        seconds = self.budget.wait(frame.view)
        if seconds is not None:
            return seconds
        began = time.perf_counter()
        try:
            entry = self._try_compiling(frame)
        except TakesTooLong:
            seconds = self.budget.give_up(frame.view, time.perf_counter() - began)
            return _C.PASS if seconds is None else seconds
        self.budget.note(frame.view, time.perf_counter() - began, isinstance(entry, tuple))
        return entry

    def _try_compiling(self, frame: FrameIdentity) -> Entry | _C.Verdict:
        """Compile it, and note if that is a recompilation. It runs in eager if the error is one that the user has
        suppressed."""
        note_recompile(frame, self.versions, self.observer)
        began = time.perf_counter()
        warn_ignored_settings()
        try:
            entry = self._compile_or_skip(frame)
        except (BackendCompilerFailed, InternalError) as error:
            if not self._is_suppressed(error):
                raise
            return self._run_in_eager(frame, error)
        note_recompiled(frame, time.perf_counter() - began)
        if isinstance(entry, tuple):
            self.versions.add(frame)
        return entry

    def _is_suppressed(self, error: BackendCompilerFailed | InternalError) -> bool:
        """Whether the frame runs in eager instead."""
        if self.fullgraph or self.observer is not None:
            return False
        if config.torchs("suppress_errors"):
            return True
        warns = "warn" if self.budget is not None else "raise"  # whether it is a frame of dl.enable
        setting = config.internal_errors
        return isinstance(error, InternalError) and (warns if setting == "default" else setting) == "warn"

    def _run_in_eager(self, frame: FrameIdentity, error: BackendCompilerFailed | InternalError) -> _C.Verdict:
        if not isinstance(error, InternalError) or config.torchs("suppress_errors"):
            setting = "torch._dynamo.config.suppress_errors"
            warn_here(f"{frame.place.function} runs in eager from now on, by {setting}: {error}")
            return self._skip(frame.code, SkipFrame(f"{setting} is set, and {type(error).__name__} was raised"))
        counters.internal_errors += 1
        logs.breaks.info("%s could not be translated", frame.place, exc_info=error)
        warn_here(
            f"{frame.place} runs in eager from now on, because of a bug of dynamo_lite: {error}\n\nHint: please report "
            f"it, with the function and the traceback, which dl.logs.set('breaks') shows; "
            f"dl.config.internal_errors = 'raise' makes it an error"
        )
        return self._skip(frame.code, SkipFrame("translating it failed by a bug of dynamo_lite"))

    def _compile_or_skip(self, frame: FrameIdentity) -> Entry | _C.Verdict:
        """Compile it; the verdict on it if the trace shows that it isn't ours. Raises what the user is to see, and
        `InternalError` for anything else."""
        try:
            with without_saved_tensor_hooks(), without_garbage_collection():
                self._prepare_backend()
                return self._compile(frame)
        except SkipFrame as skipped:
            return self._skip(frame.code, skipped)
        except RunsOnceInEager as why:
            report_once_in_eager(frame.place, str(why), self.observer)
            return _C.PASS_RECURSIVE
        except (RecursionError, MemoryError, Warning) as error:  # by the program's limits and filters
            reraise_if_asynchronous(error)
            return self._skip(frame.code, SkipFrame(f"translating it raised {type(error).__name__}"))
        except _RAISED:
            raise
        except Exception as error:
            reraise_if_asynchronous(error)
            what = f"translating {code_place(frame.code)} failed"
            raise InternalError(f"{what}: {type(error).__name__}: {error}") from error

    def _compile(self, frame: FrameIdentity) -> Entry | _C.Verdict:
        """Translate and generate, compile, install."""
        started = time.perf_counter()
        translation = self.translate(frame)
        self._check_loop(frame, translation)
        if translation.attempt.graph.operators and not hold_backends(frame.view) and not self.fullgraph:
            translation.attempt.close()
            return _has_waited_too_long(frame.code, "compiles a graph")
        try:
            compiled = compile_graph(translation, frame, self.backend, self.name, self.observer)
        except BackendCompilerFailed:
            fewer = None if self.fullgraph else traits_without(translation)
            if fewer is None:
                raise
            self.traits, compiled = fewer, None  # translated again below, where this error isn't being handled
        if compiled is not None and compiled.calls_aotautograd:
            self.traits = traits_on_aotautograd(self.backend, self.traits)
        if compiled is None or compiled.must_translate_again:
            translation.attempt.close()
            return self._compile(frame)
        report_writes(translation, frame)
        generating = time.perf_counter()
        entry = make_entry(translation, compiled, frame, self.name, self.family, self.guard_filter, self.observer)
        if isinstance(entry, tuple):
            outdated = entry[0].test(frame.view)
            if outdated is not None:  # by another thread, a signal's handler, or the backend
                note_outdated(frame, outdated)
                self.versions.add_outdated(frame)
                return _C.PASS
            note_graph(entry[1], compiled.graph)
            times = Times(generating - started - compiled.seconds, compiled.seconds, time.perf_counter() - generating)
            report_entry(frame, entry, translation.graph_break, times, self.observer, compiled.record)
        return entry

    def _prepare_backend(self) -> None:
        """Have the backend start what takes it long. Most frames that `enable` translates have no graph."""
        prepare = getattr(self.backend, "prepare", None)
        if prepare is not None and self.budget is None:
            with without_dispatch_modes():
                prepare()

    def _check_loop(self, frame: FrameIdentity, translation: Translation) -> None:
        """Leave a loop to eager that needs tensors' values at several places."""
        found = translation.graph_break
        if found is None or not found.reason.is_of_data or self.fullgraph:
            return
        if self.versions.needs_data_again(frame, translation.stopped_at):
            translation.attempt.close()
            why = f"it continues a loop that needs tensors' values at several places, the last in line {found.lineno}"
            raise SkipFrame(f"{why}; what the loop calls is compiled", loses=False)

    def translate(self, frame: FrameIdentity) -> Translation:
        """The frame, translated under the owner's settings."""
        traits = self.traits
        shapes = self.family.shapes.begin(frame.code, frame.arguments, traits.takes_floats, traits.arguments_only)
        precomputed = PrecomputedCalls(self.precomputed_exceptions, frame.owner)
        until = math.inf if self.budget is None else time.perf_counter() + self.budget.limit(frame.view)
        surroundings = Surroundings(
            begins_handled=continues_where_errors_may_be_swallowed(frame.code),
            callers_handle=sys.exception() is not None,
            captures_data=self.fullgraph or self.observer is not None and self.observer.captures_data,
            is_exporting=self.is_exporting,
        )
        request = Request(frame, traits, surroundings, self.fullgraph, shapes, precomputed, self.prepare, until)
        return translate(request)

    def prepare(self, attempt: Attempt) -> None:
        """Change an attempt before it begins."""

    def _skip(self, code: CodeType, skipped: SkipFrame) -> _C.Verdict:
        report_skip(code, skipped, self.fullgraph, self.observer)
        return _C.SKIP_WITHOUT_TENSORS if skipped.over_operands else _C.SKIP

    def forget(self) -> None:
        """Forget what was learnt of frames and sizes. The backend's ``reset``, if it has one, drops what it keeps."""
        self.family.forget()
        self.versions.forget()
        if self.budget is not None:
            self.budget.forget()
        reset = getattr(self.backend, "reset", None)
        if reset is not None:
            reset()


def _without_our_frames(error: E) -> E:
    """The error as the user's frame raises it, unless the user asks for more."""
    if isinstance(error, _FROM_THE_CALL) and not shows_own_frames():
        error.__traceback__ = None
    return error


def _has_waited_too_long(code: CodeType, does: str) -> _C.Verdict:
    logs.perf.info("a call of %s runs in eager: another thread %s still", code.co_qualname, does)
    return _C.PASS


register_after_fork(_C, lambda module: module.begin_process())  # as a process begins that isn't forked
