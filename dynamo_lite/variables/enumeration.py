"""Members of enumerations."""

from __future__ import annotations

import enum
from typing import Any

from ..source import Source
from .attributes import class_lookup
from .base import Args, Kwargs, LazyVariable, VariableTracker, wraps_if
from .lookup import is_written
from .object_methods import OBJECT_METHODS
from .symbols import BINARY, COMPARE, method_of
from .text import has_own_text
from .user_object import PLAIN, UserObjectVariable, payload_base


class EnumVariable(UserObjectVariable):
    """A member of an enumeration: one object for the life of the class."""

    __slots__ = ()
    known_by_identity = True

    def as_constant(self) -> Any:
        return self.value

    def as_fx(self) -> tuple[Any, Any]:
        base = payload_base(self.cls)
        value = self.value if base not in PLAIN else PLAIN[base](self.value)
        return value, value

    def key(self) -> Any:
        return self.value

    def python_value(self, tx: Any) -> Any:
        return self.value

    def cache_key(self, tx: Any) -> Any:
        return VariableTracker.cache_key(self, tx)

    def is_plain(self, tx: Any) -> bool:
        return not has_own_text(tx, self.cls)

    def text(self, tx: Any, name: str) -> VariableTracker:
        return VariableTracker.text(self, tx, name) if self.is_plain(tx) else super().text(tx, name)

    def format(self, tx: Any, spec: VariableTracker) -> VariableTracker:
        return VariableTracker.format(self, tx, spec) if self.is_plain(tx) else super().format(tx, spec)

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name in _OF_MEMBERS and class_lookup(self.cls, name) is class_lookup(enum.Enum, name):
            held = tx.guards.const(self.value).instance_item(f"_{name.strip('_')}_")
            return LazyVariable(tx.attempt, getattr(self.value, name), held).realize()
        return super().getattr(tx, name)

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if other.is_constant() and not is_written(tx.lookup(self.cls, method_of(symbol))):
            return tx.make(tx.fold(COMPARE[symbol], (self.value, other.as_constant())))
        return super().compare(tx, symbol, other)

    def binary(self, tx: Any, symbol: str, other: VariableTracker, reflected: bool = False) -> VariableTracker | None:
        found = super().binary(tx, symbol, other, reflected)
        if found is not None or not other.is_constant():
            return found
        pair = (self.value, other.as_constant())
        return tx.make(tx.fold(BINARY[symbol], pair[::-1] if reflected else pair))

    def truth(self, tx: Any) -> bool:
        return tx.fold(bool, (self.value,))

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(self.value, (str, int)) and name not in OBJECT_METHODS:
            return tx.make(tx.fold(getattr(self.value, name), [tx.python_value(arg) for arg in args]))
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)


_OF_MEMBERS = frozenset({"value", "name", "_value_", "_name_"})


@wraps_if(lambda value: issubclass(type(value), enum.Enum), order=4)
def _wrap_enum(attempt: Any, value: enum.Enum, source: Source) -> VariableTracker:
    source.check("id", value)
    return EnumVariable(value, type(value), source)
