"""`torch.nn.Module` instances: user objects whose parameters, buffers and children are found without running Python."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import module as torch_module

from ..source import Source
from .attributes import MISSING, class_lookup, generic_getattr, object_setattr
from .base import Args, Kwargs, LazyVariable, VariableTracker, wraps_if
from .tensor import TensorVariable
from .user_object import UserObjectVariable, instance_dict

Module = torch.nn.Module
_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)
_GETATTR = Module.__dict__["__getattr__"]
_SETATTR = Module.__dict__["__setattr__"]
_CALL = Module.__dict__["__call__"]
_CALL_IMPL = Module.__dict__["_call_impl"]


class NNModuleVariable(UserObjectVariable):
    """A module that exists."""

    __slots__ = ()

    def describe(self) -> str:
        return f"a {self.cls.__qualname__} module"

    def key(self) -> Any:
        return self.value

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if class_lookup(self.cls, "__getattr__") is not _GETATTR or "__getattribute__" in self.cls.__dict__:
            return super().getattr(tx, name)
        if class_lookup(self.cls, name) is MISSING and not self._tables_written():
            found = self._member(tx, name)
            if found is not None:
                return found
        return super().getattr(tx, name)

    def _tables_written(self) -> bool:
        return any(name in self.attrs for name in _TABLES)

    def _member(self, tx: Any, name: str) -> VariableTracker | None:
        """What ``Module.__getattr__`` finds, where nothing was written to those tables inside."""
        namespace = instance_dict(self.value)
        if namespace is None or name in self.attrs or name in namespace:
            return None
        assert self.source is not None
        own = self.source.child("instance_dict")
        for table in _TABLES:
            entries = namespace.get(table)
            if type(entries) is not dict and type(entries).__name__ != "OrderedDict":
                return None
            if id(entries) in tx.attempt.memo:
                return None
            place = own.child("dict_item", table)
            if name in entries:
                self.source.check("lacks_instance_dict_item", name)
                return LazyVariable(tx.attempt, entries[name], place.child("dict_item", name)).realize()
            place.check("dict_lacks", name)
        return None

    def setattr(self, tx: Any, name: str, value: VariableTracker) -> None:
        """``Module.__setattr__`` of a plain value under a plain name is ``object``'s; the rest is inlined."""
        value = value.realize()
        namespace = instance_dict(self.value) or {}
        plain = not isinstance(value, (TensorVariable, NNModuleVariable)) and not isinstance(value, UserObjectVariable)
        if (
            plain
            and class_lookup(self.cls, "__setattr__") is _SETATTR
            and not any(name in (namespace.get(table) or ()) for table in _TABLES)
            and name not in _TABLES
        ):
            assert self.source is not None
            for table in _TABLES:
                self.source.child("instance_dict").child("dict_item", table).check("dict_lacks", name)
            object_setattr(tx, self, name, value)
            return
        super().setattr(tx, name, value)

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self._plain_call(tx):
            forward = self.getattr(tx, "forward").realize()
            tx.delegate(self, forward)
            return tx.call(forward, args, kwargs)
        return super().call(tx, args, kwargs)

    def _plain_call(self, tx: Any) -> bool:
        """Whether ``Module.__call__`` comes down to ``forward``: no hook on it or on all modules. Guards that."""
        cls = self.cls
        if class_lookup(cls, "__call__") is not _CALL or class_lookup(cls, "_call_impl") is not _CALL_IMPL:
            return False
        namespace = instance_dict(self.value)
        if namespace is None or any(name in self.attrs for name in (*_HOOKS, "_compiled_call_impl")):
            return False
        if namespace.get("_compiled_call_impl") is not None or any(namespace.get(name) for name in _HOOKS):
            return False
        if any(getattr(torch_module, name) for name in _GLOBAL_HOOKS):
            return False
        if any(id(namespace.get(name)) in tx.attempt.memo for name in _HOOKS):
            return False
        self._guard_no_hooks(tx, namespace)
        return True

    def _guard_no_hooks(self, tx: Any, namespace: dict[str, Any]) -> None:
        assert self.source is not None
        own = self.source.child("instance_dict")
        for name in _HOOKS:
            if name in namespace:
                own.child("dict_item", name).check("length", 0)
        if "_compiled_call_impl" in namespace:
            own.child("dict_item", "_compiled_call_impl").check("id", None)
        else:
            self.source.check("lacks_instance_dict_item", "_compiled_call_impl")
        everywhere = tx.guards.const(torch_module).child("instance_dict")
        for name in _GLOBAL_HOOKS:
            everywhere.child("dict_item", name).check("length", 0)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)


def module_class_getattr(tx: Any, module: NNModuleVariable, name: str) -> VariableTracker:
    """An attribute by the class's rules alone."""
    return generic_getattr(tx, module, name)


@wraps_if(lambda value: issubclass(type(value), Module), order=2)
def _wrap_module(attempt: Any, value: torch.nn.Module, source: Source) -> VariableTracker:
    if issubclass(type(value), (torch.jit.ScriptModule, torch.fx.GraphModule)):
        return attempt.opaque(value, source, "a module made by torch.jit or torch.fx")
    source.check("type", type(value))
    return NNModuleVariable(value, type(value), source)
