"""``collections.deque``, with the methods that queues and stacks use."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.class_lookup import class_lookup
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_text import concatenated
from dynamo_lite.variables.core.formatting import reprs
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator

from .sequences import MutableSequence, SequenceVariable, UnmutatedIterator, wrap_items


class DequeVariable(MutableSequence):
    """A deque. ``maxlen``: the largest number of items, None if there is no limit."""

    __slots__ = ("maxlen",)
    kind = deque
    out_of_range = "deque index out of range"

    def __init__(self, items: list[VariableTracker], source: Source | None = None, maxlen: int | None = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen

    def as_fx(self) -> tuple[Any, Any]:
        unsupported(UnsupportedValue(self.describe(), "an operator can't take it as an argument"))

    def iterate(self, tx: Translator) -> VariableTracker:
        return UnmutatedIterator(tx, self, self.items, iter)

    def reverse(self, tx: Translator) -> VariableTracker:
        return UnmutatedIterator(tx, self, self.items[::-1], reversed)

    def _build(self, values: list[Any]) -> Any:
        return deque(values, self.maxlen)

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        return DequeVariable(items, None, self.maxlen)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return ConstantVariable(self.maxlen) if name == "maxlen" else super().getattr(tx, name)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        found = super().binary(tx, symbol, other, reflected)
        if isinstance(found, DequeVariable):
            found._trim(left=True)
        return found

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        found = super().inplace(tx, symbol, other)
        self._trim(left=True)
        return found

    def method___init__(
        self, tx: Translator, iterable: VariableTracker | None = None, maxlen: VariableTracker | None = None
    ) -> VariableTracker:
        limit = None if maxlen is None or tx.is_none(maxlen) else tx.index_value(maxlen, "an integer is required")
        if limit is not None and limit < 0:
            tx.raise_error(ValueError, "maxlen must be non-negative")
        self._record_mutation(tx)
        self.maxlen = limit
        self.items.clear()
        return ConstantVariable(None) if iterable is None else self.method_extend(tx, iterable)

    def _add(self, items: list[VariableTracker]) -> None:
        super()._add(items)
        self._trim(left=True)

    def method_appendleft(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        self._record_mutation(tx)
        self.items.insert(0, item)
        return self._trim(left=False)

    def method_insert(self, tx: Translator, at: VariableTracker, item: VariableTracker) -> VariableTracker:
        if len(self.items) == self.maxlen:
            tx.raise_error(IndexError, "deque already at its maximum size")
        return super().method_insert(tx, at, item)

    def method_rotate(self, tx: Translator, n: VariableTracker | None = None) -> VariableTracker:
        rotated = deque(self.items)
        rotated.rotate(1 if n is None else tx.index_value(n))
        self._record_mutation(tx)
        self.items[:] = rotated
        return ConstantVariable(None)

    def method_extendleft(self, tx: Translator, items: VariableTracker) -> VariableTracker:
        for item in list(items.each(tx)) if items.builtin_part() is self else items.each(tx):
            self.method_appendleft(tx, item)
        return ConstantVariable(None)

    def _trim(self, left: bool) -> VariableTracker:
        """Drop items from one end until ``maxlen`` holds; returns None's tracker."""
        while self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0 if left else -1]
        return ConstantVariable(None)

    def method_pop(self, tx: Translator) -> VariableTracker:  # type: ignore[override]
        return self._pop(tx, -1)

    def method_popleft(self, tx: Translator) -> VariableTracker:
        return self._pop(tx, 0)

    def _pop(self, tx: Translator, at: int) -> VariableTracker:
        if not self.items:
            tx.raise_error(IndexError, "pop from an empty deque")
        self._record_mutation(tx)
        return self.items.pop(at)

    def _not_found(self, tx: Translator, item: VariableTracker, method: str = "index") -> NoReturn:
        if sys.version_info >= (3, 14):
            tx.raise_error(ValueError, f"deque.{method}(x): x not in deque")
        tx.raise_with(ValueError, [concatenated(tx, [*reprs(tx, [item]), " is not in deque"])])

    def method___getitem__(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self.getitem(tx, ConstantVariable(tx.index_value(key)))

    def _index(self, tx: Translator, key: VariableTracker) -> int | slice:
        return tx.index_value(key, "sequence index must be integer, not '{}'")

    def fill_instance(self, cg: Codegen) -> None:
        cg.call_with_top(deque.__init__, [lambda: cg.load_tuple(self.items), lambda: cg.load_const(self.maxlen)])

    def reconstruct(self, cg: Codegen) -> None:
        cg.make_then_fill(self, lambda: cg.call(deque, []), self.fill_instance)

    def replay(self, cg: Codegen) -> None:
        cg.load_source(self.source)
        self.fill_instance(cg)
        cg.pop_top()


@wraps_type(deque)
def _wrap_deque(attempt: Attempt, value: deque[object], source: Source) -> VariableTracker:
    source.check("type", deque)
    found = existing_deque(attempt, value, source)
    assert found is not None
    return found


def existing_deque(attempt: Attempt, value: deque[object], source: Source) -> DequeVariable | None:
    """The items of a deque, or of an instance of a derived class; None if the class overrides ``maxlen``."""
    if class_lookup(type(value), "maxlen") is not deque.__dict__["maxlen"]:
        return None
    source.child("c_attr", "maxlen").check("equals", value.maxlen)
    items = wrap_items(attempt, [*deque.__iter__(value)], source, "deque_item")
    return DequeVariable(items, source, value.maxlen)
