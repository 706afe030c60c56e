"""The public names."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import _C
from .backends.registry import configured, lookup_backend, name_of
from .compiler.compiled_module import CompiledModule, compiled_module
from .compiler.families import Family, family_of, forget_kept
from .compiler.frame_compiler import FrameCompiler
from .compiler.frame_shim import framed
from .insight.break_reasons import DisabledCall, UserGraphBreak
from .insight.observer import GraphBreak, Observer
from .variables.core import registry
from .variables.core.base import Args, Kwargs, VariableTracker, unsupported
from .variables.torch.functions.torch_functions import call_whole

_OWNERS: weakref.WeakSet[_C.Owner] = weakref.WeakSet()
"""Those that are alive, for `reset`."""


def _make_owner(
    backend: Any,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    observer: Observer | None = None,
) -> _C.Owner:
    for setting, value, words in (
        ("fullgraph", fullgraph, "True or False"),
        ("dynamic", dynamic, "True, False or None"),
    ):
        if not isinstance(value, bool) and not (value is None and setting == "dynamic"):
            raise TypeError(f"{setting} is {words}, not {value!r}")
    name = name_of(backend)
    found = configured(backend, mode, options)
    if observer is None:
        lasting = isinstance(backend, str)  # another may hold anything
        family = family_of(lookup_backend(backend), mode, options, fullgraph, dynamic, lasting)
    else:
        family = Family(backend, dynamic)  # who watches sees all of it
    compiler = FrameCompiler(found, name, family, fullgraph=fullgraph, observer=observer)
    owner = _C.Owner(compiler, name, family)
    _OWNERS.add(owner)
    return owner


def compile(
    fn: Any = None,
    *,
    backend: str | Callable[..., Any] = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Compile a function or an ``nn.Module``, in the way of ``torch.compile``. Without ``fn``: a decorator.

    Args:
        fn: what to compile. A module gives a module that shares its state; anything else a callable.
        backend: a registered name, or ``backend(gm: torch.fx.GraphModule, example_inputs: list) -> callable``.
        fullgraph: a graph break is an error (`exc.Unsupported`) instead.
        dynamic: which sizes, and which integers that are arguments, may differ from call to call without another
            compile: None: those that did; True: all; False: none.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs", of Inductor's.
        options: settings of Inductor's by name, for what is compiled here alone. Other backends get what is given of
            these as keyword arguments.

    Raises:
        TypeError: ``fn`` can't be called; a setting or an option is of a wrong type; the backend takes no mode or
            options.
        ValueError: there is no such mode or option; both are given.
        exc.InvalidBackend: no backend has that name.
    """
    settings: dict[str, Any] = dict(backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options)
    if fn is None:
        return functools.partial(compile, **settings)
    if not callable(fn):
        raise TypeError(f"dl.compile takes a function or an nn.Module, not {type(fn).__name__} ({fn!r})")
    owner = _make_owner(**settings)
    if isinstance(fn, torch.nn.Module):
        return compiled_module(fn, owner, functools.partial(compile, **settings))
    if isinstance(fn, type):
        raise TypeError(
            f"dl.compile takes a function or an nn.Module, not the class {fn.__qualname__}: compile its methods"
        )
    return _C.Wrapped(_target(fn), owner)


def _target(fn: Any) -> Any:
    """A compiled function compiled again is compiled for the new one alone."""
    return fn.__wrapped__ if isinstance(fn, _C.Wrapped) and fn.owner is not _C.OFF else framed(fn)


class optimize(contextlib.ContextDecorator):
    """Compile what this thread runs inside of the ``with``, or a function as a decorator."""

    def __init__(
        self, backend: str | Callable[..., Any] = "inductor", *, fullgraph: bool = False, dynamic: bool | None = None
    ) -> None:
        self._owner = _make_owner(backend, fullgraph=fullgraph, dynamic=dynamic)
        self._before: list[_C.Owner | None] = []

    def __call__(self, fn: Any) -> Any:
        if isinstance(fn, torch.nn.Module):
            return compiled_module(fn, self._owner, self)
        return _C.Wrapped(_target(fn), self._owner)

    def __enter__(self) -> optimize:
        self._before.append(_C.set_thread_owner(self._owner))
        return self

    def __exit__(self, *error: Any) -> None:
        _C.set_thread_owner(self._before.pop())


@contextlib.contextmanager
def enable(backend: str | Callable[..., Any] = "inductor", *, threads: str = "all") -> Iterator[None]:
    """Compile every frame that runs inside of the ``with``: on all threads, or on this one (``threads="current"``).

    Raises:
        ValueError: ``threads`` is neither.
    """
    setters = {"all": _C.set_process_owner, "current": _C.set_thread_owner}
    if threads not in setters:
        raise ValueError(f"threads is 'all' or 'current', not {threads!r}")
    before = setters[threads](_make_owner(backend))
    try:
        yield
    finally:
        setters[threads](before)


def disable(fn: Any = None) -> Any:
    """A callable that runs ``fn`` uncompiled, and all that it calls; a graph breaks at its call."""
    if fn is None:
        return disable
    if not callable(fn):
        raise TypeError(f"dl.disable takes a callable, not {type(fn).__name__}")
    return _C.Wrapped(fn, _C.OFF)


def run(fn: Any) -> Any:
    """A callable that runs what ``fn`` (made by `compile`) has compiled already, and compiles nothing more."""
    wrapped = fn._dl_call if isinstance(fn, CompiledModule) else fn
    if not isinstance(wrapped, _C.Wrapped):
        raise TypeError("dl.run takes what dl.compile returned")
    compiler = wrapped.owner.callback
    if not isinstance(compiler, FrameCompiler):
        raise TypeError("dl.run takes what dl.compile returned")
    frozen = compiler.frozen

    @functools.wraps(fn.__call__ if isinstance(fn, torch.nn.Module) else fn)
    def run_only(*args: Any, **kwargs: Any) -> Any:
        before, frozen.on = getattr(frozen, "on", False), True
        try:
            return fn(*args, **kwargs)
        finally:
            frozen.on = before

    return run_only


def graph_break(message: str = "") -> None:
    """End the graph here. Does nothing outside of a trace."""


def is_compiling() -> bool:
    """True while a program is traced."""
    return False


def allow_in_graph(fn: Any) -> Any:
    """Put calls of ``fn`` into graphs as they are. It must be a function of its arguments alone; returns it."""
    registry.models_raw(fn, call_whole(fn))
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """Break graphs at calls of ``fn``; returns it."""
    name = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', fn)}"

    def refuse(tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        unsupported(DisabledCall(name))

    registry.models_raw(fn, refuse)
    return fn


def reset() -> None:
    """Drop all compiled code. What is running goes on."""
    forget_kept()
    for owner in list(_OWNERS):
        owner.reset()
        if isinstance(owner.callback, FrameCompiler):
            owner.callback.family.forget()
            owner.callback.versions.forget()
            owner.callback.reset_backend()


def _trace_graph_break(tx: Any, message: VariableTracker | None = None) -> VariableTracker:
    unsupported(UserGraphBreak("" if message is None else str(tx.python_value(message))))


registry.models(graph_break)(_trace_graph_break)


@registry.models(is_compiling)
def _trace_is_compiling(tx: Any) -> VariableTracker:
    return tx.attempt.answers.ask(tx)  # type: ignore[no-any-return]


@dataclass
class Explanation:
    """What `explain` saw in one call."""

    graphs: list[torch.fx.GraphModule]
    breaks: list[GraphBreak]
    guards: list[str]
    result: Any = None

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def break_count(self) -> int:
        return len(self.breaks)

    @property
    def operator_count(self) -> int:
        return sum(node.op.startswith("call_") for gm in self.graphs for node in gm.graph.nodes)

    def __str__(self) -> str:
        lines = [f"{self.graph_count} graphs, {self.break_count} breaks, {self.operator_count} operators"]
        for at, gm in enumerate(self.graphs, 1):
            calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
            lines.append(f"graph {at}: {len(calls)} operators")
            lines.extend(f"  {node.format_node()}" for node in calls)
        for each in self.breaks:
            lines.append(f"break at {each.filename}:{each.lineno}: {each.reason.what()}")
            lines.append(f"  hint: {each.hint}")
        lines.append("guards:")
        lines.extend(f"  {guard}" for guard in self.guards)
        return "\n".join(lines)


def explain(fn: Any, *, dynamic: bool | None = None) -> Callable[..., Explanation]:
    """``explain(fn)(*args)`` runs ``fn`` once with graphs run eagerly, and says what was captured. ``dynamic``: as for
    `compile`."""

    def call(*args: Any, **kwargs: Any) -> Explanation:
        observer = Observer()
        owner = _make_owner("eager", dynamic=dynamic, observer=observer)
        target = fn._dl_original.__call__ if isinstance(fn, CompiledModule) else _target(fn)
        if isinstance(target, torch.nn.Module):
            target = target.__call__
        try:
            result = _C.Wrapped(target, owner)(*args, **kwargs)
        finally:
            owner.reset()
        return Explanation(observer.graphs, observer.breaks, observer.guards, result)

    return call
