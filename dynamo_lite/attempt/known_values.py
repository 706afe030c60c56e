"""The trackers of one attempt: one for each real object, namespace of globals and builtin."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnsupportedKey
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import CONSTANT_TYPES, ConstantVariable
from dynamo_lite.variables.core.keys import AddressKeys
from dynamo_lite.variables.core.namespaces import check_namespace
from dynamo_lite.variables.core.wrapping import LazyVariable, wrap
from dynamo_lite.variables.python.classes.classes import module_of
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SizeVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.containers.sets import set_of_constants
from dynamo_lite.variables.python.functions.function import GlobalScope
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.python.objects.opaque import wrap_opaque
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

_CONSTANTS = frozenset(CONSTANT_TYPES)


class KnownValues:
    """Maps real objects to trackers. An object that is reached through two sources has one tracker."""

    def __init__(self, attempt: Attempt, namespace: dict[str, object], builtins_namespace: dict[str, object]) -> None:
        self.attempt = attempt
        self._guards = attempt.guards
        self._root_namespace = namespace
        self.builtins_namespace = builtins_namespace
        self.memo: dict[int, tuple[Any, VariableTracker]] = {}
        """id of a real object -> the object and its tracker."""
        self._scopes: dict[int, GlobalScope] = {}
        self._builtins: dict[str, LazyVariable] = {}
        self.addresses = AddressKeys()
        self.written_classes: dict[int, VariableTracker] = {}
        """id of a class whose attributes were assigned -> its tracker."""

    def close(self) -> None:
        """Drop all references to user objects."""
        for each in (self.memo, self._scopes, self._builtins, self.written_classes):
            each.clear()

    def wrap(self, value: object, source: Source) -> VariableTracker:
        return wrap(self.attempt, value, source)

    def add_alias(self, known: VariableTracker, value: object, source: Source) -> VariableTracker:
        """Note that a second source reaches an object that has a tracker. Returns that tracker."""
        first = known.source
        if source is first:
            return known
        if source.kind == "const":
            if first is not None and first.kind != "const":
                first.check("id", value)
            return known
        if first is None or first.kind == "const" or known.is_guarded_by_identity:
            source.check("id", value)
        else:
            self._guards.same(source, first)
        return known

    def constant_tuple(self, value: tuple[object, ...]) -> VariableTracker:
        """The tracker of a tuple among a code object's constants: one object, however often it is loaded."""
        known = self.memo.get(identity(value))
        if known is None:
            items = [self.constant_tuple(item) if type(item) is tuple else self.make(item) for item in value]
            known = self.memo[identity(value)] = value, TupleVariable(items, self._guards.const(value))
        return known[1]

    def make(self, value: object) -> VariableTracker:
        """The tracker of a value that was computed during tracing (or that guards imply)."""
        kind = type(value)
        if kind in _CONSTANTS:
            return ConstantVariable(value)
        maker = _MAKERS.get(kind)
        if maker is not None:
            return maker(self, value)
        return wrap(self.attempt, value, self._guards.const(value))

    def key_of(self, variable: VariableTracker) -> Any:
        """The hashable stand-in for a dict key. Hashing it must not run user code."""
        try:
            key = variable.key()
            hash(key)
        except (NotConstant, TypeError):
            unsupported(UnsupportedKey(variable.describe()))
        self.addresses.note(key)
        return key

    def opaque(self, value: object, source: Source, why: str) -> VariableTracker:
        return wrap_opaque(self.attempt, value, source, why)

    @property
    def scopes(self) -> Iterable[GlobalScope]:
        """The namespaces of globals that were read or written."""
        return self._scopes.values()

    def scope(self, namespace: dict[str, object]) -> GlobalScope:
        """The globals of a function: one tracker for each dict."""
        found = self._scopes.get(identity(namespace))
        if found is None:
            check_namespace(namespace)
            if namespace is self._root_namespace:
                source = self._guards.root.child("globals")
            elif (module := module_of(namespace)) is not None:
                source = self._guards.const(module).child("instance_dict")
            else:
                source = self._guards.const(namespace)
            found = self._scopes[identity(namespace)] = GlobalScope(self.attempt, namespace, source)
        return found

    def builtin(self, name: str) -> VariableTracker | None:
        """The tracker of a builtin; None if there is none of this name."""
        scope = self._scopes.get(identity(self.builtins_namespace))
        if scope is not None and name in scope.writes:
            return scope.writes[name]
        found = self._builtins.get(name)
        if found is None:
            namespace, values = self._guards.root.child("builtins"), self.builtins_namespace
            if name not in values:
                namespace.check("dict_lacks", name)
                return None
            source = namespace.child("dict_item", name)
            found = self._builtins[name] = LazyVariable(self.attempt, values[name], source)
        return found


def _fill_dict(values: KnownValues, value: dict[object, object], tracker: DictVariable) -> DictVariable:
    for key, item in value.items():
        variable = values.make(key)
        raw = values.key_of(variable)
        if not isinstance(variable, ConstantVariable):
            tracker.keys[raw] = variable
        tracker.items[raw] = values.make(item)
    return tracker


def _make_ordered_dict(values: KnownValues, value: OrderedDict[object, object]) -> VariableTracker:
    items = _fill_dict(values, value, DictVariable({}, cls=OrderedDict))
    made = UserObjectVariable(None, OrderedDict, None, items)
    made.attrs.update((name, values.make(each)) for name, each in vars(value).items())
    return made


_MAKERS: dict[type, Callable[[KnownValues, Any], VariableTracker]] = {
    tuple: lambda values, value: TupleVariable([values.make(item) for item in value]),
    list: lambda values, value: ListVariable([values.make(item) for item in value]),
    torch.Size: lambda values, value: SizeVariable([values.make(item) for item in value]),
    slice: lambda values, value: SliceVariable([values.make(p) for p in (value.start, value.stop, value.step)]),
    dict: lambda values, value: _fill_dict(values, value, DictVariable({})),
    OrderedDict: _make_ordered_dict,
    set: lambda values, value: set_of_constants(values.attempt, value),
    frozenset: lambda values, value: set_of_constants(values.attempt, value),
    torch.SymInt: lambda values, value: SymNodeVariable(values.attempt, value).realize(),
    torch.SymFloat: lambda values, value: SymNodeVariable(values.attempt, value).realize(),
}
