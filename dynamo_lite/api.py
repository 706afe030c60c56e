"""The functions of the public interface: compile and explain, and those that control how calls are traced."""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

import torch

from . import _C, config
from .backends.background import jobs
from .backends.regions import WAYS, Way, in_regions, regions_in
from .backends.registry import Backend, configured, list_backends, lookup_backend, name_of
from .callables.compiled_function import compiled_function, disabled_function
from .callables.compiled_module import CompiledModule, compiled_module
from .callables.compiled_types import CompiledFunction, Decorator, Mode, Module
from .compiler.budget import TranslationBudget
from .compiler.families import Family, family_of, forget_kept
from .compiler.frame_compiler import FrameCompiler
from .compiler.observers import check_captures, check_runs_at_call
from .compiler.reports import forget_breaks
from .controls.errors_at_call import raised_at_call
from .controls.takeover import Takeover, compiled_by_torch
from .controls.torch_compile import follow_torch
from .insight.break_reasons import DisabledCall, UserGraphBreak
from .insight.explanation import Explanation
from .insight.observer import Observer
from .insight.site import qualified_name
from .variables.core import registry
from .variables.core.base import Args, Kwargs, VariableTracker, unsupported
from .variables.torch.functions import torch_functions
from .variables.torch.functions.compile_calls import models_compile
from .variables.torch.functions.whole_calls import call_whole

if TYPE_CHECKING:
    from .translator.core import InstructionTranslator

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])
"""A function, a module or another callable, which a decorator returns as the same."""

_OWNERS: weakref.WeakSet[_C.Owner] = weakref.WeakSet()
"""The live owners, for `reset`."""


WATCHES: list[Callable[[object, dict[str, Any]], dict[str, Any] | None]] = []
"""The last is given what `compile` is, and returns the settings to compile it under, with an ``observer`` of it; None:
it isn't compiled. Where a block of `enable` or `optimize` begins it is given None."""


def make_owner(
    backend: str | Backend,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    regions: Way = "never",
    observer: Observer | None = None,
    budget: TranslationBudget | None = None,
) -> _C.Owner:
    """Check the settings and create the owner of the entries that are compiled under them."""
    follow_torch(reset)
    configured_backend = _check_settings(backend, fullgraph, dynamic, mode, options, regions)
    name, guard_filter = name_of(backend), (options or {}).get("guard_filter_fn")
    if observer is None and guard_filter is None:
        is_named = isinstance(backend, str)
        family = family_of(lookup_backend(backend), mode, options, fullgraph, dynamic, regions, is_named)
    else:
        # Nothing is shared: an observer has to see every translation, and a filter's promise is for one function.
        family = Family(backend, dynamic)
    compiler = FrameCompiler(
        configured_backend,
        name,
        family,
        fullgraph=fullgraph,
        observer=observer,
        budget=budget,
        guard_filter=guard_filter,
    )
    owner = _C.Owner(compiler, name, family)
    owner.when_observed = fullgraph or observer is not None
    _OWNERS.add(owner)
    return owner


def _check_flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def _check_settings(
    backend: str | Backend,
    fullgraph: bool,
    dynamic: bool | None,
    mode: str | None,
    options: dict[str, Any] | None,
    regions: Way,
) -> Backend:
    """The backend with its mode or options, and in front of it the search for regions."""
    _check_flag("fullgraph", fullgraph)
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic must be True, False or None, not {dynamic!r}")
    if regions not in WAYS:
        raise ValueError(f"regions must be 'auto', 'never' or 'only', not {regions!r}")
    plain = configured(backend, mode, options)
    guard_filter = (options or {}).get("guard_filter_fn")
    if guard_filter is not None and not callable(guard_filter):
        raise TypeError(
            f"guard_filter_fn takes a list of guards and returns a list of bools; {guard_filter!r} can't be called"
        )
    return in_regions(plain, regions)


@overload
def compile(  # type: ignore[overload-overlap]
    fn: Module,
    *,
    backend: str | Backend = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: Mode | None = None,
    options: dict[str, Any] | None = None,
    regions: Way = "never",
    disable: bool = False,
) -> Module: ...
@overload
def compile(
    fn: Callable[P, R],
    *,
    backend: str | Backend = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: Mode | None = None,
    options: dict[str, Any] | None = None,
    regions: Way = "never",
    disable: bool = False,
) -> CompiledFunction[P, R]: ...
@overload
def compile(
    fn: None = None,
    *,
    backend: str | Backend = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: Mode | None = None,
    options: dict[str, Any] | None = None,
    regions: Way = "never",
    disable: bool = False,
) -> Decorator: ...
@raised_at_call
def compile(
    fn: Any = None,
    *,
    backend: str | Backend = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: Mode | None = None,
    options: dict[str, Any] | None = None,
    regions: Way = "never",
    disable: bool = False,
) -> Any:
    """Compile a function or an ``nn.Module``, as ``torch.compile`` does. Without ``fn``, return a decorator.

    Frames are intercepted by the evaluation hook of PEP 523. A graph is captured at the first call, and again at a
    call for which no guards hold. Results of equal settings share what they compile: one function that is compiled
    several times, on several threads too, is captured once.

    Args:
        fn: a function, a callable object, or a module. For a module the result is a module of its class that shares
            its state; otherwise a callable.
        backend: a registered name, or ``backend(gm: torch.fx.GraphModule, example_inputs: list) -> callable``.
        fullgraph: raise `exc.Unsupported` instead of breaking the graph, and where calls run in eager: under a mode of
            torch's, deep in recursion.
        dynamic: which sizes, and which integer arguments, are symbolic, so that calls may differ in them without
            a recompilation. None: those that have changed between calls; True: all; False: none.
        mode: one of Inductor's: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
        options: Inductor's settings by name, for this function only. Another backend gets ``mode`` or ``options`` as
            a keyword argument. ``guard_filter_fn``, for any backend: a function that is given a list of guards and
            returns a bool for each; those with False are never checked, which is up to you.
        regions: "only": blocks that repeat in a deep graph are compiled once; "auto", for Inductor: and the whole graph
            takes their place later (see "Deep models" in the docs of backends); "never": it is compiled whole.
        disable: check the arguments and return ``fn`` itself, which runs in eager.

    Raises:
        TypeError: ``fn`` can't be compiled; a setting has a wrong type; the backend takes no mode or options.
        ValueError: the mode, option or way of ``regions`` doesn't exist; mode and options are both given.
        exc.InvalidBackend: no backend has that name.
        exc.Unsupported: with ``fullgraph``, of a generator function or a coroutine function.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> @dl.compile(backend="eager", fullgraph=True)
        ... def scaled(x: torch.Tensor) -> torch.Tensor:
        ...     return 2 * x.relu()
        >>> scaled(torch.tensor([-1.0, 3.0]))
        tensor([0., 6.])
    """
    chosen: dict[str, Any] = dict(mode=mode, options=options, regions=regions)
    settings: dict[str, Any] = dict(backend=backend, fullgraph=fullgraph, dynamic=dynamic, **chosen)
    if fn is None:
        return functools.partial(compile, disable=disable, **settings)
    _check_can_be_compiled(fn)
    watched = WATCHES[-1](fn, settings) if WATCHES else settings
    if _check_flag("disable", disable) or config.DISABLED or watched is None:
        _check_settings(**settings)
        return fn
    owner = make_owner(**watched)
    check_runs_at_call(fn, must=fullgraph)
    make = compiled_module if isinstance(fn, torch.nn.Module) else compiled_function
    return make(fn, owner, functools.partial(compile, **settings))


def _check_can_be_compiled(fn: object) -> None:
    if isinstance(fn, type):
        what = f"the class {fn.__qualname__}: compile its methods"
    elif isinstance(fn, str) and fn in list_backends():
        what = f"the name of a backend: write dl.compile(backend={fn!r})"
    elif isinstance(fn, torch.jit.ScriptModule):
        what = f"{type(fn).__name__}, which torch.jit has compiled: pass the nn.Module that it was made from"
    elif not callable(fn):
        what = f"{type(fn).__name__} ({fn!r})"
    else:
        return
    raise TypeError(f"dl.compile takes a function or an nn.Module, not {what}")


@contextlib.contextmanager
def compiled_by(callback: Callable[[_C.FrameView], Any]) -> Iterator[None]:
    """In it ``callback`` compiles everything that `compile` has returned, instead of the backend each was given."""
    owners = [(owner, owner.callback) for owner in _OWNERS if isinstance(owner.callback, FrameCompiler)]
    forget_kept()
    for owner, _ in owners:
        owner.reset()
        owner.callback = callback
    try:
        yield
    finally:
        for owner, before in owners:
            owner.reset()
            owner.callback = before


def _report_block() -> None:
    """Tell the check of a script that a block begins."""
    if WATCHES:
        WATCHES[-1](None, {})


class optimize:
    """A context manager that compiles every frame run by the current thread; as a decorator, it compiles a function
    or module. Where coroutines interleave such blocks, the last that was entered and not left is in force.

    Args:
        backend, fullgraph, dynamic: as for `compile`.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> with dl.optimize("eager"):
        ...     y = (lambda x: x + 1)(torch.zeros(2))
        >>> y
        tensor([1., 1.])
    """

    @raised_at_call
    def __init__(
        self, backend: str | Backend = "inductor", *, fullgraph: bool = False, dynamic: bool | None = None
    ) -> None:
        self._settings: dict[str, Any] = {"backend": backend, "fullgraph": fullgraph, "dynamic": dynamic}
        try:
            self._owner = make_owner(**self._settings)
        except TypeError as error:
            if not isinstance(backend, FunctionType):
                raise
            raise TypeError(f"{error}; to decorate a function, write @dl.optimize(), with parentheses") from None

    def __reduce__(self) -> tuple[Callable[[], optimize], tuple[()]]:
        return functools.partial(optimize, **self._settings), ()

    @raised_at_call
    def __call__(self, fn: Function, /) -> Function:
        backend = self._settings["backend"]
        if not callable(fn) and callable(backend):
            raise TypeError(
                f"dl.optimize takes a backend, not {name_of(backend)!r}: to decorate it, write @dl.optimize(), with "
                "parentheses"
            )
        compiled: Any = compile(fn, **self._settings)  # a protocol of the function's signature, to type checkers
        return compiled

    def __enter__(self) -> optimize:
        if not config.DISABLED:
            _report_block()
            _C.enter_block(self._owner, process=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _C.leave_block(self._owner, process=False)


@raised_at_call
def enable(
    backend: str | Backend = "inductor", *, threads: Literal["all", "current"] = "all"
) -> contextlib._GeneratorContextManager[None]:
    """A context manager that compiles every frame run inside it.

    Args:
        backend: as for `compile`.
        threads: "all" for every thread of the process, including those started inside it; "current" for this thread.

    Raises:
        ValueError: ``threads`` is neither.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> with dl.enable("eager", threads="current"):
        ...     y = (lambda x: x + 1)(torch.zeros(2))
        >>> y
        tensor([1., 1.])
    """
    if threads not in ("all", "current"):
        raise ValueError(f"threads must be 'all' or 'current', not {threads!r}")
    _check_settings(backend, False, None, None, None, "never")
    return _enabled(backend, process=threads == "all")


@contextlib.contextmanager
def _enabled(backend: str | Backend, process: bool) -> Iterator[None]:
    owner = make_owner(backend, budget=TranslationBudget())
    if config.DISABLED:
        yield
        return
    _report_block()
    _C.enter_block(owner, process)
    try:
        yield
    finally:
        _C.leave_block(owner, process)


def takeover() -> Takeover:
    """A context manager inside of which calls of what ``torch.compile`` returned are compiled by us, on all threads:
    functions, modules, ``module.compile()``, decorated functions of libraries, whenever they were made. After it
    everything is torch's again. ``python -m dynamo_lite run script.py`` is a whole program in it.

    Backends, modes, options, ``fullgraph`` and ``dynamic`` are those that ``torch.compile`` was given. Python outside
    of compiled functions is slower in it, as every frame passes the hook.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> doubled = torch.compile(lambda x: x * 2, backend="eager")
        >>> dl.counters.reset()
        >>> with dl.takeover():
        ...     y = doubled(torch.ones(2))
        >>> dl.counters.graphs
        1
    """
    return Takeover(compile)


@overload
def disable(fn: Callable[P, R]) -> Callable[P, R]: ...
@overload
def disable(fn: None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@raised_at_call
def disable(fn: Any = None) -> Any:
    """A callable that runs ``fn``, and everything it calls, in eager. Its call breaks a graph.

    Raises:
        TypeError: ``fn`` is not callable.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> @dl.disable
        ... def log(x: torch.Tensor) -> None:
        ...     print(x.shape)
        >>> dl.compile(log, backend="eager")(torch.zeros(2))
        torch.Size([2])
    """
    if fn is None:
        return disable
    _check_callable("dl.disable", fn)
    return disabled_function(fn)


def _check_callable(taker: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"{taker} takes a callable, not {type(fn).__name__} ({fn!r})")


@raised_at_call
def run(fn: Callable[P, R]) -> Callable[P, R]:
    """A callable that runs the code compiled so far for ``fn`` and compiles nothing more: a frame for which no guards
    hold runs in eager.

    Args:
        fn: the result of `compile`.

    Raises:
        TypeError: ``fn`` is something else.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> compiled = dl.compile(lambda x: x + 1, backend="eager")
        >>> dl.run(compiled)(torch.zeros(2))
        tensor([1., 1.])
    """
    wrapped: Any = fn._dl_call if isinstance(fn, CompiledModule) else fn
    compiler = wrapped.owner.callback if isinstance(wrapped, _C.Wrapped) else None
    if not isinstance(compiler, FrameCompiler):
        raise TypeError(f"dl.run takes what dl.compile returned, not {type(fn).__name__} ({fn!r})")
    frozen = compiler.frozen

    @functools.wraps(fn.__call__ if isinstance(fn, torch.nn.Module) else fn)
    def run_only(*args: P.args, **kwargs: P.kwargs) -> R:
        previous, frozen.on = getattr(frozen, "on", False), True
        try:
            return fn(*args, **kwargs)
        finally:
            frozen.on = previous

    return run_only


def graph_break(message: str = "") -> None:
    """Break the graph here. Does nothing in eager.

    Args:
        message: shown with the break, by `explain` and by the logger ``dynamo_lite.breaks``.

    Raises:
        TypeError: ``message`` is no string.
    """
    if not isinstance(message, str):
        raise TypeError(f"dl.graph_break takes a message, a string, not {type(message).__name__} ({message!r})")


def is_compiling() -> bool:
    """True while a program is traced, False in eager."""
    return False


@raised_at_call
def allow_in_graph(fn: Function) -> Function:
    """Record calls of ``fn`` in graphs as one operator, without tracing it. Returns ``fn``.

    ``fn`` must be pure: a function of its arguments only, which are tensors, constants and containers of them, without
    side effects.

    Raises:
        TypeError: ``fn`` is not callable.
    """
    _check_callable("dl.allow_in_graph", fn)
    registry.models_raw(fn, call_whole(fn))
    return fn


@raised_at_call
def disallow_in_graph(fn: Function) -> Function:
    """Break the graph at each call of ``fn``. Returns ``fn``.

    Raises:
        TypeError: ``fn`` is not callable.
    """
    _check_callable("dl.disallow_in_graph", fn)
    name = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', fn)}"

    def refuse(tx: InstructionTranslator, args: Args, kwargs: Kwargs) -> VariableTracker:
        unsupported(DisabledCall(name))

    registry.models_raw(fn, refuse)
    return fn


def wait(timeout: float | None = None) -> bool:
    """Wait until all graphs that are compiled in the background, under ``regions="auto"``, are. The next calls of them
    load the result and try it; benchmarks begin after these.

    Args:
        timeout: the most seconds to wait. None: as long as it takes.

    Returns:
        Whether all are compiled.

    Raises:
        TypeError: ``timeout`` is not a number.

    Example:
        >>> import dynamo_lite as dl
        >>> dl.wait()
        True
    """
    if timeout is not None and not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    return jobs.wait(timeout)


def reset() -> None:
    """Drop all compiled code, and what was learnt of sizes that change. Frames that are running finish."""
    forget_kept()
    forget_breaks()
    for owner in list(_OWNERS):
        owner.reset()
        if isinstance(owner.callback, FrameCompiler):
            owner.callback.forget()


models_compile(compile, "fn", list_backends)


@registry.models(graph_break)
def _trace_graph_break(tx: InstructionTranslator, message: VariableTracker | None = None) -> VariableTracker:
    unsupported(UserGraphBreak("" if message is None else repr(tx.python_value(message))))


@registry.models(is_compiling)
def _trace_is_compiling(tx: InstructionTranslator) -> VariableTracker:
    return torch_functions.is_compiling(tx)


def observe(
    fn: Callable[P, R], observer: Observer, *, backend: str | Backend = "eager", dynamic: bool | None = None
) -> tuple[Callable[P, R], _C.Owner]:
    """``fn`` compiled for an owner of its own, which shares nothing, so that the observer sees each translation. Its
    calls are captured under tracers too."""
    owner = make_owner(backend, dynamic=dynamic, observer=observer)
    fn = compiled_by_torch(fn) or fn
    target: Any = fn._dl_original if isinstance(fn, CompiledModule) else fn
    if isinstance(target, torch.nn.Module):
        target = target.__call__
    return compiled_function(target, owner, explain), owner


@disable
@raised_at_call
def explain(fn: Callable[P, R], *, dynamic: bool | None = None) -> Callable[P, Explanation[R]]:
    """``explain(fn)(*args)`` calls ``fn(*args)`` once, running its graphs in eager, and returns an `Explanation`.

    Args:
        fn: a function or module, compiled (by torch.compile, too) or not.
        dynamic: as for `compile`.

    Raises:
        TypeError: ``fn`` is not callable.
        exc.Unsupported: nothing can be compiled where it is called: under a mode of torch's, in ``torch.jit.trace``.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> found = dl.explain(lambda x: x.sin() + 1)(torch.zeros(2))
        >>> found.graph_count, found.break_count, found.operator_count
        (1, 0, 2)
    """

    _check_callable("dl.explain", fn)
    check_runs_at_call(fn, must=True)

    def call(*args: P.args, **kwargs: P.kwargs) -> Explanation[R]:
        check_captures(qualified_name(fn))
        observer = Observer()
        observed, owner = observe(fn, observer, dynamic=dynamic)
        began = time.perf_counter()
        try:
            result = observed(*args, **kwargs)
        finally:
            owner.reset()
        seconds = time.perf_counter() - began
        return Explanation.of(observer, result, seconds, [regions_in(gm) for gm in observer.graphs])

    call.__qualname__ = f"explain({qualified_name(fn)})"  # what is shown to one who forgets to call it
    return disable(call)
