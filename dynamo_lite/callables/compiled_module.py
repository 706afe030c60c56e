"""What ``dl.compile(module)`` returns: an ``nn.Module`` of the original's class that shares its state."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.records.code_origin import why_not_inlined
from dynamo_lite.variables.core.attributes import binds
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported

from .compiled_function import compiled_function
from .frame_shim import framed


class CompiledModule:
    """Mixin before the original's class in the MRO.

    The instance shares the original's ``__dict__``: parameters, buffers, children, hooks and mode are the same objects
    under the same names. Its call is a C slot, which calls the original with the owner set for the thread. For
    torch.compile it has the attributes that torch.compile sets on its own results.
    """

    __slots__ = ("_dl_call", "_dl_original", "_dl_recompile", "_torchdynamo_orig_callable", "_torchdynamo_wrapper_id")

    _dl_call: _C.Wrapped
    _dl_original: torch.nn.Module
    _dl_recompile: Callable[..., torch.nn.Module]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """The original's class has been announced to its bases already."""

    def __repr__(self) -> str:
        return f"compiled {super().__repr__()}"

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[..., torch.nn.Module], tuple[torch.nn.Module]]:
        return self._dl_recompile, (self._dl_original,)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        return self._dl_recompile(copy.deepcopy(self._dl_original, memo))

    def __copy__(self) -> torch.nn.Module:
        return self._dl_recompile(copy.copy(self._dl_original))


class _CompiledForward:
    """``forward`` of a compiled module, for programs that call it directly: it is compiled, and runs no hooks. It isn't
    a data descriptor, so a program can set another ``forward`` on the module."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self._forward = forward

    def __get__(self, module: Any, cls: type) -> Callable[..., Any]:
        if module is None:
            return self._forward
        if torch.compiler.is_dynamo_compiling():  # so that torch.compile traces the original's as well
            return module._dl_original.forward
        return compiled_function(module._dl_original.forward, module._dl_call.owner, module._dl_recompile)


@binds(_CompiledForward, classes=True)
def _bind_forward(tx: Translator, raw: object, name: str, obj: Any, cls: type, owner: type) -> VariableTracker:
    """Traces the original's ``forward``."""
    if obj is None:
        unsupported(UnsupportedAttribute(f"class {cls.__qualname__}", name))
    return obj.getattr(tx, "_dl_original").realize().getattr(tx, name)


def _call(self: Any, *args: object, **kwargs: object) -> object:
    if torch.compiler.is_dynamo_compiling():
        return self._dl_original(*args, **kwargs)
    return self._dl_call(*args, **kwargs)


def _call_of(cls: type[torch.nn.Module], original: torch.nn.Module) -> Callable[..., Any]:
    """The original's call, in a shim if the frame of ``__call__`` isn't compiled by itself but can be inlined."""
    call: Any = cls.__call__
    method = types.MethodType(call, original)
    is_inlined = isinstance(call, types.FunctionType) and why_not_inlined(call.__code__, call) is None
    return framed(method) if is_inlined else method


def compiled_module(module: torch.nn.Module, owner: _C.Owner, recompile: Callable[..., Any]) -> torch.nn.Module:
    """A module like ``module`` whose call is compiled for ``owner``. ``recompile`` compiles a copy of it."""
    original = module._dl_original if isinstance(module, CompiledModule) else module
    cls = type(original)
    call = _C.InstanceCall(CompiledModule.__dict__["_dl_call"], _call)
    names: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    names |= {"__call__": call, "forward": _CompiledForward(cls.forward)}
    made: Any = object.__new__(
        types.new_class(cls.__name__, (CompiledModule, cls), {}, lambda body: body.update(names))
    )
    # Not by the class's own __setattr__ and __getattribute__, which know other attributes.
    object.__setattr__(made, "__dict__", object.__getattribute__(original, "__dict__"))
    call_original = _C.Wrapped(_call_of(cls, original), owner)
    for name in ("_dl_original", "_torchdynamo_orig_callable"):
        object.__setattr__(made, name, original)  # Module's own would make a child of the original
    for name, value in (("_dl_recompile", recompile), ("_dl_call", call_original)):
        object.__setattr__(made, name, value)
    object.__setattr__(made, "_torchdynamo_wrapper_id", id(made))
    return made
