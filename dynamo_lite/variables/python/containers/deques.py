"""Deques and their iterators, which raise if the deque is mutated."""

from __future__ import annotations

from collections import deque
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import NotConstant, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Load, Translator

from .sequences import MutableSequence, SequenceIterator, SequenceVariable, wrap_items


def _remove_error() -> str:
    try:
        deque[None]().remove(None)
    except ValueError as error:
        return str(error)
    return ""


_NOT_IN_DEQUE = _remove_error()
"""The message of ``deque.remove``; some versions have the item in it."""


class DequeVariable(MutableSequence):
    """A deque. Assigning an item doesn't count as a mutation for its iterators."""

    __slots__ = ("maxlen", "version")
    kind = deque
    out_of_range = "deque index out of range"

    def __init__(self, items: list[VariableTracker], source: Source | None = None, maxlen: int | None = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen
        self.version = 0
        """Counts the mutations that make an iterator raise."""

    def _record_mutation(self, tx: Translator) -> None:
        super()._record_mutation(tx)
        self.version += 1

    def as_fx(self) -> tuple[Any, Any]:
        unsupported(UnsupportedValue(self.describe(), "an operator can't take it as an argument"))

    def iterate(self, tx: Translator) -> VariableTracker:
        return DequeIterator(self)

    def reverse(self, tx: Translator) -> VariableTracker:
        return DequeIterator(self, is_reversed=True)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        version = self.version
        super().setitem(tx, key, value)
        self.version = version

    def _build(self, values: list[Any]) -> Any:
        return deque(values, self.maxlen)

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        return DequeVariable(items, None, self.maxlen)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return ConstantVariable(self.maxlen) if name == "maxlen" else super().getattr(tx, name)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        found = super().binary(tx, symbol, other, reflected)
        if isinstance(found, DequeVariable):
            found._trim(left=True)
        return found

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        found = super().inplace(tx, symbol, other)
        self._trim(left=True)
        return found

    def _not_found(self, tx: Translator, item: VariableTracker) -> NoReturn:
        tx.raise_error(ValueError, item.realize().text(tx, "__repr__").realize().as_constant() + " is not in deque")

    def method_remove(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        if not self._remove(tx, item):
            text = item.realize().text(tx, "__repr__").realize().as_constant()
            tx.raise_error(ValueError, _NOT_IN_DEQUE.replace("None", text))
        return ConstantVariable(None)

    def method_pop(self, tx: Translator, at: VariableTracker | None = None) -> VariableTracker:
        if at is not None:
            tx.raise_error(TypeError, "deque.pop() takes no arguments (1 given)")
        if not self.items:
            tx.raise_error(IndexError, "pop from an empty deque")
        return super().method_pop(tx)

    def method_insert(self, tx: Translator, at: VariableTracker, item: VariableTracker) -> VariableTracker:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            tx.raise_error(IndexError, "deque already at its maximum size")
        return super().method_insert(tx, at, item)

    def method_extendleft(self, tx: Translator, items: VariableTracker) -> VariableTracker:
        for item in items.elements(tx):
            self.method_appendleft(tx, item)
        return ConstantVariable(None)

    def _trim(self, left: bool) -> VariableTracker:
        """Drop items from one end until ``maxlen`` holds; returns None's tracker."""
        while self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0 if left else -1]
        return ConstantVariable(None)

    def method_append(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        super().method_append(tx, item)
        return self._trim(left=True)

    def method_extend(self, tx: Translator, items: VariableTracker) -> VariableTracker:
        super().method_extend(tx, items)
        return self._trim(left=True)

    def method_appendleft(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        self._record_mutation(tx)
        self.items.insert(0, item)
        return self._trim(left=False)

    def method_popleft(self, tx: Translator) -> VariableTracker:
        if not self.items:
            tx.raise_error(IndexError, "pop from an empty deque")
        self._record_mutation(tx)
        return self.items.pop(0)

    def method_rotate(self, tx: Translator, by: VariableTracker | None = None) -> VariableTracker:
        steps = 1 if by is None else tx.index_value(by)
        if len(self.items) > 1:
            self._record_mutation(tx)
            steps %= len(self.items)
            self.items[:] = self.items[-steps:] + self.items[:-steps] if steps else self.items
        return ConstantVariable(None)

    def _index(self, tx: Translator, key: VariableTracker) -> int | slice:
        return tx.index_value(key, "sequence index must be integer, not '{}'")

    def reconstruct(self, cg: Codegen) -> None:
        def new() -> None:
            cg.call(deque, [lambda: cg.build("TUPLE", 0), lambda: cg.load_const(self.maxlen)])

        cg.make_then_fill(self, new, self._fill)

    def _fill(self, cg: Codegen) -> None:
        cg.call_with_top(deque.extend, [self._load_items(cg)])

    def _load_items(self, cg: Codegen) -> Load:
        return lambda: cg.load_tuple(self.items)

    def replay(self, cg: Codegen) -> None:
        cg.call(_refill_deque, [lambda: cg.load_source(self.source), self._load_items(cg)])
        cg.pop_top()


def _refill_deque(target: deque[Any], items: tuple[Any, ...]) -> None:
    target.clear()
    target.extend(items)


class DequeIterator(SequenceIterator):
    """``iter()`` or ``reversed()`` of a deque. ``at``: how many items were taken."""

    __slots__ = ("version", "is_reversed")

    def __init__(self, of: DequeVariable, is_reversed: bool = False) -> None:
        super().__init__(of)
        self.version = of.version
        self.is_reversed = is_reversed

    def python_type(self) -> type:
        return type(reversed(deque())) if self.is_reversed else type(iter(deque()))

    def next(self, tx: Translator) -> VariableTracker:
        of = self.of
        if isinstance(of, DequeVariable) and of.version != self.version:
            self.of = None
            tx.raise_error(RuntimeError, "deque mutated during iteration")
        item = super().next(tx)
        return of.items[-self.at].realize() if self.is_reversed and of is not None else item

    def reconstruct(self, cg: Codegen) -> None:
        of = self.of
        if isinstance(of, DequeVariable) and of.version != self.version:
            raise NotConstant("an iterator over a deque that was mutated since")
        if of is None:
            cg.call(self.python_type(), [lambda: cg.call(deque, [])])
        else:
            cg.call(self.python_type(), [lambda: cg.load(of), lambda: cg.load_const(self.at)])


@wraps_type(deque)
def _wrap_deque(attempt: Attempt, value: deque[Any], source: Source) -> VariableTracker:
    source.check("type", deque)
    source.child("c_attr", "maxlen").check("equals", value.maxlen)
    return DequeVariable(wrap_items(attempt, value, source, "deque_item"), source, value.maxlen)
