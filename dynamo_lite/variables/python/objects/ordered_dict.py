"""OrderedDict: a dict whose instances have attributes of their own, as ``state_dict`` keeps its versions in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import object_delattr, object_setattr
from dynamo_lite.variables.core.base import VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.instance_dict import InstanceDictVariable
from dynamo_lite.variables.python.containers.mapping import DictVariable, wrap_dict_items

from .user_object import UserObjectVariable


class OrderedDictVariable(DictVariable):
    """``own``: the object with its attributes, beside its items."""

    __slots__ = ("own",)

    def __init__(
        self,
        items: dict[Any, VariableTracker],
        keys: dict[Any, VariableTracker] | None = None,
        source: Source | None = None,
        value: OrderedDict[Any, Any] | None = None,
    ) -> None:
        super().__init__(items, keys, source, OrderedDict)
        self.own = UserObjectVariable(value, OrderedDict, source)

    def like(self, items: dict[Any, VariableTracker], keys: dict[Any, VariableTracker]) -> OrderedDictVariable:
        return OrderedDictVariable(items, keys)

    def with_attributes(self, attributes: dict[str, VariableTracker]) -> OrderedDictVariable:
        """Itself, which is new, with them."""
        self.own.attrs.update(attributes)
        return self

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        if self.own.attrs:
            unsupported(UnsupportedValue(self.describe(), "its attributes would be left out"))
        return super().with_structure_items(tx, new)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.own.instance_get(tx, name)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self.own.instance_set(tx, name, value)

    def instance_delete(self, tx: Translator, name: str) -> None:
        self.own.instance_delete(tx, name)

    def namespace(self, tx: Translator) -> DictVariable:
        return self.own.namespace(tx)

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        return InstanceDictVariable(self) if name == "__dict__" else super().c_attribute(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        object_setattr(tx, self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        object_delattr(tx, self, name)

    def fill(self, cg: Codegen) -> None:
        super().fill(cg)
        self.own.store_attributes(cg)


@wraps_type(OrderedDict)
def _wrap_ordered_dict(attempt: Attempt, value: OrderedDict[Any, Any], source: Source) -> VariableTracker:
    source.check("type", OrderedDict)
    return OrderedDictVariable(*wrap_dict_items(attempt, value, source), source, value)
