"""Warnings that operators give while they run on fakes.

Shown from there they would name our files, and come again where the operator runs for good. So they are overheard, and
what is done about them is up to who traces.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from types import TracebackType
from typing import Any, NamedTuple

import torch

_STAND_INS = ("_subclasses", "_ops.py", "_library", "_prims", "_refs", "_decomp", "_meta_reg", "_dispatch", "fx")
_NOT_EAGERS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    *(os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), name) for name in _STAND_INS),
)
"""Files whose code runs where operators run on fakes."""
_EVERYTHING: Any = [("always", None, Warning, None, 0)]
"""Filters with which nothing is remembered as shown."""


class Overheard(NamedTuple):
    """One warning, and where it would have been shown."""

    message: Warning
    filename: str
    lineno: int

    @property
    def category(self) -> type[Warning]:
        return type(self.message)

    @property
    def is_callers(self) -> bool:
        """Whether eager shows it at the place of who called the operator."""
        return self.filename.startswith(_NOT_EAGERS)


class _Ears:
    """Takes warnings' filters and `warnings.showwarning` for as long as some thread listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[int, list[Overheard]] = {}
        self._before: tuple[Any, Any] = None, None

    def open(self) -> list[Overheard]:
        with self._lock:
            if not self._listeners:
                self._before = warnings.filters, warnings.showwarning
                warnings.filters, warnings.showwarning = _EVERYTHING, self._hear  # type: ignore[assignment]
            return self._listeners.setdefault(threading.get_ident(), [])

    def close(self) -> None:
        with self._lock:
            self._listeners.pop(threading.get_ident(), None)
            if not self._listeners and warnings.filters is _EVERYTHING:
                warnings.filters, warnings.showwarning = self._before

    def _hear(self, message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        mine, warning = self._listeners.get(threading.get_ident()), Overheard(message, filename, lineno)
        if mine is not None:
            mine.append(warning)
            return
        filters, show = self._before  # of a thread that does not listen
        action = action_for(warning, module_of(filename), lineno, filters)
        if action == "error":
            raise message
        if action != "ignore":
            show(message, category, filename, lineno, *rest)


_EARS = _Ears()


class Listening:
    """A context: what operators of this thread warn of inside."""

    __slots__ = ("heard",)

    def __enter__(self) -> Listening:
        self.heard = _EARS.open()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _EARS.close()


def module_of(filename: str) -> str:
    """The name of the module whose file it is."""
    loaded = list(sys.modules.items())
    return next((name for name, each in loaded if getattr(each, "__dict__", {}).get("__file__") == filename), filename)


def action_for(warning: Overheard, module: str, lineno: int, filters: Any = None) -> str:
    """What filters (the program's) do with a warning that a line of a module gives."""
    for action, message, category, of_module, line in warnings.filters if filters is None else filters:
        if (
            (message is None or message.match(str(warning.message)))  # type: ignore[union-attr]
            and issubclass(warning.category, category)
            and (of_module is None or of_module.match(module))  # type: ignore[union-attr]
            and line in (0, lineno)
        ):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined, no-any-return]
