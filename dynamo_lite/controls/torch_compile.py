"""Follows torch.compile's process-wide settings: the stance, resets, and ``torch._dynamo.config``.

``torch._dynamo`` is never imported here. If the program has loaded it, `config.torchs` reads its settings when a frame
is translated. Two functions of ``torch.compiler``, ``set_stance`` and ``reset``, also concern code that is compiled
already, so these are wrapped.
"""

from __future__ import annotations

import contextvars
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch.compiler
from torch.utils._contextlib import _DecoratorContextManager

from dynamo_lite.insight.notices import say_once

from .stance import Function, follow_stance


@functools.cache  # they are wrapped once
def follow_torch(reset: Callable[[], None]) -> None:
    """Make ``torch.compiler.set_stance`` and ``torch.compiler.reset`` act on us too. ``reset``: our own reset."""
    their_set_stance, their_reset = torch.compiler.set_stance, torch.compiler.reset

    @functools.wraps(their_set_stance)
    def set_stance(*args: Any, **kwargs: Any) -> _FollowedStance:
        return _FollowedStance(functools.partial(their_set_stance, *args, **kwargs))

    @functools.wraps(their_reset)
    def reset_both() -> None:
        their_reset()
        reset()

    torch.compiler.set_stance, torch.compiler.reset = set_stance, reset_both


class _FollowedStance(_DecoratorContextManager):
    """A result of the wrapped ``torch.compiler.set_stance``: torch's context manager and decorator, which we follow."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._theirs = make()
        follow_stance()

    def __enter__(self) -> None:
        self._theirs.__enter__()
        follow_stance()

    def __exit__(self, *raised: object) -> None:
        self._theirs.__exit__(*raised)
        follow_stance()

    def __call__(self, fn: Function) -> Function:
        self._theirs(fn)  # puts the stance back
        follow_stance()
        decorated: Function = super().__call__(fn)
        return decorated

    def clone(self) -> _FollowedStance:
        return _FollowedStance(self._make)


_WITHOUT_EFFECT: dict[str, tuple[object, str]] = {
    "compiled_autograd": (False, "the backward of a graph is compiled with the graph, by its backend"),
    "specialize_int": (False, "an integer that has changed becomes symbolic; dynamic=False prevents it"),
    "specialize_float": (False, "a float that has changed becomes symbolic; dynamic=False prevents it"),
    "force_parameter_static_shapes": (True, "shapes of parameters and buffers are specialized"),
    "reorderable_logging_functions": (set(), "put such calls under `if not dl.is_compiling():`"),
    "ignore_logging_functions": (set(), "put such calls under `if not dl.is_compiling():`"),
    "caching_precompile": (False, "Inductor's cache on disk is used"),
}
"""Settings of ``torch._dynamo.config`` without effect here: the default value, and what holds instead."""


def _warn_of_settings() -> None:
    settings = sys.modules.get("torch._dynamo.config")
    for name, (unset, but) in _WITHOUT_EFFECT.items() if settings is not None else ():
        if getattr(settings, name, unset) != unset:
            say_once(f"torch._dynamo.config.{name} has no effect in dynamo_lite: {but}.")


def warn_ignored_settings() -> None:
    """Warn once of each setting of torch.compile that has no effect here. Called when a frame is translated."""
    contextvars.copy_context().run(_warn_of_settings)  # reading a set there sets a context variable of torch's
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    if getattr(stance, "skip_guard_eval_unsafe", False):
        say_once("torch.compiler.set_stance(skip_guard_eval_unsafe=True) has no effect in dynamo_lite: it checks all.")
    if getattr(stance, "backend", None) is not None:
        say_once("torch.compiler.set_stance(force_backend=…) has no effect in dynamo_lite: pass backend= instead.")
    name = getattr(stance, "stance", "default")
    if name.endswith("then_compile"):
        say_once(f"the stance {name!r} has no effect in dynamo_lite: the first call is compiled.")
