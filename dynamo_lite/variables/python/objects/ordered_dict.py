"""``OrderedDict``, whose instances have attributes too: ``Module.state_dict`` stores ``_metadata`` in one."""

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
from dynamo_lite.variables.python.containers.mappings import DictVariable, wrap_dict_items

from .user_object import UserObjectVariable


class OrderedDictVariable(DictVariable):
    """``instance``: the object as the holder of its attributes; the items are those of `DictVariable`."""

    __slots__ = ("instance",)

    def __init__(
        self,
        items: dict[Any, VariableTracker],
        keys: dict[Any, VariableTracker] | None = None,
        source: Source | None = None,
        value: OrderedDict[Any, Any] | None = None,
    ) -> None:
        super().__init__(items, keys, source, OrderedDict)
        self.instance = UserObjectVariable(value, OrderedDict, source)

    def like(self, items: dict[Any, VariableTracker], keys: dict[Any, VariableTracker]) -> OrderedDictVariable:
        return OrderedDictVariable(items, keys)

    def with_attributes(self, attributes: dict[str, VariableTracker]) -> OrderedDictVariable:
        """Set the attributes of this dict, which was just created."""
        self.instance.attrs.update(attributes)
        return self

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        if self.instance.attrs:
            unsupported(UnsupportedValue(self.describe(), "an operator's result would lose its attributes"))
        return super().with_structure_items(tx, new)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.instance.instance_get(tx, name)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self.instance.instance_set(tx, name, value)

    def instance_delete(self, tx: Translator, name: str) -> None:
        self.instance.instance_delete(tx, name)

    def namespace(self, attempt: Attempt) -> DictVariable:
        return self.instance.namespace(attempt)

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        return InstanceDictVariable(self, tx.attempt) if name == "__dict__" else super().c_attribute(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        object_setattr(tx, self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        object_delattr(tx, self, name)

    def fill(self, cg: Codegen) -> None:
        super().fill(cg)
        self.instance.store_attributes(cg)


@wraps_type(OrderedDict)
def _wrap_ordered_dict(attempt: Attempt, value: OrderedDict[Any, Any], source: Source) -> VariableTracker:
    source.check("type", OrderedDict)
    return OrderedDictVariable(*wrap_dict_items(attempt, value, source), source, value)
