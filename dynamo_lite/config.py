"""Settings, as variables of this module: ``dl.config.recompile_limit = 2``.

They apply to every thread. ``with dl.config.patch(recompile_limit=2): ...`` sets some for the duration of a block. An
unknown name raises AttributeError, a value of another type TypeError, a negative limit ValueError.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any, Final

from dynamo_lite import _C
from dynamo_lite.insight.suggestions import suggestion

recompile_limit: int = 8
"""Entries that a code object may have for one ``dl.compile``. At the limit its frames run in eager, with one warning. A
method of modules may have that many for each module."""

total_recompile_limit: int = 128
"""Entries that a method of modules may have for all modules together."""

inline_limit: int = 60
"""Depth of calls that are inlined into one graph. A deeper call breaks the graph."""

unroll_limit: int = 200_000
"""Bytecodes that one attempt may interpret. At the limit the frame falls back to eager, so that an endless loop doesn't
hang the tracer."""

capture_scalar_outputs: bool = False
"""Whether numbers read from tensor data (``.item()``) and data-dependent sizes (``nonzero``) are symbols in the graph,
as they are under ``fullgraph=True``. Otherwise the graph breaks there."""

enable_allowance: float = 0.5
"""Seconds that a ``dl.enable`` may spend on translating frames at their first call. After that, a frame for which no
guards hold runs in eager until its calls have taken as long as translating it is expected to. ``math.inf``: each frame
is translated at once. Functions and modules that are compiled by name always are."""

translate_library: bool = False
"""Whether frames of the standard library that are called in eager are translated too. They rarely have operators; the
setting is for tests, which show that translating any frame is safe."""

internal_errors: str = "default"
"""What a bug of dynamo_lite does to the program: "raise" raises `exc.InternalError`; "warn" warns once for each frame,
which runs in eager from then on. By default functions and modules that are compiled by name raise, and frames under
``dl.enable`` warn. ``fullgraph=True``, `explain`, `export` and ``dynamo_lite check`` always raise."""

compile_when_observed: bool = False
"""Whether frames are compiled where something observes what runs inside of them: a tracer (a debugger, coverage), which
sees no lines of compiled code, or a ``TorchDispatchMode``, which sees the operators of the compiled graph. Otherwise
they run in eager there, and a warning says so once. ``fullgraph=True``, `explain` and `export` compile under a tracer
whatever the setting is."""

background: bool = True
"""Whether graphs that run in pieces under ``dl.compile(..., regions="auto")`` are compiled whole by another process in
the meantime."""

verbose: bool = False
"""Whether errors show dynamo_lite's own frames, too. Otherwise they come from the user's line. So do they at the level
DEBUG of the log ``breaks``."""

DISABLED: Final = os.environ.get("DYNAMO_LITE_DISABLE", "").lower() not in ("", "0", "false", "no", "off")
"""Whether the process was started with ``DYNAMO_LITE_DISABLE=1``: what `compile` is given it returns, and blocks
compile nothing; `explain` and `export` raise."""

_DEFAULTS = {name: globals()[name] for name in __annotations__ if name != "DISABLED"}
"""The settings above, with what they are unless somebody sets them."""


def values() -> tuple[Any, ...]:
    """The values of all settings, in a fixed order."""
    return tuple(globals()[name] for name in _DEFAULTS)


# -- what the program has set for torch.compile ------------------------------------------------------------------------

_UNSET_BY_TORCH: dict[str, object] = dict(
    recompile_limit=8,
    accumulated_recompile_limit=256,
    fail_on_recompile_limit_hit=False,
    error_on_recompile=False,
    capture_scalar_outputs=False,
    capture_dynamic_output_shape_ops=False,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    dynamic_shapes=True,
    disable=False,
    suppress_errors=False,
)
"""Settings of ``torch._dynamo.config`` that hold here, with torch's defaults."""

_SAME_AS_TORCHS = {
    "recompile_limit": ("recompile_limit",),
    "total_recompile_limit": ("accumulated_recompile_limit",),
    "capture_scalar_outputs": ("capture_scalar_outputs", "capture_dynamic_output_shape_ops"),
}


_OF_OTHER_NAMES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "total_recompile_limit",
    "accumulated_recompile_limit": "total_recompile_limit",
    "capture_dynamic_output_shape_ops": "capture_scalar_outputs",
    "suppress_errors": "internal_errors",
}
"""Names of settings of torch's, of now and before, by which a user may look for ours."""


def torchs(name: str) -> Any:
    """What the program has set in ``torch._dynamo.config``; None if that isn't loaded or the setting is as it was."""
    value = getattr(sys.modules.get("torch._dynamo.config"), name, None)
    return None if value == _UNSET_BY_TORCH[name] else value


def in_force(name: str) -> Any:
    """A setting's value, or torch.compile's where only that was set. Read where a frame is translated, never at a
    hit."""
    value = globals()[name]
    if value != _DEFAULTS[name]:
        return value
    return next((set_there for each in _SAME_AS_TORCHS[name] if (set_there := torchs(each)) is not None), value)


def dynamic_by_torch() -> bool | None:
    """What ``dynamic=None`` is by the settings of ``torch._dynamo.config``."""
    if torchs("assume_static_by_default") is not None:
        return True
    return False if torchs("automatic_dynamic_shapes") is not None or torchs("dynamic_shapes") is not None else None


def torchs_stance() -> str:
    """What ``torch.compiler.set_stance`` has set."""
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    return getattr(stance, "stance", "default")


def torch_errors_on_break() -> bool:
    """Whether the program is in a block of ``torch._dynamo.error_on_graph_break(True)``."""
    return getattr(sys.modules.get("torch._dynamo.utils"), "_error_on_graph_break", False) is True


# -- checks, and settings for a while ---------------------------------------------------------------------------------


@contextlib.contextmanager
def patch(**changes: object) -> Iterator[None]:
    """Set some settings for the duration of a ``with`` block, on all threads.

    Raises:
        AttributeError: the setting doesn't exist; the message names the one that is meant.
        TypeError: a value has another type than the setting.
        ValueError: a limit is negative, or the setting doesn't have such a value.

    Example:
        >>> import dynamo_lite as dl
        >>> with dl.config.patch(recompile_limit=2):
        ...     dl.config.recompile_limit
        2
    """
    here = sys.modules[__name__]
    for name, value in changes.items():
        _check(name, value)
    before = {name: getattr(here, name) for name in changes}
    for name, value in changes.items():
        setattr(here, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(here, name, value)


def _no_setting(name: str) -> str:
    """What an error says of a setting that doesn't exist."""
    return f"dl.config has no setting {name!r}; {suggestion(name, _DEFAULTS, _OF_OTHER_NAMES.get(name))}"


def _check(name: str, value: object) -> None:
    if name not in _DEFAULTS:
        raise AttributeError(_no_setting(name))
    kind = type(_DEFAULTS[name])
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError(f"dl.config.{name} must be {_WORDS[kind]}, not {value!r}")
    if name == "internal_errors" and value not in ("default", "raise", "warn"):
        raise ValueError(f"dl.config.internal_errors must be 'default', 'raise' or 'warn', not {value!r}")
    if isinstance(value, (int, float)) and not value >= 0:
        raise ValueError(f"dl.config.{name} must be at least 0, not {value}")


_WORDS = {bool: "True or False", int: "an integer", float: "a number of seconds", str: "a string"}


class _Settings(types.ModuleType):
    """The module's class, by which assignments are checked."""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(_no_setting(name))

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):  # what the import system and tools note
            _check(name, value)
        super().__setattr__(name, value)
        if name == "compile_when_observed":
            _C.compile_when_observed(compile_when_observed)
        if name == "enable_allowance":
            _C.set_allowance(enable_allowance)


sys.modules[__name__].__class__ = _Settings
_C.set_allowance(enable_allowance)
