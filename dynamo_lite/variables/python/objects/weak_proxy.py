"""``weakref.proxy``: what stands for an object without keeping it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.registry import models

from .weak_reference import WeakReferenceVariable, make_reference


class WeakProxyVariable(WeakReferenceVariable):
    """What is done with it is done with its referent, as far as that is modelled."""

    __slots__ = ()
    make = weakref.proxy

    def python_type(self) -> type:
        if self.of is None:
            return type(self.value)
        has_call = class_lookup(self.of.python_type(), "__call__") is not MISSING
        return weakref.CallableProxyType if has_call else weakref.ProxyType

    def identity(self) -> Any:
        """Those that were found don't say whether they have callbacks, of which there are as many as one likes."""
        if self.of is None:
            self._refuse("`is`")
        return (self.make, self.of)

    def key(self) -> Any:
        self._refuse("a key")

    def _refuse(self, operation: str) -> NoReturn:
        unsupported(UnsupportedOperation(operation, "a weak proxy"))

    def _alive(self, tx: Any) -> VariableTracker:
        found = self.referent(tx).realize()
        if tx.is_none(found):
            self._refuse("an operation on what has died,")
        return found

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        return self._alive(tx).getattr(tx, name)

    def setattr(self, tx: Any, name: str, value: VariableTracker) -> None:
        self._alive(tx).setattr(tx, name, value)

    def delattr(self, tx: Any, name: str) -> None:
        self._alive(tx).delattr(tx, name)

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.python_type() is weakref.ProxyType:
            self._refuse("a call")
        return tx.call(self._alive(tx), args, kwargs)  # type: ignore[no-any-return]

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        self._refuse(f"{name}()")

    def getitem(self, tx: Any, key: VariableTracker) -> VariableTracker:
        return tx.getitem(self._alive(tx), key)  # type: ignore[no-any-return]

    def setitem(self, tx: Any, key: VariableTracker, value: VariableTracker) -> None:
        self._alive(tx).setitem(tx, key, value)

    def delitem(self, tx: Any, key: VariableTracker) -> None:
        self._alive(tx).delitem(tx, key)

    def contains(self, tx: Any, item: VariableTracker) -> bool:
        return self._alive(tx).contains(tx, item)

    def iterate(self, tx: Any) -> VariableTracker:
        return tx.iterate(self._alive(tx))  # type: ignore[no-any-return]

    def each(self, tx: Any) -> Iterator[VariableTracker]:
        return self._alive(tx).each(tx)

    def length(self, tx: Any) -> Any:
        return self._alive(tx).length(tx)

    def truth(self, tx: Any) -> bool:
        return tx.truth(self._alive(tx))  # type: ignore[no-any-return]

    def text(self, tx: Any, name: str) -> VariableTracker:
        if name != "__str__":
            self._refuse("repr()")
        return tx.string(self._alive(tx), name)  # type: ignore[no-any-return]

    def binary(self, tx: Any, symbol: str, other: VariableTracker, reflected: bool = False) -> VariableTracker | None:
        self._refuse(f"`{symbol}`")

    def unary(self, tx: Any, function: Any) -> VariableTracker | None:
        self._refuse(function.__name__)

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        self._refuse(f"`{symbol}`")


@models(weakref.proxy)
def _proxy(tx: Any, of: VariableTracker) -> VariableTracker:
    tx.lookup(of.python_type(), "__call__")  # by which its type is chosen
    return make_reference(tx, WeakProxyVariable, of)


@wraps_type(weakref.ProxyType, weakref.CallableProxyType)
def _wrap_proxy(attempt: Any, value: Any, source: Source) -> VariableTracker:
    if source.kind == "const":
        return attempt.opaque(value, source, "a weak proxy")
    source.check("type", type(value))
    return WeakProxyVariable(value, source, attempt=attempt)
