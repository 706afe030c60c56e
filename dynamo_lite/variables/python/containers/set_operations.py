"""How sets were created and mutated: generated code repeats it, since a set's order depends on its operations.

A state of a set is how many operations made it. Code that comes to change a state first repeats the operations of other
sets that read it, so each finds its operands in the state in which the program had them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.base import NotConstant, Planner, VariableTracker
from dynamo_lite.variables.core.base_kinds import ContainerVariable


class Items(NamedTuple):
    """The items of an operand that isn't a set. ``make``: creates a container like the operand of a tuple of them."""

    make: Callable[[tuple[Any, ...]], Any]
    trackers: list[VariableTracker]


class State(NamedTuple):
    """A set after its first ``length`` operations."""

    of: RecordedSet
    length: int


Operand: TypeAlias = State | Items | VariableTracker | frozenset[Any]
"""A set, an iterable, an item, or a constant."""


class Operation(NamedTuple):
    """A call of ``function``, which creates a set, or mutates the set that is its first argument."""

    function: Callable[..., Any]
    operands: tuple[Operand, ...]


class RecordedSet(ContainerVariable):
    """A set with its ``operations``. The first one creates it, unless it existed before the call. ``readers``: how many
    operations it had when another set's operation read it, and the state that this operation led to."""

    __slots__ = ("operations", "readers")
    operations: list[Operation]
    readers: list[tuple[int, State]]

    @property
    def state(self) -> State:
        return State(self, len(self.operations))

    def record(self, function: Callable[..., Any], *operands: Operand) -> None:
        """Successive additions of items become one, unless the state between them was read."""
        added, before = _added_items(function, operands), None
        if added is not None and self.operations and not any(each == len(self.operations) for each, _ in self.readers):
            before = _added_items(*self.operations[-1])
        if added is not None and before is not None:
            before.trackers.extend(added.trackers)
            self.operations[-1] = Operation(function, (before,))  # another object, as the set is another one
            return
        self.operations.append(Operation(function, operands))
        for each in operands:
            if isinstance(each, State) and each.of is not self:
                each.of.readers.append((each.length, self.state))

    def parts(self) -> Iterator[VariableTracker]:
        """What code that repeats the operations loads."""
        for operation in self.operations:
            for each in operation.operands:
                if isinstance(each, Items):
                    yield from each.trackers
                elif not isinstance(each, frozenset):
                    yield each.of if isinstance(each, State) else each


def _added_items(function: Callable[..., Any], operands: tuple[Operand, ...]) -> Items | None:
    first = operands[0] if function is set.update else None
    return first if isinstance(first, Items) and first.make is tuple else None


class RepeatedOperations:
    """How many operations of each set are planned. Its methods are handed the planner, whose part it is: a reference
    back would keep arguments alive in a cycle."""

    def __init__(self) -> None:
        self._done: dict[RecordedSet, int] = {}
        self._is_repeating = False

    def repeat_all(self, plan: Planner, target: RecordedSet) -> None:
        """Plan all operations on a set, and on those of which some were needed for it."""
        self._repeat(plan, target.state)
        if not self._is_repeating:
            self._is_repeating = True
            while rest := [each for each, done in self._done.items() if done < each.state.length]:
                self._repeat(plan, rest[0].state)
            self._is_repeating = False

    def _repeat(self, plan: Planner, state: State) -> None:
        """Plan the operations that lead to a state, if they aren't planned yet."""
        target = state.of
        while (at := self._done.get(target, 0)) < state.length:
            for length, reader in target.readers:
                if length == at:
                    self._repeat(plan, reader)
            self._repeat_next(plan, target, at)

    def _repeat_next(self, plan: Planner, target: RecordedSet, at: int) -> None:
        is_created = at == 0 and target.source is None
        if is_created and hasattr(target, "instance"):
            plan.value(target)  # by `create_instance`
        function, operands = target.operations[at]
        parts = [self._part(plan, each) for each in operands]
        if self._done.get(target, 0) != at:  # what it is made of refers to it, and created it meanwhile
            return
        if not all(self._is_at(each) for each in operands):
            raise NotConstant("a set of objects that refer to it")
        self._done[target] = at + 1
        if not is_created:
            plan.do(function, plan.value(target), *parts)
        else:
            new = plan.call(function, *parts) if parts else plan.build("SET", [])
            plan.create(target, new, _leave_empty)

    def create_instance(self, plan: Planner, target: RecordedSet, base: type, cls: type) -> Value:
        """A new instance of a derived class, in the first state of its items."""
        self._done[target] = 1
        parts = [self._part(plan, each) for each in target.operations[0].operands]
        return plan.call(base.__new__, plan.constant(cls), *parts)

    def _part(self, plan: Planner, operand: Operand) -> Value:
        if isinstance(operand, Items):
            return plan.call(operand.make, plan.tuple_of(operand.trackers))
        if isinstance(operand, State):
            self._repeat(plan, operand)
            return plan.value(operand.of)
        return plan.value(operand) if isinstance(operand, VariableTracker) else plan.constant(operand)

    def _is_at(self, operand: Operand) -> bool:
        return not isinstance(operand, State) or self._done.get(operand.of, 0) == operand.length


def _leave_empty(new: Value) -> None:
    """The operations that follow fill it."""
