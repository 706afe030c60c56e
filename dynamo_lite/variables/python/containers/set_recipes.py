"""How sets were created and mutated: generated code repeats it, since a set's order depends on its operations.

An operation may read an existing set that the program mutates later. Those operations are repeated in the program's
order, so that each finds the existing sets in the state that it found them in while tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import NotConstant, Planner, Translator, VariableTracker


class Items(NamedTuple):
    """The items of an operand that isn't a set. ``make``: creates a container like the operand of a tuple of them."""

    make: Callable[[tuple[Any, ...]], Any]
    trackers: tuple[VariableTracker, ...]


class Recipe(NamedTuple):
    """A state of a set: ``operation``, a method or function, was called on ``operands``. Without an operation the only
    operand is a `Source` that holds the set, or a frozenset."""

    operation: Any
    operands: tuple[Any, ...]
    """Each a `Recipe` or `Items`."""
    is_mutation: bool = False
    """Whether the operation mutates its first operand, which is the set."""
    needs_existing: bool = False
    """Whether it is a state of a set that existed before the call, or depends on one."""


EMPTY = Recipe(set, ())


class RecordedSet(VariableTracker):
    """A set with the recipe of its state."""

    __slots__ = ()
    recipe: Recipe


class SetOperations(dict[int, tuple[RecordedSet, Recipe]]):
    """The operations of an attempt that depend on pre-existing sets: id of a recipe -> it, and the set that has this
    state."""


def existing(source: Source) -> Recipe:
    """The state of a set at the entry of the frame."""
    return Recipe(None, (source,), needs_existing=source.kind != "const")


def created(operation: Callable[..., Any], *operands: Recipe | Items) -> Recipe:
    return Recipe(operation, operands, False, _need_existing(operands))


def mutated(operation: Callable[..., Any], *operands: Recipe | Items) -> Recipe:
    """The state of the set that is the first operand, after one of its methods."""
    return Recipe(operation, operands, True, _need_existing(operands))


def _need_existing(operands: tuple[Recipe | Items, ...]) -> bool:
    return any(isinstance(each, Recipe) and each.needs_existing for each in operands)


def updated(recipe: Recipe, operand: Recipe | Items, is_read: bool) -> Recipe:
    """The state after ``update`` by an operand. Successive additions of items become one, unless the state between
    them ``is_read``."""
    if recipe.is_mutation and recipe.operation is set.update and not is_read:
        before = recipe.operands[1]
        if isinstance(before, Items) and isinstance(operand, Items) and before.make is operand.make is tuple:
            operand = Items(tuple, (*before.trackers, *operand.trackers))
            recipe = recipe.operands[0]
    return mutated(set.update, recipe, operand)


def record(tx: Translator, target: RecordedSet, before: Recipe | None) -> None:
    """Record an operation that created or mutated a set, if it depends on existing sets. ``before``: the set's state
    before it, None if it was created."""
    recipe = target.recipe
    if recipe.needs_existing:
        log = tx.attempt.state(SetOperations)
        if before is not None and recipe.operands[0] is not before:  # it is one with the operation before
            log.pop(id(before), None)
        log[id(recipe)] = target, recipe
        if target.source is None:
            tx.attempt.provenance.shared(target)
        else:
            tx.attempt.provenance.created(target)


def unrolled(recipe: Recipe) -> tuple[Recipe, list[Recipe]]:
    """The recipe of the set's first state, and the mutations since, in order."""
    changes: list[Recipe] = []
    while recipe.is_mutation:
        changes.append(recipe)
        recipe = recipe.operands[0]
    changes.reverse()
    return recipe, changes


def parts_of(recipe: Recipe | Items) -> Iterator[VariableTracker]:
    """What code that repeats a recipe loads."""
    if isinstance(recipe, Items):
        yield from recipe.trackers
    elif recipe.operation is not None:
        for each in recipe.operands:
            yield from parts_of(each)


class SetStates:
    """The states that sets have at this point of the plan. Its methods are handed the planner, whose part it is: a
    reference back would keep arguments alive in a cycle."""

    def __init__(self) -> None:
        self._is_replayed = False
        self._owners: dict[int, RecordedSet] = {}
        """id of a recipe -> the set that has or had this state."""
        self._current: dict[RecordedSet, Recipe] = {}
        self._ordered: set[RecordedSet] = set()
        """Sets that are created or mutated in the program's order."""

    def replay(self, plan: Planner) -> None:
        """Plan the operations on existing sets, and those that read such a set which the program mutated later, in the
        program's order."""
        if self._is_replayed:
            return
        self._is_replayed = True
        operations = plan.attempt.state(SetOperations).values()
        for target, _ in operations:
            if target.source is not None:
                self._advance(target, unrolled(target.recipe)[0])
        ordered: list[tuple[RecordedSet, Recipe]] = []
        states = set(self._owners)
        for target, recipe in operations:
            if not states.isdisjoint(map(id, recipe.operands)):
                states.add(id(recipe))
                ordered.append((target, recipe))
        self._ordered.update(target for target, _ in ordered)
        for target, recipe in ordered:
            self._repeat(plan, target, recipe)

    def _advance(self, target: RecordedSet, recipe: Recipe) -> None:
        self._owners[id(recipe)] = target
        self._current[target] = recipe

    def _repeat(self, plan: Planner, target: RecordedSet, recipe: Recipe) -> None:
        is_made = target.source is not None or plan.has_created(target)
        if not recipe.is_mutation:
            plan.create(target, self._first_value(plan, recipe), _leave_empty)
        else:
            before = recipe.operands[0]
            made = plan.value(target) if is_made else plan.create(target, self.value(plan, before), _leave_empty)
            self._mutate(plan, made, recipe)
        self._advance(target, recipe)

    def create(self, plan: Planner, target: RecordedSet) -> Value:
        """A new set in its last state."""
        first = unrolled(target.recipe)[0]
        if target in self._ordered:
            raise NotConstant("a set that is created in the program's order")
        if first is EMPTY:
            return plan.create(target, plan.build("SET", []), partial(self.fill, plan, target))
        return self.value(plan, target.recipe)

    def fill(self, plan: Planner, target: RecordedSet, new: Value) -> None:
        """Repeat the mutations of a set on a new, empty one."""
        if target in self._ordered:
            raise NotConstant("a set that is created in the program's order")
        for change in unrolled(target.recipe)[1]:
            self._mutate(plan, new, change)

    def value(self, plan: Planner, recipe: Recipe | Items) -> Value:
        """A set in this state, or a container of items."""
        if isinstance(recipe, Items):
            return plan.call(recipe.make, plan.tuple_of(recipe.trackers))
        owner = self._owners.get(id(recipe))
        if owner is not None and self._current[owner] is recipe:
            return plan.value(owner)
        first, changes = unrolled(recipe)
        if first.operation is None and first.needs_existing and (changes or owner is not None):
            raise NotConstant("a set that was mutated since")
        new = self._first_value(plan, first)
        if changes:
            new = plan.keep(new)
        for change in changes:
            self._mutate(plan, new, change)
        return new

    def _first_value(self, plan: Planner, first: Recipe) -> Value:
        if first.operation is not None:
            return plan.call(first.operation, *(self.value(plan, each) for each in first.operands))
        existing = first.operands[0]
        return plan.reload(existing) if isinstance(existing, Source) else plan.constant(existing)

    def _mutate(self, plan: Planner, target: Value, change: Recipe) -> None:
        plan.do(change.operation, target, *(self.value(plan, each) for each in change.operands[1:]))


def _leave_empty(new: Value) -> None:
    """The operations that follow fill it."""
