"""``collections.deque``, with the methods that queues and stacks use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Planner, Translator, VariableTracker
from dynamo_lite.variables.core.class_lookup import class_lookup
from dynamo_lite.variables.core.constant import ConstantVariable

from .sequences import MutableSequence, SequenceVariable, wrap_items


class DequeVariable(MutableSequence):
    """A deque, whose trackers are in a real one of its length limit."""

    __slots__ = ()
    kind = real_kind = deque
    items: Any
    as_fx = VariableTracker.as_fx

    def __init__(
        self, items: Iterable[VariableTracker], source: Source | None = None, maxlen: int | None = None
    ) -> None:
        super().__init__(deque(items, maxlen), source)  # type: ignore[arg-type]

    def _build(self, values: list[Any]) -> Any:
        return deque(values, self.items.maxlen)

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        return DequeVariable(items, None, self.items.maxlen)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return ConstantVariable(self.items.maxlen) if name == "maxlen" else super().getattr(tx, name)

    def method___init__(
        self, tx: Translator, iterable: VariableTracker | None = None, maxlen: VariableTracker | None = None
    ) -> VariableTracker:
        limit = None
        if maxlen is not None and not tx.is_none(maxlen):
            if not issubclass(maxlen.python_type(), int):  # CPython doesn't call its __index__
                tx.raise_error(TypeError, "an integer is required")
            limit = tx.index_value(maxlen)
        self._record_mutation(tx)
        tx.evaluate(deque.__init__, (self.items, (), limit))
        return ConstantVariable(None) if iterable is None else self.method_extend(tx, iterable)

    def method_extendleft(self, tx: Translator, items: VariableTracker) -> VariableTracker:
        for item in list(items.each(tx)) if items.builtin_part() is self else items.each(tx):
            self.run(tx, "appendleft", item)
        return ConstantVariable(None)

    def fill_instance(self, plan: Planner, instance: Value) -> None:
        plan.do(deque.__init__, instance, plan.tuple_of(self.items), plan.constant(self.items.maxlen))

    def construct(self, plan: Planner) -> Value:
        return plan.create(self, plan.call(deque), partial(self.fill_instance, plan))

    def replay(self, plan: Planner) -> None:
        self.fill_instance(plan, plan.reload(self.source))


def existing_deque(attempt: Attempt, value: deque[object], source: Source) -> DequeVariable | None:
    """The items of a deque, or of an instance of a derived class; None if the class overrides ``maxlen``."""
    if class_lookup(type(value), "maxlen") is not deque.__dict__["maxlen"]:
        return None
    source.child("c_attr", "maxlen").check("equals", value.maxlen)
    items = wrap_items(attempt, [*deque.__iter__(value)], source, "deque_item")
    return DequeVariable(items, source, value.maxlen)
