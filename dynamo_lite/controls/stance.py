"""`set_stance`: whether calls run compiled code, and what happens when one needs a compilation. Process-wide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils._contextlib import _DecoratorContextManager

from dynamo_lite import _C, config
from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.insight.suggestions import suggestion
from dynamo_lite.variables.core import registry
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported

Function = TypeVar("Function", bound=Callable[..., Any])

_ours = ["default"]
"""One item: the stance that `set_stance` has set."""
_torchs = ["default"]
"""One item: the stance that was set through ``torch.compiler.set_stance``."""


class set_stance(_DecoratorContextManager):
    """How compiled functions, and blocks of `enable` and `optimize`, run in this process. A function, a context manager
    and a decorator, as ``torch.compiler.set_stance`` is.

    Args:
        stance: "default"; "force_eager": everything runs in eager, also code that is compiled already;
            "eager_on_recompile": compiled code whose guards hold runs, everything else runs in eager;
            "fail_on_recompile": the same, but it raises instead of running in eager. Under the last two, a first
            compilation counts as a recompilation.

    It costs nothing unless it is set. ``torch.compiler.set_stance`` has the same effect here.

    Raises:
        TypeError: ``stance`` isn't a string, or there are other arguments.
        ValueError: there is no such stance.
        exc.RecompileForbidden: raised by calls under "fail_on_recompile".

    Example:
        >>> import torch, dynamo_lite as dl
        >>> doubled = dl.compile(lambda x: x * 2, backend="eager")
        >>> _ = doubled(torch.ones(3))
        >>> with dl.set_stance("fail_on_recompile"):
        ...     doubled(torch.ones(3))
        tensor([2., 2., 2.])
    """

    def __init__(self, stance: str = "default", **others: object) -> None:
        if others:
            raise TypeError(
                f"dl.set_stance takes a stance alone, not {', '.join(others)}: guards are never skipped, "
                f"and a backend is dl.compile's"
            )
        if not isinstance(stance, str):
            raise TypeError(f"a stance must be a name, not {type(stance).__name__} ({stance!r})")
        if stance not in STANCES:
            raise ValueError(f"no stance {stance!r}; {suggestion(stance, STANCES)}")
        self.stance = stance
        self._before = _ours[0]
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
    _ours[0] = stance
    _update_hits()


STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


def stance_in_force() -> str:
    """Our stance; torch.compile's, if ours is the default."""
    return config.torchs_stance() if _ours[0] == "default" else _ours[0]


def follow_stance() -> None:
    """Make hits follow torch.compile's current stance. Only the wrapped ``torch.compiler.set_stance`` calls this: we
    wouldn't notice the end of a stance that torch sets in another way."""
    _torchs[0] = config.torchs_stance()
    _update_hits()


def _update_hits() -> None:
    """Tell the hook whether calls run in eager although compiled code exists, and whether all code is asked about."""
    (ours,), (torchs,) = _ours, _torchs
    stance = torchs if ours == "default" else ours
    _C.force_eager(stance == "force_eager")
    _C.ask_about_new_code(stance == "fail_on_recompile")


def _break_at_stance(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    unsupported(UnknownCall("dl.set_stance", "it changes how the process compiles"))


registry.models_raw(set_stance, _break_at_stance)
