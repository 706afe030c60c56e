"""Recomputations of checkpoints (``use_reentrant=False``) whose traced function is outdated.

The recomputation calls the function again, in the backward: what it reads may have changed since. So a graph that is
not compiled checks the guards on what the function can reach once more, and if one doesn't hold, calls the program's
own function instead of the traced one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite import _C

Values = tuple[Any, ...]
Body = Callable[..., tuple[torch.Tensor, ...]]


class Recomputation:
    """Of one checkpoint of a graph. ``call``: calls the program's function, given the *roots* (the pre-existing objects
    that it reaches) and the tensors that the traced function takes."""

    def __init__(self, call: Callable[[Values, Values], object] | None = None) -> None:
        self.call = call
        self.guards: _C.GuardTree | None = None
        """The guards below the roots, which are the locals of their frame. They capture tensors and numbers, which may
        be others in each call."""
        self._current = threading.local()

    def __deepcopy__(self, memo: object) -> Recomputation:
        return self

    def __reduce__(self) -> tuple[type[Recomputation], tuple[()]]:
        """A loaded graph recomputes the traced function."""
        return Recomputation, ()

    def begin(self, *roots: object) -> None:
        """Before the graph: note the roots of this call."""
        self._current.roots = roots

    def end(self) -> None:
        """After the graph."""
        self._current.roots = None

    def checked(self, body: Body) -> Body:
        """The traced function, as the checkpoint calls it: once now, and again to recompute its results."""
        roots: Values | None = getattr(self._current, "roots", None)
        guards, call = self.guards, self.call
        before = None if guards is None or roots is None else guards.lookup(roots)
        if guards is None or roots is None or call is None or before is None:
            return body
        has_run = False

        def run(*tensors: torch.Tensor) -> object:
            nonlocal has_run
            if has_run and not _are_same(guards.lookup(roots), before):
                return call(roots, tensors)
            has_run = True
            return body(*tensors)

        return run  # type: ignore[return-value]


def _are_same(now: Values | None, before: Values) -> bool:
    return now is not None and all(map(_is_same, now, before))


def _is_same(one: Any, other: Any) -> bool:
    return one is other or type(one) is type(other) in (int, float) and one == other
