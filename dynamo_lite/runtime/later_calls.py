"""Traced functions that a graph calls later, in the backward: a tensor's hook, the recomputation of a checkpoint.

What such a function reads may have changed since the call. So a graph that is not compiled checks the guards on what
the function can reach once more, and the code and defaults of the functions that it calls. If one doesn't hold, it
calls the program's own function instead of the traced one.
"""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from dynamo_lite import _C

Values = tuple[Any, ...]


class FunctionParts(NamedTuple):
    """What a program can replace of a function."""

    code: types.CodeType
    defaults: Values | None
    keyword_defaults: dict[str, object] | None

    @staticmethod
    def of(function: types.FunctionType) -> FunctionParts:
        named = function.__kwdefaults__
        return FunctionParts(function.__code__, function.__defaults__, None if named is None else dict(named))

    def are_those_of(self, function: types.FunctionType) -> bool:
        named, known = function.__kwdefaults__ or {}, self.keyword_defaults or {}
        is_same = function.__code__ is self.code and function.__defaults__ is self.defaults
        return is_same and named.keys() == known.keys() and all(named[name] is known[name] for name in known)


class Called:
    """What a traced function calls of the program's: functions, and methods by the class and name of their lookup."""

    def __init__(self) -> None:
        self.functions: dict[types.FunctionType, FunctionParts] = {}
        self.methods: dict[tuple[type, str], object] = {}

    def add(self, other: Called) -> None:
        self.functions |= other.functions
        self.methods |= other.methods


class CalledFunctions:
    """The program's functions that a traced one calls, held weakly, and their parts when it was traced."""

    def __init__(self, called: Called) -> None:
        self._functions = [(weakref.ref(function), parts) for function, parts in called.functions.items()]
        self._methods = [(weakref.ref(cls), name, _reference(raw)) for (cls, name), raw in called.methods.items()]

    def __reduce__(self) -> tuple[type[CalledFunctions], tuple[Called]]:
        """A loaded graph knows none."""
        return CalledFunctions, (Called(),)

    def were_changed(self) -> bool:
        """Whether one of them got other code or defaults, or a class another method."""
        functions = ((function(), parts) for function, parts in self._functions)
        if any(function is not None and not parts.are_those_of(function) for function, parts in functions):
            return True
        methods = ((cls(), name, raw()) for cls, name, raw in self._methods)
        return any(cls is not None and _method(cls, name) is not raw for cls, name, raw in methods)


def _method(cls: type, name: str) -> object:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _reference(value: object) -> Callable[[], object]:
    """A weak reference, if there can be one."""
    return weakref.ref(value) if type(value).__weakrefoffset__ else lambda: value


class LaterCall:
    """What a graph needs to run one traced function later: the guards to check again, and the program's own function.

    ``called``: what the traced function calls.
    """

    def __init__(self, called: CalledFunctions | None = None) -> None:
        self.called = called or CalledFunctions(Called())
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
        of this call; None if the traced function is up to date. It is told whether what it is called with, and the
        process's state, are like those that it was traced for."""
        roots: Values | None = getattr(self._current, "roots", None)
        guards, create, called = self.guards, self.create, self.called
        before = None if guards is None or roots is None else guards.lookup(roots)
        if guards is None or roots is None or create is None or before is None:
            return lambda is_same: None

        def call(tensors: Values, *more: object) -> object:
            function, args, kwargs = create(roots, tensors)
            return function(*args, *more, **kwargs)

        def find(is_same: bool) -> Callable[..., Any] | None:
            is_same = is_same and _are_same(guards.lookup(roots), before) and not called.were_changed()
            return None if is_same else call

        return find


def is_plain(gradient: torch.Tensor | None) -> bool:
    """Whether a gradient has what traced functions assume of theirs: it is dense, of no subclass, and has no attributes
    of its own."""
    if gradient is None or being_traced():
        return True
    is_dense = type(gradient) is torch.Tensor and gradient.layout is torch.strided and not gradient.__dict__
    return is_dense and not (gradient.is_neg() or gradient.is_conj() or gradient.is_inference())


def being_traced() -> bool:
    """Whether a compiler, or fake tensors, trace the call."""
    return torch._C._len_torch_dispatch_stack() > 0


def _are_same(now: Values | None, before: Values) -> bool:
    return now is not None and all(map(_is_same, now, before))


def _is_same(one: object, other: object) -> bool:
    return one is other or type(one) is type(other) in (int, float) and one == other
