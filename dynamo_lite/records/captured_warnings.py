"""Warnings that operators give while they run on fakes.

Shown from there they would name our files, and come again where the operator runs for good. So they are overheard, and
what is done about them is up to who traces.
"""

from __future__ import annotations

import os
import threading
import warnings
from types import TracebackType
from typing import Any, NamedTuple

import torch

_STAND_INS = ("_subclasses", "_ops.py", "_library", "_prims", "_refs", "_decomp", "_meta_reg", "_dispatch", "fx")
_NOT_EAGERS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    *(os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), name) for name in _STAND_INS),
)
"""Files whose code runs where operators run on fakes."""


class CapturedWarning(NamedTuple):
    """One warning, and where it would have been shown."""

    message: Warning
    filename: str
    lineno: int

    @property
    def category(self) -> type[Warning]:
        return type(self.message)

    @property
    def is_shown_at_caller(self) -> bool:
        """Whether eager shows it at the place of who called the operator."""
        return self.filename.startswith(_NOT_EAGERS)


class _OfListeners(type):
    """Filters are the process's: to a thread that does not listen a warning is none of these."""

    def __subclasscheck__(cls, kind: type) -> bool:
        return threading.get_ident() in _EARS.listeners


class _Heard(metaclass=_OfListeners):
    pass


_FILTER: Any = ("always", None, _Heard, None, 0)
"""By which a thread that listens hears everything, and nothing is remembered as shown."""


class _Ears:
    """Takes warnings' filters and `warnings.showwarning` for as long as some thread listens."""

    def __init__(self) -> None:
        self.listeners: dict[int, list[CapturedWarning]] = {}
        self._lock = threading.Lock()
        self._theirs: Any = []
        self._ours: Any = []
        self._show: Any = None

    def open(self) -> list[CapturedWarning]:
        with self._lock:
            if not self.listeners:
                self._theirs = warnings.filters
                self._ours = [_FILTER, *_without_ours(self._theirs)]
                warnings.filters = self._ours
                if warnings.showwarning != self._hear:  # it comes back where another thread leaves `catch_warnings`
                    self._show, warnings.showwarning = warnings.showwarning, self._hear  # type: ignore[assignment]
            return self.listeners.setdefault(threading.get_ident(), [])

    def close(self) -> None:
        with self._lock:
            self.listeners.pop(threading.get_ident(), None)
            if self.listeners:
                return
            if warnings.showwarning == self._hear:
                warnings.showwarning = self._show
            if warnings.filters is self._ours:
                now = _without_ours(self._ours)
                if now != _without_ours(self._theirs):  # another thread has set some meanwhile
                    self._theirs[:] = now
                warnings.filters = self._theirs

    def _hear(self, message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        mine = self.listeners.get(threading.get_ident())
        if mine is None:
            self._show(message, category, filename, lineno, *rest)
        else:
            mine.append(CapturedWarning(message, filename, lineno))


def _without_ours(filters: Any) -> list[Any]:
    return [each for each in filters if each is not _FILTER]


_EARS = _Ears()


class CapturedWarnings:
    """A context: what operators of this thread warn of inside."""

    __slots__ = ("warnings",)

    def __enter__(self) -> CapturedWarnings:
        self.warnings = _EARS.open()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _EARS.close()


def _matches(pattern: Any, text: str) -> bool:
    """As CPython's C code decides: the filters of its start are plain text."""
    return pattern is None or (pattern == text if isinstance(pattern, str) else pattern.match(text) is not None)


def action_for(warning: CapturedWarning, filters: Any, module: str, lineno: int) -> str:
    """The action of ``filters`` on a warning that is raised at a line of a module."""
    for action, message, category, of_module, line in filters:
        if (
            _matches(message, str(warning.message))
            and issubclass(warning.category, category)
            and _matches(of_module, module)
            and line in (0, lineno)
        ):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined, no-any-return]
