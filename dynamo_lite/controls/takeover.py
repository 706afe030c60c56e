"""Takeovers: while one is on, we compile the calls of functions and modules that ``torch.compile`` returned.

Such a function isn't changed. It holds the original (``_torchdynamo_orig_callable``) and torch's settings; a module
wraps such a function. The hook sees the function's frame before it begins, and runs code in its place that calls the
original, compiled by us under these settings. So it doesn't matter when and by whom ``torch.compile`` was called, and
there is nothing to restore.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.backends.registry import list_backends
from dynamo_lite.codegen.function_code import code_returning
from dynamo_lite.insight.notices import say_once
from dynamo_lite.plan.rows import Call, Constant, Local

Compiled = Callable[..., Any]
Entry = tuple[_C.GuardTree, Any, bool, None]

_active: list[Takeover] = []
"""The takeovers that are on, in the order in which they began."""


class _On:
    """Exists as long as its takeover is on."""


_COMPILED = "_dl_compiled"
"""The attribute of torch's function that holds our compiled function, after the ids of its takeover and of torch's
function."""


class Takeover(contextlib.ContextDecorator):
    """While it is on, we compile what torch.compile returned when it is called, on all threads."""

    def __init__(self, compile: Callable[..., Compiled]) -> None:
        self.functions: weakref.WeakSet[FunctionType] = weakref.WeakSet()
        """torch's functions that were called."""
        self.called = 0
        """How many functions were called; `functions` loses those that are deallocated."""
        self._compile = compile
        self._owner = _C.Owner(self._callback, "takeover")
        self._owner.when_observed = True  # our compiled functions check for tracers themselves
        self.on: _On | None = None
        """The guards of entries, whoever owns these, hold while it exists."""

    def _recreate_cm(self) -> Takeover:
        """One for each call of a function that this decorates."""
        return Takeover(self._compile)

    def __enter__(self) -> Takeover:
        self.on = _On()
        _active.append(self)
        _C.enter_block(self._owner, process=True)
        return self

    def __exit__(self, *raised: object) -> None:
        _C.leave_block(self._owner, process=True)
        _active.remove(self)
        self.on = None
        self._owner.reset()
        for function in self.functions:
            vars(function).pop(_COMPILED, None)

    def _callback(self, view: _C.FrameView) -> Entry | _C.Verdict:
        return entry_in_place_of(view) or _C.SKIP

    def compiled(self, function: FunctionType) -> Compiled:
        """Our compiled function for torch's, created at its first call."""
        ids, compiled = vars(function).get(_COMPILED, (None, None))
        if ids != (id(self), id(function)):
            compiled = self._compile(vars(function)["_torchdynamo_orig_callable"], **_settings(_context(function)))
            vars(function)[_COMPILED] = (id(self), id(function)), compiled
            self.functions.add(function)
            self.called += 1
        return compiled


def entry_in_place_of(view: _C.FrameView) -> Entry | None:
    """For a frame of a function of torch.compile's: guards that hold while the takeover is on, and code that calls our
    compiled function with the frame's arguments. None for any other frame."""
    function: Any = view.func
    if not _active or not _is_torch_compiled(function):
        return None
    tree = _C.GuardTree(view.code)
    tree.check(tree.child(0, "const", _active[-1].on), "type", _On, "the takeover is on")
    tree.capture(tree.child(0, "function"))
    called = Call(Constant(_call), tuple(map(Local, (_C.CAPTURED_NAME, "args", "kwargs"))))
    return tree, code_returning(called, like=view.code), False, None


def _call(captured: tuple[FunctionType], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Called by the code that runs instead of torch's function."""
    (function,) = captured
    return (_active[-1].compiled(function) if _active else function)(*args, **kwargs)


def compiled_by_torch(fn: object) -> Any:
    """The original of a function or module that torch.compile returned; None for anything else."""
    if isinstance(fn, FunctionType):
        return vars(fn)["_torchdynamo_orig_callable"] if _is_torch_compiled(fn) else None
    modules = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", ())
    return fn._orig_mod if isinstance(fn, modules) else None


def _is_torch_compiled(function: FunctionType) -> bool:
    """Whether torch.compile returned it for a callable. A result of torch.compiler.disable has the same attributes, and
    a wrapper may have copied them."""
    marks = vars(function)
    if marks.get("_torchdynamo_wrapper_id") != id(function) or "_torchdynamo_disable" in marks:
        return False
    return function.__code__.co_varnames[:2] == ("args", "kwargs") and callable(
        getattr(_context(function), "callback", None)
    )


def _context(function: FunctionType) -> Any:
    """torch's object that holds the settings of one of its functions."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    return cells["self"].cell_contents if "self" in cells else None


def _settings(context: Any) -> dict[str, Any]:
    """The arguments of `compile` that have the same meaning as these settings of torch.compile."""
    converter = getattr(context.callback, "_torchdynamo_orig_backend", context.callback)
    if getattr(converter, "_recompile_limit", None) is not None:
        say_once("torch.compile(recompile_limit=) has no effect in dynamo_lite.")
    if getattr(context, "_isolate_recompiles_id", -1) != -1:
        say_once("torch.compile(isolate_recompiles=) has no effect in dynamo_lite.")
    settings = _backend(_unwrapped(context.callback))
    guard_filter = getattr(getattr(context, "_hooks", None), "guard_filter_fn", None)
    if guard_filter is not None:
        settings["options"] = {**(settings.get("options") or {}), "guard_filter_fn": guard_filter}
    return settings | dict(fullgraph=bool(context.fullgraph), dynamic=context._dynamic)


def _unwrapped(backend: object) -> Any:
    """A backend without the wrappers that torch has put around it."""
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    return backend


def _backend(backend: object) -> dict[str, Any]:
    """The ``backend=`` and ``options=`` for a backend of torch's: ours of that name, else the callable itself."""
    if isinstance(backend, torch._TorchCompileInductorWrapper) and backend.compiler_name == "inductor":
        return dict(backend="inductor", options=dict(backend.config) or None)
    given = {}
    if isinstance(backend, torch._TorchCompileWrapper):
        given, backend = backend.kwargs, backend.compiler_fn
    name = getattr(backend, "__name__", None)
    is_torchs = getattr(backend, "__module__", "").startswith("torch._dynamo.backends.")
    if not is_torchs or name not in list_backends():
        return dict(given, backend=backend)
    if given and name != "inductor":  # torch's ignore them, too
        say_once(f"torch.compile({', '.join(f'{each}=…' for each in given)}) has no effect on the backend {name!r}.")
        given = {}
    return dict(given, backend=name)
