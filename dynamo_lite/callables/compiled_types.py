"""The types of what ``dl.compile`` returns, for type checkers: at run time it is a `_C.Wrapped` or a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

import torch

from .cached_entries import CachedEntry

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
Module = TypeVar("Module", bound=torch.nn.Module)

Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
"""Inductor's modes."""


class CompiledFunction(Protocol[P, R_co]):
    """A compiled function: called like the original, and bound like it if it is a method."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def entries(self) -> list[CachedEntry]:
        """As `dynamo_lite.entries`."""
        ...

    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> CompiledFunction[P, R_co]: ...
    @overload
    def __get__(
        self: CompiledFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None, /
    ) -> CompiledFunction[Q, R]: ...


class Decorator(Protocol):
    """Compiles a function, or a module into one of its class."""

    @overload
    def __call__(self, fn: Module, /) -> Module: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> CompiledFunction[P, R]: ...
