"""`torch.nn.Module` instances: user objects whose members are looked up, and guarded, without tracing `__getattr__`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch.fx.graph_module import _WrappedCall
from torch.nn.modules import module as torch_module

from dynamo_lite import _C
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import (
    MISSING,
    class_lookup,
    guard_class_attribute,
    guard_class_lacks,
    object_setattr,
)
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker
from dynamo_lite.variables.core.namespaces import check_lookup
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, instance_dict, instance_items
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

Module = torch.nn.Module
_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)
_ACCESS = {"__getattr__": Module.__getattr__, "__getattribute__": object.__getattribute__}
_WRITING = {"__setattr__": Module.__setattr__}
_CALLING: dict[str, object] = {name: Module.__dict__[name] for name in ("__call__", "_call_impl")}


class PlainClasses(set[tuple[object, ...]]):
    """Ids of module classes, with the names that are guarded to be torch's own attributes there."""


class NNModuleVariable(UserObjectVariable):
    """A pre-existing module."""

    __slots__ = ()

    def describe(self) -> str:
        return f"a {self.cls.__qualname__} module"

    def key(self) -> torch.nn.Module:
        return self.value

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        is_of_class = class_lookup(self.cls, name) is not MISSING or tx.attempt.values.written_classes
        if not is_of_class and self._has_class_attributes(tx, _ACCESS):
            member = self._member(tx, name)
            if member is not None:
                return member
        return super().getattr(tx, name)

    def _has_class_attributes(self, tx: Translator, wanted: Mapping[str, object]) -> bool:
        """Whether the class has these attributes, by name; guarded if so."""
        key = (identity(self.cls), *wanted)
        known = tx.attempt.state(PlainClasses)
        if key in known:
            return True
        if any(class_lookup(self.cls, name) is not value for name, value in wanted.items()):
            return False
        for name, value in wanted.items():
            guard_class_attribute(tx.guards, self.cls, name, value)
        known.add(key)
        return True

    def _tables(self, tx: Translator) -> dict[str, dict[str, object]]:
        """The module's dicts of parameters, buffers and submodules, by name. Empty if one is missing or was read during
        tracing."""
        namespace, memo = instance_items(self.value), tx.attempt.values.memo
        tables = {name: namespace[name] for name in _TABLES if name in namespace and name not in self.attrs}
        are_unused = all(
            type(table) in (dict, OrderedDict) and identity(table) not in memo for table in tables.values()
        )
        return tables if are_unused and len(tables) == len(_TABLES) else {}

    def _member(self, tx: Translator, name: str) -> VariableTracker | None:
        """The result of ``Module.__getattr__``, if the tables weren't mutated during tracing."""
        namespace = instance_dict(self.value)
        if namespace is None or name in self.attrs or name in namespace:
            return None
        assert self.source is not None
        own = self.source.child("instance_dict")
        guard_class_lacks(tx.guards, self.cls, name)
        for table, entries in self._tables(tx).items():
            place = own.child("dict_item", table)
            check_lookup(entries, name, self.describe)
            if name in entries:
                self.source.check("lacks_instance_dict_item", name)
                return LazyVariable(tx.attempt, entries[name], place.child("dict_item", name)).realize()
            place.check("dict_lacks", name)
        return None

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """``Module.__setattr__``: it is ``object.__setattr__`` if no table has the name; otherwise it is inlined."""
        value = value.realize()
        is_plain = not isinstance(value, (TensorVariable, UserObjectVariable)) and name not in _TABLES
        tables = self._tables(tx) if is_plain and self._has_class_attributes(tx, _WRITING) else {}
        if tables and not any(name in table for table in tables.values()):
            assert self.source is not None
            for table in tables:
                self.source.child("instance_dict").child("dict_item", table).check("dict_lacks", name)
            object_setattr(tx, self, name, value)
            return
        super().setattr(tx, name, value)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(class_lookup(self.cls, "__call__"), _C.InstanceCall):  # dl.compile's: trace the original module
            return tx.call(self.getattr(tx, "_dl_original"), args, kwargs)
        if self._calls_forward_only(tx):
            forward = self.getattr(tx, "forward").realize()
            tx.delegate(self, forward)
            return tx.call(forward, args, kwargs)
        return super().call(tx, args, kwargs)

    def _calls_forward_only(self, tx: Translator) -> bool:
        """Whether ``Module.__call__`` only calls ``forward``: there are no hooks of this module or of all. Guarded."""
        if not self._has_class_attributes(tx, _CALLING | _generated_call(self.cls)):
            return False
        namespace = instance_dict(self.value)
        if namespace is None or any(name in self.attrs for name in (*_HOOKS, "_compiled_call_impl")):
            return False
        if namespace.get("_compiled_call_impl") is not None or any(namespace.get(name) for name in _HOOKS):
            return False
        global_hooks = [getattr(torch_module, name) for name in _GLOBAL_HOOKS]
        memo = tx.attempt.values.memo
        used = [memo[identity(each)][1].builtin_part() for each in global_hooks if identity(each) in memo]
        if any(global_hooks) or any(map(tx.effects.last, used)):
            return False
        if any(identity(namespace.get(name)) in memo for name in _HOOKS):
            return False
        self._guard_no_hooks(tx, namespace)
        return True

    def _guard_no_hooks(self, tx: Translator, namespace: dict[str, object]) -> None:
        assert self.source is not None
        own = self.source.child("instance_dict")
        for name in _HOOKS:
            if name in namespace:
                own.child("dict_item", name).check("length", 0)
        if "_compiled_call_impl" in namespace:
            own.child("dict_item", "_compiled_call_impl").check("id", None)
        else:
            self.source.check("lacks_instance_dict_item", "_compiled_call_impl")
        module_globals = tx.guards.const(torch_module).child("instance_dict")
        for name in _GLOBAL_HOOKS:
            module_globals.child("dict_item", name).check("length", 0)

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.value)


def _generated_call(cls: type) -> dict[str, object]:
    """The attributes by which a class generated by torch.fx calls its base's ``__call__``; empty for other classes."""
    wrapped = class_lookup(cls, "_wrapped_call")
    if type(wrapped) is not _WrappedCall or wrapped.cls_call is not None or wrapped.cls is not cls:
        return {}
    return {"__call__": class_lookup(cls, "__call__"), "_wrapped_call": wrapped}


@wraps_if(lambda value: issubclass(type(value), Module), order=2)
def _wrap_module(attempt: Attempt, value: torch.nn.Module, source: Source) -> VariableTracker:
    if issubclass(type(value), torch.jit.ScriptModule):
        return attempt.values.opaque(value, source, "a module compiled by torch.jit")
    source.check("type", type(value))
    return NNModuleVariable(value, type(value), source)
