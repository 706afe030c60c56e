"""The backend ``inductor``: compiles graphs with AOTAutograd and Inductor, under torch.compile's modes and options."""

from __future__ import annotations

import contextlib
import functools
import importlib
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NoReturn

import torch

from dynamo_lite.insight.suggestions import suggestion

from .aot import backward_outside_autocast
from .cache_keys import cacheable_functions_setting, without_cache_of_user_subclasses
from .cudagraphs import cudagraphs, mark_static_inputs, with_step_per_call
from .direct_launch import with_direct_launch
from .early_start import begin, wait
from .kernels import compiled_together
from .one_rank import compiled_by_one_rank
from .registry import by_similarity, configured
from .sizes import has_symbols_not_given, with_sizes_as_inputs

_CONFIG = "torch._inductor.config"


class NotCached(Exception):
    """The caches on disk don't have a graph."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise NotCached


@dataclass(frozen=True, eq=False)
class Inductor:
    """AOTAutograd and Inductor. ``patches`` are settings of Inductor's for the graphs compiled here, forward and
    backward; its global configuration is not changed."""

    patches: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    is_cached: bool = False
    """Whether graphs may only be loaded from the caches on disk, never compiled. A miss raises `NotCached`."""
    __name__ = "inductor"
    frees_at_once = True
    generates_kernels = True
    compiles_regions = True
    prepare = staticmethod(begin)
    reset = staticmethod(cudagraphs.reset)

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: list[Any],
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph. ``mode`` and ``options`` are torch.compile's and apply to this graph only, for callers that
        look the backend up by name."""
        if mode is not None or options is not None:
            return configured(self, mode, options)(gm, example_inputs)
        compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
        wait()
        records = self.records_graphs()
        if records:
            mark_static_inputs(gm)
        patches = {**self.patches, **cacheable_functions_setting(gm)}
        if has_symbols_not_given(gm, example_inputs):
            patches["fx_graph_cache"] = False
        inner: dict[str, Any] = {"inner_compile": _refuse} if self.is_cached else {}
        with (
            backward_outside_autocast(),
            without_cache_of_user_subclasses(example_inputs),
            self.compiled_by_one_rank(gm, example_inputs, "whole"),
        ):
            compile_graph = functools.partial(compile_fx, config_patches=patches or None, **inner)
            compiled = with_direct_launch(with_sizes_as_inputs(compile_graph, gm, example_inputs), gm)
        return with_step_per_call(compiled) if records else compiled

    def compiled_by_one_rank(
        self, gm: torch.fx.GraphModule, example_inputs: list[Any], way: Literal["whole", "pieces"]
    ) -> contextlib.AbstractContextManager[None]:
        """A block in which the graph is compiled, for which other ranks wait that compile the same."""
        if self.is_cached:
            return contextlib.nullcontext()
        return compiled_by_one_rank(gm, example_inputs, self.patches, way)

    @contextlib.contextmanager
    def compiled_together(self) -> Iterator[None]:
        """A block in which several graphs are compiled, whose kernels are waited for at its end: unless kernels run
        while a graph is compiled. Backwards are compiled with their forwards, instead of one by one when they run."""
        config = importlib.import_module(_CONFIG)
        backwards_too = torch._functorch.config.patch(force_non_lazy_backward_lowering=True)
        with config.patch(dict(self.patches)), backwards_too:
            runs_kernels = config.cpp_wrapper or config.triton.autotune_at_compile_time
            with contextlib.nullcontext() if runs_kernels else compiled_together():
                yield

    def records_graphs(self) -> bool:
        """Whether CUDA graphs are turned on and CUDA is available."""
        wanted = self.patches.get("triton.cudagraphs", importlib.import_module(_CONFIG).triton.cudagraphs)
        return bool(wanted) and torch.cuda.is_available()

    def configure(self, mode: str | None, options: dict[str, Any] | None) -> Inductor:
        """A copy with torch.compile's ``mode`` or ``options``, of which one is None; see `registry.configured`.

        Raises:
            ValueError: the mode or option doesn't exist.
            TypeError: an option's value has a wrong type.
        """
        chosen = _normalized_options(options or _options_of(mode))
        return replace(self, patches=MappingProxyType({**self.patches, **chosen}))


def _options_of(mode: str | None) -> dict[str, Any]:
    modes = importlib.import_module("torch._inductor").list_mode_options()
    if mode is None:
        return {}
    if mode not in modes:
        raise ValueError(f"no mode {mode!r}; {suggestion(mode, modes)}")
    return dict(modes[mode])


def _normalized_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options by their names in Inductor's configuration, with their types checked."""
    config = importlib.import_module(_CONFIG)
    known = config.get_config_copy()
    found = {}
    for given, value in options.items():
        if not isinstance(given, str):
            raise TypeError(f"an option's name must be a string, not {type(given).__name__} ({given!r})")
        name = given.replace("-", "_")
        if name not in known:
            near = ", ".join(map(repr, by_similarity(name, known)[:3]))
            raise ValueError(
                f"Inductor has no option {given!r}; similar ones are {near} (torch._inductor.list_options() has all)"
            )
        kind = config.get_type(name)
        if typing.get_origin(kind) is None and isinstance(kind, type) and not isinstance(value, kind):
            found_type = type(value).__name__
            raise TypeError(
                f"option {given!r} of Inductor must be of type {kind.__name__}, not {found_type} ({value!r})"
            )
        found[name] = value
    return found


inductor = Inductor()
