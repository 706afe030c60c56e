"""``__dict__`` of instances, functions and modules, and ``globals()``."""

from __future__ import annotations

from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.identity import identity
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator

from .mappings import DictIterator, DictVariable, DictViewVariable, wrap_dict_items


class InstanceDictVariable(VariableTracker):
    """``obj.__dict__``. Reads and writes are those of the attributes of the object, ``of``."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.source = of.source.child("instance_dict") if of.source is not None else None
        self.of = of

    def python_type(self) -> type:
        return dict

    def identity(self) -> Any:
        return (InstanceDictVariable, self.of)

    def _name(self, key: VariableTracker) -> str:
        name = key.as_constant() if key.is_constant() else None
        if not isinstance(name, str):
            unsupported(UnsupportedOperation("indexing by a key that is not a string", "an object's __dict__"))
        return name

    def copied(self, tx: Translator) -> DictVariable:
        """The attributes as a dict of their own, whose keys are guarded."""
        return self.of.namespace(tx)

    def mapping_items(self, tx: Translator) -> DictVariable | None:
        return self.copied(tx)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        found = self.of.instance_get(tx, self._name(key))
        if found is None:
            tx.raise_error(KeyError, self._name(key))
        return found

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        self.of.instance_set(tx, self._name(key), value)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        self.method_pop(tx, key)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self.of.instance_get(tx, self._name(item)) is not None

    def iterate(self, tx: Translator) -> VariableTracker:
        return InstanceDictIterator(tx, self, "keys")

    def reverse(self, tx: Translator) -> VariableTracker:
        return InstanceDictIterator(tx, self, "keys", is_reversed=True)

    def length(self, tx: Translator) -> int:
        return self.copied(tx).length(tx)

    def truth(self, tx: Translator) -> bool:
        return self.length(tx) > 0

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("items", "keys", "values") and not (args or kwargs):
            return InstanceDictViewVariable(tx, self, name)
        if name in ("items", "keys", "values", "copy"):
            return self.copied(tx).call_method(tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def method_get(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        found = self.of.instance_get(tx, self._name(key))
        return found if found is not None else (default or ConstantVariable(None))

    def method_pop(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        found = self.method_get(tx, key, default) if default is not None else self.getitem(tx, key)
        if self.contains(tx, key):
            self.of.instance_delete(tx, self._name(key))
        return found

    def method_update(self, tx: Translator, /, *others: VariableTracker, **named: VariableTracker) -> VariableTracker:
        staged = DictVariable({})
        staged.method_update(tx, *others, **named)
        for name, value in staged.items.items():
            self.of.instance_set(tx, name, value)
        return ConstantVariable(None)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.of)
        cg.load_attr("__dict__")


class InstanceDictViewVariable(DictViewVariable):
    """``obj.__dict__.items()`` and the like. ``of`` is a copy, and each operation makes another."""

    __slots__ = ("live",)

    def __init__(self, tx: Translator, live: InstanceDictVariable, kind: str) -> None:
        super().__init__(live.copied(tx), kind)
        self.live = live

    def iterate(self, tx: Translator) -> VariableTracker:
        return InstanceDictIterator(tx, self.live, self.kind)

    def reverse(self, tx: Translator) -> VariableTracker:
        return InstanceDictIterator(tx, self.live, self.kind, is_reversed=True)

    def length(self, tx: Translator) -> int:
        return self.live.length(tx)

    def truth(self, tx: Translator) -> bool:
        return self.live.truth(tx)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return DictViewVariable(self.live.copied(tx), self.kind).contains(tx, item)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(getattr(dict, self.kind), [lambda: cg.load(self.live)])


class InstanceDictIterator(DictIterator):
    """An iterator over ``obj.__dict__`` or a view of it. ``of`` is a copy, renewed after each side effect."""

    __slots__ = ("live", "copied_at")

    def __init__(self, tx: Translator, live: InstanceDictVariable, kind: str, is_reversed: bool = False) -> None:
        super().__init__(live.copied(tx), kind, is_reversed)
        self.live = live
        self.copied_at = tx.effects.count

    def next(self, tx: Translator) -> VariableTracker:
        if self.copied_at != tx.effects.count:
            self.of, self.copied_at = self.live.copied(tx), tx.effects.count
            self.checked_at = -1
        return super().next(tx)

    def reconstruct(self, cg: Codegen) -> None:
        if self.copied_at != cg.attempt.effects.count:
            raise NotConstant("an iterator over the attributes of an object that may have changed")
        self.load_advanced(cg, lambda: cg.load(self.live))


class GlobalsVariable(InstanceDictVariable):
    """``globals()``, ``__globals__`` of a function and ``__dict__`` of a module. ``of``: their `GlobalScope`."""

    def __init__(self, scope: Any) -> None:
        self.source = None
        self.of = scope

    def copied(self, tx: Translator) -> DictVariable:
        found = DictVariable(*wrap_dict_items(tx.attempt, self.of.namespace, self.of.source))
        for name, value in self.of.writes.items():
            if value is None:
                found.items.pop(name, None)
            else:
                found.items[name] = value
        return found

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.of.namespace)


def globals_of(tx: Translator, scope: Any) -> VariableTracker:
    """The one tracker of a scope's dict, which aliases of the dict share."""
    _, known = tx.attempt.values.memo.setdefault(identity(scope.namespace), (scope.namespace, GlobalsVariable(scope)))
    if not isinstance(known, GlobalsVariable):
        unsupported(UnsupportedOperation("globals()", "a module whose namespace was read as a dict before"))
    return known
