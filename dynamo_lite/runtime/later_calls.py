"""Traced functions that a graph calls later, in the backward: a tensor's hook, the recomputation of a checkpoint.

What such a function reads may have changed since the call. So a graph that is not compiled checks the guards on what
the function can reach once more, and the code of the functions that it calls. If one doesn't hold, it calls the
program's own function instead of the traced one.
"""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from dynamo_lite import _C

Values = tuple[Any, ...]


class CalledFunctions:
    """The program's functions that a traced one calls, held weakly, and the code that was traced."""

    def __init__(self, codes: Mapping[types.FunctionType, types.CodeType]) -> None:
        self._codes = [(weakref.ref(function), code) for function, code in codes.items()]

    def __reduce__(self) -> tuple[type[CalledFunctions], tuple[dict[types.FunctionType, types.CodeType]]]:
        """A loaded graph knows none."""
        return CalledFunctions, ({},)

    def have_new_code(self) -> bool:
        """Whether one of them got other code."""
        functions = ((function(), code) for function, code in self._codes)
        return any(function is not None and function.__code__ is not code for function, code in functions)


class LaterCall:
    """What a graph needs to run one traced function later: the guards to check again, and the program's own function.

    ``called``: what the traced function calls.
    """

    def __init__(self, called: CalledFunctions | None = None) -> None:
        self.called = called or CalledFunctions({})
        self.create: Callable[[Values, Values], Any] | None = None
        """Creates the program's function, its arguments and keyword arguments, given the *roots* (the pre-existing
        objects that it reaches), and the tensors that the traced function takes from the graph."""
        self.guards: _C.GuardTree | None = None
        """The guards below the roots, which are the locals of their frame. They capture tensors and numbers, which may
        be others in each call."""
        self._current = threading.local()

    def __deepcopy__(self, memo: object) -> LaterCall:
        return self

    def __reduce__(self) -> tuple[type[LaterCall], tuple[()]]:
        """A loaded graph calls the traced function."""
        return LaterCall, ()

    def begin(self, *roots: object) -> None:
        """Before the graph: note the roots of this call."""
        self._current.roots = roots

    def end(self) -> None:
        """After the graph."""
        self._current.roots = None

    def programs_function(self) -> Callable[[bool], Callable[..., Any] | None]:
        """In the graph. Returns a function that, when it is called later, returns the program's function for the roots
        of this call; None if the traced function is up to date. It is told whether the process's state is the same."""
        roots: Values | None = getattr(self._current, "roots", None)
        guards, create, called = self.guards, self.create, self.called
        before = None if guards is None or roots is None else guards.lookup(roots)
        if guards is None or roots is None or create is None or before is None:
            return lambda is_same: None

        def call(tensors: Values, *more: object) -> object:
            function, args, kwargs = create(roots, tensors)
            return function(*args, *more, **kwargs)

        def find(is_same: bool) -> Callable[..., Any] | None:
            is_same = is_same and _are_same(guards.lookup(roots), before) and not called.have_new_code()
            return None if is_same else call

        return find


def _are_same(now: Values | None, before: Values) -> bool:
    return now is not None and all(map(_is_same, now, before))


def _is_same(one: Any, other: Any) -> bool:
    return one is other or type(one) is type(other) in (int, float) and one == other
