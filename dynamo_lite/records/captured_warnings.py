"""Warnings raised while operators run on fake tensors.

They would point at our files and be raised again at run time, so they are captured here and the tracer decides what to
do with each.

Programs that need it: a loss of two shapes (``F.mse_loss``) or a ``F.softmax`` without a dimension must warn, and must
raise under ``python -W error``, though a compiler's graph has operators that don't.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any, NamedTuple

import torch

from dynamo_lite.insight.program_files import OURS

_FAKE_KERNELS = ("_subclasses", "_ops.py", "_library", "_prims", "_refs", "_decomp", "_meta_reg", "_dispatch", "fx")
_NOT_IN_EAGER = (
    OURS,
    *(os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), name) for name in _FAKE_KERNELS),
)
"""Files whose code runs only when operators run on fake tensors."""


class CapturedWarning(NamedTuple):
    """One warning, and the line that it points at."""

    message: Warning
    filename: str
    lineno: int

    @property
    def category(self) -> type[Warning]:
        return type(self.message)

    @property
    def is_shown_at_caller(self) -> bool:
        """Whether in eager it points at the caller of the operator."""
        return self.filename.startswith(_NOT_IN_EAGER)


class _InCapturingThread(type):
    """Filters belong to the process: for a thread that doesn't capture, no warning is of this category."""

    def __subclasscheck__(cls, kind: type) -> bool:
        return threading.get_ident() in CAPTURED_WARNINGS.threads


class _AnyWarning(metaclass=_InCapturingThread):
    """The category of every warning, in a thread that captures warnings."""


_FILTER: Any = ("always", None, _AnyWarning, None, 0)
"""Lets all warnings through in a capturing thread, without noting them as shown."""


class _CapturedWarnings:
    """Context manager that captures the warnings of this thread. Replaces ``warnings.filters`` and
    ``warnings.showwarning`` while some thread captures."""

    def __init__(self) -> None:
        self.threads: dict[int, list[CapturedWarning]] = {}
        """Thread -> what it captured."""
        self._lock = threading.Lock()
        self._theirs: Any = []
        self._ours: Any = []
        self._show: Any = None

    def __enter__(self) -> list[CapturedWarning]:
        with self._lock:
            if not self.threads:
                self._theirs = warnings.filters
                self._ours = [_FILTER, *_without_ours(self._theirs)]
                warnings.filters = self._ours
                if warnings.showwarning != self._note:  # another thread's `catch_warnings` may restore ours
                    self._show, warnings.showwarning = warnings.showwarning, self._note  # type: ignore[assignment]
            return self.threads.setdefault(threading.get_ident(), [])

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.threads.pop(threading.get_ident(), None)
            self._restore()

    def _restore(self) -> None:
        if self.threads:
            return
        if warnings.showwarning == self._note:
            warnings.showwarning = self._show
        if warnings.filters is self._ours:
            now = _without_ours(self._ours)
            if now != _without_ours(self._theirs):  # another thread has changed them meanwhile
                self._theirs[:] = now
            warnings.filters = self._theirs

    def forget_other_threads(self) -> None:
        """In a forked child: they are gone, perhaps with the lock."""
        self._lock = threading.Lock()
        mine = threading.get_ident()
        self.threads = {thread: captured for thread, captured in self.threads.items() if thread == mine}
        self._restore()

    def _note(self, message: Any, category: object, filename: str, lineno: int, *rest: object) -> None:
        mine = self.threads.get(threading.get_ident())
        if mine is None:
            self._show(message, category, filename, lineno, *rest)
        else:
            mine.append(CapturedWarning(message, filename, lineno))


def _without_ours(filters: Any) -> list[Any]:
    return [each for each in filters if each is not _FILTER]


CAPTURED_WARNINGS = _CapturedWarnings()
os.register_at_fork(after_in_child=CAPTURED_WARNINGS.forget_other_threads)
