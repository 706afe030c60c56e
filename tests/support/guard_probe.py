"""Builds guard trees by hand over the frame of a running function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo_lite import _C
from frames import on_thread


class Plain:
    shared = "class"

    def __init__(self, **items: Any) -> None:
        self.__dict__.update(items)

    def method(self) -> None:
        pass


class Inline:
    def __init__(self, a: Any) -> None:
        self.a = a


class Inheriting(type):
    """A metaclass that inherits the descriptors of `type`."""


class Overriding(type):
    """A metaclass that overrides the descriptors of `type`."""

    __name__ = property(lambda cls: 1)  # type: ignore[assignment]
    __mro__ = property(lambda cls: 1)  # type: ignore[assignment]


def with_defaults(a: int = 1, *, b: int = 2) -> None:
    pass


def on_frame(function: Callable[..., Any], look: Callable[[_C.FrameView], None], *args: Any, **kwargs: Any) -> None:
    """Call ``function`` and show ``look`` its frame before it begins."""
    raised: list[BaseException] = []
    seen = 0
    code = getattr(function, "__func__", function).__code__

    def callback(view: _C.FrameView) -> Any:
        nonlocal seen
        if view.code is code and not seen:
            seen += 1
            try:
                look(view)
            except BaseException as error:  # re-raised below, where pytest shows it best
                raised.append(error)
        return _C.PASS

    with on_thread(_C.Owner(callback)):
        function(*args, **kwargs)
    if raised:
        raise raised[0]
    assert seen == 1


def takes(x: Any) -> None:
    pass


Path = list[tuple[Any, ...]]


class Probe:
    """A tree over the argument of a frame, asked by `lookup` (which remembers) and `test` (which doesn't)."""

    def __init__(self, view: _C.FrameView) -> None:
        self.view = view
        self.tree = _C.GuardTree(view.code)
        self.argument = self.tree.child(0, "local", "x")

    def at(self, *path: tuple[Any, ...], start: int | None = None) -> int:
        node = self.argument if start is None else start
        for step in path:
            node = self.tree.child(node, *step)
        return node

    def demand(self, node: int, kind: str, arg: Any = None) -> None:
        self.tree.check(node, kind, arg, f"reason of {kind}")

    def holds(self) -> bool:
        """Whether the tree holds. It is checked several times: anew, from memory, and replayed."""
        answers = [self.tree.lookup(self.view) is not None for _ in range(5)]
        answers.append(self.tree.test(self.view) is None)
        answers.append(self.tree.lookup(self.view) is not None)
        assert len(set(answers)) == 1, answers
        return answers[0]

    def failure(self) -> _C.Failure:
        failure = self.tree.test(self.view)
        assert failure is not None
        assert self.tree.lookup(self.view) is None
        return failure


def probe(x: Any, look: Callable[[Probe], None]) -> None:
    on_frame(takes, lambda view: look(Probe(view)), x)


def probed(x: Any) -> Callable[[Callable[[Probe, Any], None]], Callable[[], None]]:
    """Makes a test of a function that probes a frame with the argument ``x``, and is given that as well."""

    def make(look: Callable[[Probe, Any], None]) -> Callable[[], None]:
        def test() -> None:
            probe(x, lambda p: look(p, x))

        test.__name__, test.__doc__ = look.__name__, look.__doc__
        return test

    return make


def check_holds(x: Any, kind: str, arg: Any, *path: tuple[Any, ...]) -> None:
    def look(p: Probe) -> None:
        p.demand(p.at(*path), kind, arg)
        assert p.holds()

    probe(x, look)


def check_fails(
    x: Any,
    kind: str,
    arg: Any,
    *path: tuple[Any, ...],
    words: str = "",
    differences: tuple[_C.Difference, ...] | None = None,
) -> None:
    """The check fails, and reports the value that it was made of, in what it differs, and what else has to be said."""

    def look(p: Probe) -> None:
        p.demand(p.at(*path), kind, arg)
        failure = p.failure()
        assert failure.reason == f"reason of {kind}"
        assert failure.kind in (kind, "present")
        assert failure.value is (x if not path else failure.value)
        assert words in failure.words, failure.words
        assert differences is None or failure.differences == differences

    probe(x, look)
