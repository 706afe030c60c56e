"""`set_stance`: what becomes of calls that need a compilation, for the whole process; and whether they run compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils._contextlib import _DecoratorContextManager

from dynamo_lite import _C, config
from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.variables.core import registry
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator

Function = TypeVar("Function", bound=Callable[..., Any])

_in_force = ["default"]
"""One item: what `set_stance` has set."""
_followed = ["default"]
"""One item: what was set through ``torch.compiler.set_stance``."""


class set_stance(_DecoratorContextManager):
    """How compiled functions, and blocks of `enable` and `optimize`, run in this process. A function, a context manager
    and a decorator, as ``torch.compiler.set_stance`` is.

    Args:
        stance: "default"; "force_eager": in eager, code that is compiled already too; "eager_on_recompile": compiled
            code where there is some that holds, else eager; "fail_on_recompile": the same, but an error in the place
            of eager. With the last two, a first compilation counts as any other.

    It costs nothing where it isn't in force. ``torch.compiler.set_stance`` has the same effect here.

    Raises:
        TypeError: ``stance`` is no string, or there are other arguments.
        ValueError: there is no such stance.
        exc.RecompileForbidden: raised by calls, under "fail_on_recompile".

    Example:
        >>> import torch, dynamo_lite as dl
        >>> doubled = dl.compile(lambda x: x * 2, backend="eager")
        >>> _ = doubled(torch.ones(3))
        >>> with dl.set_stance("fail_on_recompile"):
        ...     doubled(torch.ones(3))
        tensor([2., 2., 2.])
    """

    def __init__(self, stance: str = "default", **others: Any) -> None:
        if others:
            raise TypeError(
                f"dl.set_stance takes a stance alone, not {', '.join(others)}: guards are never skipped, "
                f"and a backend is dl.compile's"
            )
        if not isinstance(stance, str):
            raise TypeError(f"a stance is a name, not {type(stance).__name__} ({stance!r})")
        if stance not in STANCES:
            raise ValueError(f"no stance {stance!r}; there are: {', '.join(STANCES)}")
        self.stance = stance
        self._before = _in_force[0]
        _set(stance)

    def __call__(self, fn: Function) -> Function:
        _set(self._before)
        decorated: Function = super().__call__(fn)
        return decorated

    def __enter__(self) -> None:
        _set(self.stance)

    def __exit__(self, *raised: object) -> None:
        _set(self._before)

    def clone(self) -> set_stance:
        return set_stance(self.stance)


def _set(stance: str) -> None:
    _in_force[0] = stance
    _tell_hits()


STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


def stance_in_force() -> str:
    """Ours; where that is the default, torch.compile's."""
    return config.torchs_stance() if _in_force[0] == "default" else _in_force[0]


def follow_stance() -> None:
    """Have hits follow what torch.compile's stance is now. (Where others set it, they would not learn of its end.)"""
    _followed[0] = config.torchs_stance()
    _tell_hits()


def _tell_hits() -> None:
    (ours,), (theirs,) = _in_force, _followed
    _C.force_eager((theirs if ours == "default" else ours) == "force_eager")


@registry.models_if
def _set_inside(value: Any) -> registry.Model | None:
    return _break_at_stance if value is set_stance else None


def _break_at_stance(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    unsupported(UnknownCall("dl.set_stance", "it changes how the process compiles"))
