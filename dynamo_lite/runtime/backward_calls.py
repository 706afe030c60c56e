"""Calls of graphs whose backward reads what the program may change, and Functions' own backwards for when it did."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes)))


class Again(NamedTuple):
    """How to run a Function's backward as the program has it: what is on its ``ctx``, by places among the values that
    the traced backward keeps of the forward."""

    function: int
    """Which of the graph's Functions it is."""
    attributes: Any
    """Names and values: tensors as `Kept`, what was found in the program as `Found`."""
    saved: tuple[Any, ...]
    needs: tuple[bool, ...]
    slots: tuple[int, ...]
    """Of the gradients that it returns those of the graph's inputs."""

    def run(self, call: Call, values: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        def there(each: Kept | Found) -> Any:
            return values[each.at] if isinstance(each, Kept) else call.places[each.at]

        ctx = types.SimpleNamespace(**dict(changed(self.attributes, there)))
        ctx.saved_tensors = changed(self.saved, there)
        ctx.needs_input_grad = self.needs
        found = call.functions[self.function].backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        return [found[at] for at in self.slots]


class Kept(NamedTuple):
    """A value of the forward, by its place among those that are kept."""

    at: int


class Found(NamedTuple):
    """An object of the program. ``at``: where it is; in a call's `Again` its place among what was found."""

    at: Any


def changed(pattern: Any, change: Callable[[Any], Any]) -> Any:
    """With the `Kept` and `Found` that are in it changed."""
    if type(pattern) in (Kept, Found):
        return change(pattern)
    return type(pattern)(changed(each, change) for each in pattern) if type(pattern) in (tuple, list) else pattern


class Call:
    """One call of a graph: what its backwards read (``reads``: as `BackwardReads` says), and from which places."""

    def __init__(self, reads: Any, places: tuple[Any, ...], functions: list[Any]) -> None:
        self._reads = reads
        self.places = places
        self.functions = functions
        self._before = reads.look(places)
        self.taken = False
        """Whether the Functions in the graph ask for themselves."""

    def is_outdated(self) -> bool:
        now = self._reads.look(self.places)
        return self._before is None or now is None or not all(map(same, self._before, now))

    def check(self, gradients: Any) -> None:
        """A hook before a node of the graph's results."""
        if self.is_outdated():
            self._reads.refuse(self, self._before)

    def again(self, at: int) -> Again | None:
        """For a call of a Function in the graph, which is to ask whether this is outdated; None: it can't."""
        if at not in self._reads.again or None in self._reads.again.values():
            return None
        self.taken = True
        return self._reads.again[at]  # type: ignore[no-any-return]


_running = threading.local()


def running() -> Call | None:
    """The call of a graph that this thread is in."""
    return getattr(_running, "call", None)


@contextlib.contextmanager
def in_call(call: Call | None) -> Iterator[None]:
    """What runs belongs to this call of a graph."""
    outer, _running.call = running(), call
    try:
        yield
    finally:
        _running.call = outer


def same(one: Any, other: Any) -> bool:
    """Whether what is captured is as it was."""
    if one is other:
        return True
    return type(one) is type(other) and id(type(one)) in _PLAIN and (one == other or one != one and other != other)
