"""Owners made by hand: code that replaces a function's, under guards that always or never hold."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

from dynamo_lite import _C

Answer = Callable[[_C.FrameView], Any]


class Token:
    """An object whose deallocation can be observed."""


def plain(x=1):
    """Adds one."""
    return x + 1


def other(x):
    return x * 100


def calls_down(x):
    return plain(x)


def define(source: str, **names: Any) -> types.SimpleNamespace:
    """Returns the functions that ``source`` defines, with ``names`` as their globals."""
    scope: dict[str, Any] = {"__name__": __name__, **names}
    exec(compile(source, "<program>", "exec"), scope)
    return types.SimpleNamespace(**scope)


def tree(view: _C.FrameView, local: str | None = None, equals: Any = None) -> _C.GuardTree:
    """Returns a guard tree that always holds, or holds while an argument has a value."""
    made = _C.GuardTree(view.code)
    if local is not None:
        made.check(made.child(0, "local", local), "equals", equals, f"{local} == {equals!r}")
    return made


class By:
    """A callback's result that is computed from the frame."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


class Asked:
    """A callback that gives what ``codes`` has for a function, else a verdict: a function to run in its place, a
    verdict, or an answer `By` the frame. Remembers whom it was asked about."""

    def __init__(self, codes: dict[Any, Any] | None = None, otherwise: Any = _C.SKIP) -> None:
        self.codes = {fn.__code__: new for fn, new in (codes or {}).items()}
        self.otherwise = otherwise
        self.seen: list[str] = []

    def __call__(self, view: _C.FrameView) -> Any:
        self.seen.append(view.code.co_name)
        new = self.codes.get(view.code)
        if new is None:
            return self.otherwise
        if isinstance(new, types.FunctionType):
            return tree(view), new.__code__
        return new.answer(view) if isinstance(new, By) else new


def owned(codes: dict[Any, Any] | None = None, otherwise: Any = _C.SKIP) -> tuple[_C.Owner, Asked]:
    asked = Asked(codes, otherwise)
    return _C.Owner(asked, "test"), asked


@contextlib.contextmanager
def _block(owner: _C.Owner, process: bool) -> Iterator[None]:
    _C.enter_block(owner, process)
    try:
        yield
    finally:
        _C.leave_block(owner, process)


def on_thread(owner: _C.Owner) -> contextlib.AbstractContextManager[None]:
    return _block(owner, process=False)


def on_process(owner: _C.Owner) -> contextlib.AbstractContextManager[None]:
    return _block(owner, process=True)
