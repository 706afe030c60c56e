"""What ``dl.compile(module)`` returns: an ``nn.Module`` of the original's class that shares its state."""

from __future__ import annotations

import copy
import types
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.records.code_origin import why_not_inlined
from dynamo_lite.variables.core.attributes import binds
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator

from .compiled_function import compiled_function
from .frame_shim import framed


class CompiledModule:
    """Mixin before the original's class in the MRO.

    The instance shares the original's ``__dict__``: parameters, buffers, children, hooks and mode are the same objects
    under the same names. Its call is a C slot, which calls the original with the owner set for the thread. Given it,
    torch.compile finds the original by the attributes that it puts on what it returns itself.
    """

    __slots__ = ("_dl_call", "_dl_original", "_dl_recompile", "_torchdynamo_orig_callable", "_torchdynamo_wrapper_id")

    _dl_call: Any
    _dl_original: torch.nn.Module
    _dl_recompile: Any

    def __repr__(self) -> str:
        return f"compiled {super().__repr__()}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._dl_recompile, (self._dl_original,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._dl_recompile(copy.deepcopy(self._dl_original, memo))

    def __copy__(self) -> Any:
        return self._dl_recompile(copy.copy(self._dl_original))


class _CompiledForward:
    """``forward`` of a compiled module, called by name: compiled, and without hooks, as the original's. It is no data
    descriptor, as the program may set another ``forward`` on a module."""

    def __init__(self, forward: Any) -> None:
        self._forward = forward

    def __get__(self, module: Any, cls: type) -> Any:
        if module is None:
            return self._forward
        if torch.compiler.is_dynamo_compiling():  # so that torch.compile traces the original's as well
            return module._dl_original.forward
        return compiled_function(module._dl_original.forward, module._dl_call.owner, module._dl_recompile)


@binds(_CompiledForward)
def _bind_forward(tx: Translator, raw: Any, name: str, obj: Any, cls: type, owner: type) -> VariableTracker:
    """In a trace it is the original's."""
    if obj is None:
        unsupported(UnsupportedAttribute(f"class {cls.__qualname__}", name))
    return obj.getattr(tx, "_dl_original").realize().getattr(tx, name)


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.compiler.is_dynamo_compiling():
        return self._dl_original(*args, **kwargs)
    return self._dl_call(*args, **kwargs)


def _call_of(cls: type[torch.nn.Module], original: torch.nn.Module) -> Any:
    """The original's call, in a frame of ours where the frame of its own is not compiled but can be inlined."""
    call: Any = cls.__call__
    method = types.MethodType(call, original)
    is_inlined = isinstance(call, types.FunctionType) and why_not_inlined(call.__code__, call) is None
    return framed(method) if is_inlined else method


def compiled_module(module: torch.nn.Module, owner: _C.Owner, recompile: Any) -> torch.nn.Module:
    """A module like ``module`` whose call is compiled for ``owner``. ``recompile`` makes one of a copy."""
    original = module._dl_original if isinstance(module, CompiledModule) else module
    cls = type(original)
    call = _C.InstanceCall(CompiledModule.__dict__["_dl_call"], _call)
    names: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    names |= {"__call__": call, "forward": _CompiledForward(cls.forward)}
    made: Any = object.__new__(
        types.new_class(cls.__name__, (CompiledModule, cls), {}, lambda body: body.update(names))
    )
    made.__dict__ = original.__dict__
    call_original = _C.Wrapped(_call_of(cls, original), owner)
    for name in ("_dl_original", "_torchdynamo_orig_callable"):
        object.__setattr__(made, name, original)  # Module's own would make a child of the original
    for name, value in (("_dl_recompile", recompile), ("_dl_call", call_original)):
        object.__setattr__(made, name, value)
    object.__setattr__(made, "_torchdynamo_wrapper_id", id(made))
    return made
