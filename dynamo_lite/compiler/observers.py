"""Conditions under which no frame is translated: tracers, modes of torch's, hooks on saved tensors, and others.

Frames run in eager there, and a message says so once for each reason; ``fullgraph=True``, `explain` and `export` raise.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch
import torch.utils.checkpoint
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes

from dynamo_lite import _C, config, logs
from dynamo_lite.controls.stance import stance_in_force
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import NotCompiledHere
from dynamo_lite.insight.notices import said, warn_here


@dataclass(frozen=True, eq=False)
class WhyNotHere:
    """Why no frame is translated at a place of the program's run, and what to do about it."""

    because: str
    fix: str

    def error(self, name: str) -> Unsupported:
        """What a function of that name raises that must be captured."""
        return Unsupported(NotCompiledHere(name, self.because, self.fix))


_SETTING = "set dl.config.compile_when_observed = True"
TRACER = WhyNotHere(
    "a tracer (a debugger, coverage) watches, and would see no lines of compiled code",
    _SETTING,
)
DISPATCH_MODE = WhyNotHere(
    "a TorchDispatchMode is in force (FakeTensorMode, FlopCounterMode), and would see the compiled graph's operators, "
    "not the program's",
    _SETTING,
)
FUNCTION_MODE = WhyNotHere("a TorchFunctionMode is in force", "call it outside of the mode")
IN_DISPATCH = WhyNotHere("it is called by a __torch_dispatch__, or by an operator's kernel", "compile what calls that")
SAVED_TENSORS_HOOKS = WhyNotHere(
    "saved_tensors_hooks are in force, and would see what the compiled graph saves, not what the program does",
    "call it outside of them",
)
NODE_CREATION_HOOKS = WhyNotHere(
    "a node_creation_hook is in force, and would see the nodes of the compiled graph, not the program's",
    "call it outside of the hook",
)
GREENLET = WhyNotHere("another greenlet of this thread compiles", "call it before the greenlets start")
JIT_TRACE = WhyNotHere("torch.jit.trace is at work", "give torch.jit.trace the function that isn't compiled")
DEEP = WhyNotHere(
    "it is called so deep in recursion that there may be no room to compile",
    "call it higher up, or on a thread with a larger stack (threading.stack_size)",
)
RUNS_LATER = WhyNotHere(
    "its body runs later, as a generator or a coroutine goes on", "compile the functions that it calls"
)
STANCE = WhyNotHere("dl.set_stance, or torch.compiler.set_stance, is in force", "set the stance to 'default'")
DISABLED = WhyNotHere("the environment has DYNAMO_LITE_DISABLE", "unset it, or set it to 0")
BUILTINS = WhyNotHere("the program has replaced builtin functions, which the compiler uses too", "put them back")


def why_not_here() -> WhyNotHere | None:
    """Why nothing is translated on this thread now; None: it may be. Of tracers the hook knows."""
    if config.DISABLED:
        return DISABLED
    if torch._C._len_torch_dispatch_stack() and not config.compile_when_observed:
        return DISPATCH_MODE
    modes = torch._C._len_torch_function_stack()  # the one of the default device changes nothing
    if modes > 1 or modes and type(torch._C._get_function_stack_at(0)) is not DeviceContext:
        return FUNCTION_MODE
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    if hooks is not None and not all(getattr(hook, "__module__", None) in _LOSE_NOTHING for hook in hooks):
        return SAVED_TENSORS_HOOKS
    if _C.has_node_creation_hooks():
        return NODE_CREATION_HOOKS
    if torch._C._dispatch_tls_is_dispatch_key_excluded(_COUNTS_WRITES):
        return IN_DISPATCH
    if torch._C._get_tracing_state() is not None:
        return JIT_TRACE
    if _C.is_busy_elsewhere():
        return GREENLET
    return None if builtins_are_unchanged() else BUILTINS


def check_captures(name: str) -> None:
    """Refuse a function of that name where it must be captured and nothing can be."""
    why_not = STANCE if stance_in_force() != "default" else why_not_here()
    if why_not is not None:
        raise why_not.error(name)


_COUNTS_WRITES = torch._C.DispatchKey.ADInplaceOrView
"""Excluded in a ``__torch_dispatch__``: a trace would not notice which tensors are mutated."""

_LOSE_NOTHING = (torch.utils.checkpoint.__name__, torch.autograd.graph.__name__)
"""Modules whose hooks make no difference, whatever is saved: those of checkpoints only count it, which the compiled
forward and its recomputation save alike; those of `save_on_cpu` keep it elsewhere."""

_REPLACEABLE = frozenset("print open input help exit quit license credits copyright breakpoint __import__".split())
_BUILTINS = {name: value for name, value in vars(builtins).items() if name not in _REPLACEABLE}
_current = vars(builtins).get
_all, _hasattr, _map = all, hasattr, map  # not by their names: these may be what the program has replaced


def builtins_are_unchanged() -> bool:
    """Programs may replace builtins, or remove `sys._getframe`, and the translator runs on them as well."""
    now = _map(_current, _BUILTINS)  # checked for each frame that isn't translated yet: all of it in C
    return _all(_map(operator.is_, now, _BUILTINS.values())) and _hasattr(sys, "_getframe")


def check_runs_at_call(fn: Callable[..., object], *, must: bool) -> None:
    """Refuse a function whose calls only create a generator or coroutine, where it must be captured; else say so."""
    body = fn.forward if isinstance(fn, torch.nn.Module) else fn
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if not any(is_kind(body) for is_kind in kinds):
        return
    name = getattr(body, "__qualname__", type(body).__qualname__)
    if must:
        raise RUNS_LATER.error(name)
    logs.breaks.warning("%s runs in eager: %s. To have it captured, %s.", name, RUNS_LATER.because, RUNS_LATER.fix)


def refuse(fn: Callable[..., object]) -> NoReturn:
    """The hook calls this for a function that must be captured, so deep in recursion that it leaves frames alone."""
    raise DEEP.error(getattr(fn, "__qualname__", type(fn).__qualname__))


def tell_once(why: WhyNotHere) -> None:
    """Say, once a process for each reason, that frames run in eager: as a warning where a setting compiles all the
    same, else in the log."""
    if why in said:
        return
    said.add(why)
    message = f"compiled functions run in eager here: {why.because}. To compile all the same, {why.fix}. (Said once.)"
    if why.fix != _SETTING:
        logs.breaks.info(message)
    else:
        warn_here(message)


def tell_of_tracers() -> None:
    """Have the hook call `tell_once` when a tracer first keeps a frame from being compiled."""
    _C.tell_when_traced(lambda: tell_once(TRACER))


tell_of_tracers()


@contextlib.contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """Hooks on what autograd saves don't see fake tensors."""
    autograd = torch._C._autograd
    hooks = []
    while (top := autograd._top_saved_tensors_default_hooks(False)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)


def without_dispatch_modes() -> contextlib.AbstractContextManager[object]:
    """The program's modes don't see the operators on fake tensors."""
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else contextlib.nullcontext()
