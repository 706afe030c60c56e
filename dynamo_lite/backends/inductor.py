"""Inductor as a library."""

from __future__ import annotations

import functools
import importlib
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

from .aot import backward_outside_autocast
from .cache_keys import classes_seen, keyed_functions
from .cudagraphs import forget_recorded, in_steps, tell_static_inputs
from .launch import launching
from .registry import nearest
from .sizes import given_sizes, has_unseen_symbols

_CONFIG = "torch._inductor.config"


@dataclass(frozen=True, eq=False)
class Inductor:
    """AOTAutograd and Inductor. ``patches`` are settings of Inductor's for the graphs that it is given, forward and
    backward; its global configuration stays as it is."""

    patches: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    __name__ = "inductor"
    carries_integers = False
    frees_at_once = True

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: list[Any],
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """``mode`` and ``options`` are torch.compile's, for this graph alone."""
        if mode is not None or options is not None:
            return self.configure(mode, options)(gm, example_inputs)
        compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
        records = self.records_graphs()
        if records:
            tell_static_inputs(gm)
        patches = {**self.patches, **keyed_functions(gm)}
        if has_unseen_symbols(gm, example_inputs):
            patches["fx_graph_cache"] = False
        with backward_outside_autocast(), classes_seen(example_inputs):
            compile_graph = functools.partial(compile_fx, config_patches=patches or None)
            compiled = launching(given_sizes(compile_graph, gm, example_inputs), gm)
        return in_steps(compiled) if records else compiled

    def records_graphs(self) -> bool:
        """Whether Inductor is to make CUDA graphs, and may find something to make them of."""
        wanted = self.patches.get("triton.cudagraphs", importlib.import_module(_CONFIG).triton.cudagraphs)
        return bool(wanted) and torch.cuda.is_available()

    def configure(self, mode: str | None, options: dict[str, Any] | None) -> Inductor:
        """The same with torch.compile's ``mode`` or ``options``.

        Raises:
            ValueError: there is no such mode or option, or both are given.
            TypeError: an option's value is of a wrong type.
        """
        if mode is not None and options is not None:
            raise ValueError("pass mode or options, not both: a mode is a set of options")
        return Inductor(MappingProxyType({**self.patches, **_checked(options or _options_of(mode))}))

    def reset(self) -> None:
        """Free the CUDA graphs that modes and options may have asked for."""
        forget_recorded()


def _options_of(mode: str | None) -> dict[str, Any]:
    modes = importlib.import_module("torch._inductor").list_mode_options()
    if mode is None:
        return {}
    if mode not in modes:
        raise ValueError(f"no mode {mode!r}; there are: {', '.join(nearest(mode, modes))}")
    return dict(modes[mode])


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Options under the names that Inductor's configuration has for them."""
    config = importlib.import_module(_CONFIG)
    known = config.get_config_copy()
    found = {}
    for given, value in options.items():
        if not isinstance(given, str):
            raise TypeError(f"an option's name is a string, not {type(given).__name__} ({given!r})")
        name = given.replace("-", "_")
        if name not in known:
            near = ", ".join(map(repr, nearest(name, known)[:3]))
            raise ValueError(f"no option {given!r} of Inductor's; near it are {near} (torch._inductor.list_options())")
        kind = config.get_type(name)
        if typing.get_origin(kind) is None and isinstance(kind, type) and not isinstance(value, kind):
            found_type = type(value).__name__
            raise TypeError(f"option {given!r} of Inductor's is of type {kind.__name__}, not {found_type} ({value!r})")
        found[name] = value
    return found


inductor = Inductor()
