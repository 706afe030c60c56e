"""The exceptions that a user may see, and the two that control a translation.

Three kinds: *this can't be in a graph* (`Unsupported`: a graph break, or an error under ``fullgraph=True``), *this
frame is not for us* (`SkipFrame`, never seen by a user), and *we have a bug* (`InternalError`, raised or warned of).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .insight.page_addresses import where_to_read
from .insight.program_files import line_place, without_ours
from .insight.source_lines import source_line

if TYPE_CHECKING:
    from traceback import FrameSummary

    from .insight.break_reason import BreakReason
    from .insight.observer import GraphBreak


class Unsupported(RuntimeError):
    """A part of the program can't be captured: the graph breaks there, or ``fullgraph=True`` makes it an error.

    Attributes:
        reason: what happened, with a hint.
        user_stack: the user's frames, outermost first, down to that part.
        path: the steps of the inlined frames, outermost first, if the graph may break inside of them.
    """

    def __init__(self, reason: BreakReason, user_stack: tuple[FrameSummary, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.user_stack = user_stack
        self.path: tuple[int, ...] = ()

    def __str__(self) -> str:
        code, where = self.reason.code, _where(self.user_stack)
        return f"{code}: {self.reason.what()}{where}\n\nHint: {self.reason.hint()}\nMore: {where_to_read(code)}"


def _where(user_stack: tuple[FrameSummary, ...]) -> str:
    """The user's frames with their source lines, for messages."""
    where = "".join(
        f"\n  {line_place(frame.filename, frame.lineno)} in {frame.name}\n    {source_line(frame)}"
        for frame in without_ours(user_stack)
    )
    return f"\n\nWhere (innermost last):{where}" if where else ""


class ConstraintViolation(ValueError):
    """A dimension contradicts ``dl.mark_dynamic``: the program specializes its size, or the size is outside the range.

    Attributes:
        what: what happened.
        user_stack: the user's frames where the size is specialized, outermost first; empty if they aren't known.
    """

    def __init__(self, what: str, user_stack: tuple[FrameSummary, ...] = ()) -> None:
        hint = "leave the mark out, or mark a smaller range; the shapes that this place combines must agree"
        super().__init__(f"{what}{_where(user_stack)}\n\nHint: {hint}")
        self.what = what
        self.user_stack = user_stack


class RecompileLimitExceeded(RuntimeError):
    """A frame needs more than ``dl.config.recompile_limit`` entries, under ``fullgraph=True``."""


class RecompileForbidden(RuntimeError):
    """A frame needs a compilation, under ``dl.set_stance("fail_on_recompile")`` or torch's ``error_on_recompile``.

    Attributes:
        change: what isn't what it was when the frame was compiled last; empty if it never was.
    """

    def __init__(self, place: str, change: str, hint: str) -> None:
        what = f"would be compiled again: {change}" if change else "isn't compiled yet"
        super().__init__(
            f"{place} {what}. The stance is 'fail_on_recompile', or torch's error_on_recompile is set\n\n"
            f"Hint: {hint}{'; ' if hint else ''}call it with such arguments before, or set 'eager_on_recompile'"
        )
        self.change = change


class BackendCompilerFailed(RuntimeError):
    """A backend raised an exception, which is the ``__cause__``. The call had no side effects."""

    def __init__(self, backend: str, error: BaseException) -> None:
        super().__init__(
            f"backend {backend!r} raised {type(error).__name__}: {error}\n\n"
            f"Hint: the captured graph runs without it under backend='eager'; "
            f"dl.explain(fn)(*args).graphs shows what the backend was given."
        )
        self.backend = backend


class WrongBackendResult(BackendCompilerFailed):
    """A backend returned something that is not callable, or compiled code didn't return the graph's outputs."""

    def __init__(self, backend: str, what: str) -> None:
        RuntimeError.__init__(
            self,
            f"backend {backend!r} {what}\n\n"
            f"Hint: backend(gm, example_inputs) returns a callable that takes the graph's inputs and returns a tuple "
            f"or list of its results, as gm.forward does; backend='eager' is one.",
        )
        self.backend = backend


class GuardFilterFailed(RuntimeError):
    """The function of ``options={"guard_filter_fn": fn}`` raised, which is the ``__cause__``, or returned something
    else than a bool for each guard. The call had no side effects."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"guard_filter_fn {what}\n\n"
            f"Hint: it gets a list of guards, and returns a list of as many bools: False leaves that guard out, as in "
            f"lambda guards: [each.guard_type == 'TENSOR_MATCH' for each in guards]."
        )


class InvalidBackend(ValueError):
    """No backend is registered under that name."""


class InvalidInput(ValueError):
    """An exported program was called with arguments that its graph is not valid for.

    Attributes:
        program: its name.
        place: the argument, or the value reached from one, as text.
        fault: what was expected of it, and what it is.
    """

    def __init__(self, program: str, place: str, fault: str) -> None:
        super().__init__(program, place, fault)
        self.program, self.place, self.fault = program, place, fault

    def __str__(self) -> str:
        return (
            f"{self.program}: {self.place} {self.fault}\n\n"
            f"Hint: an exported graph holds for inputs like those it was made with; dl.export it again for others."
        )


class InternalError(RuntimeError):
    """A bug in dynamo_lite. It is raised, and never a silent fallback to eager. By ``dl.config.internal_errors``, under
    ``dl.enable`` by default, and where the program has set ``torch._dynamo.config.suppress_errors``, it is a warning
    instead, and the frame runs in eager."""


class RunsOnceInEager(Exception):
    """This call of the frame runs in eager, with all that it calls; the next call is translated."""


class SkipFrame(Exception):
    """The frame falls back to eager, in this call and later ones. ``loses``: whether that loses a graph, so that it is
    reported as a graph break. ``over_operands``: whether calls whose arguments hold tensors are translated."""

    def __init__(
        self, why: str, *, loses: bool = True, cause: GraphBreak | None = None, over_operands: bool = False
    ) -> None:
        super().__init__(why)
        self.why = why
        self.loses = loses
        self.over_operands = over_operands
        self.cause = cause
        """The graph break that led to it, where there is one."""
