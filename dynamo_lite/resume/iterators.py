"""Iterators that nothing was taken of yet go over a break in parts: what goes on makes them anew, and so traces them.

One that a loop has begun goes over as an object of CPython's: what it has come to is another thing in each turn. The
generator of a context that the break is in waits at the same place in each call: what leaves the context goes in parts.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dynamo_lite.codegen.python_codegen import PyCodegen
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker
from dynamo_lite.variables.core.reachable import referents_of
from dynamo_lite.variables.python.containers.iterator import GeneratorVariable

Recipe = tuple[Any, ...]
"""What makes it, the constants that it takes first, and of each part a recipe or None: as `build_from_recipe` takes."""


class IteratorRecipes:
    """Which of the values that live on over a break can go in parts: those that nobody else has.

    ``holders``: all that lives on, each value as often as there is a place for it."""

    def __init__(self, cg: PyCodegen, holders: Iterable[Any]) -> None:
        self._cg = cg
        self._holders = holders

    @functools.cached_property
    def _places(self) -> Counter[int]:
        attempt = self._cg.attempt
        written = [*attempt.effects.written, *attempt.effects.noted, *(scope.writes for scope in attempt.values.scopes)]
        return _places([*self._holders, *written])

    def recipe(self, value: VariableTracker, waiting: bool = False) -> Recipe | None:
        """None where the value goes as it is. ``waiting``: generators may have begun."""
        found = self._recipe(value, waiting)
        return found if found is not None and _makes_generator(value, found) else None

    def _recipe(self, value: VariableTracker, waiting: bool) -> Recipe | None:
        parts = None if isinstance(value, LazyVariable) or self._cg.has_made(value) else value.creating_call()
        if parts is None or self._places[id(value)] != 1:
            return None
        if isinstance(value, GeneratorVariable) and value.has_begun and not waiting:
            return None
        return (parts.make, parts.constants, *(self._recipe(each, waiting) for each in parts.operands))

    def load(self, value: VariableTracker, recipe: Recipe) -> None:
        """The values that the recipe is of, as a tuple."""
        parts = value.creating_call()
        assert parts is not None
        self._cg.carry(value)
        for each, inner in zip(parts.operands, recipe[2:], strict=True):
            self._cg.load(each) if inner is None else self.load(each, inner)
        self._cg.build("TUPLE", len(parts.operands))


def _makes_generator(value: VariableTracker, recipe: Recipe | None) -> bool:
    """Others can be read ahead where they are found."""
    parts = None if recipe is None else value.creating_call()
    if recipe is None or parts is None:
        return False
    return isinstance(value, GeneratorVariable) or any(map(_makes_generator, parts.operands, recipe[2:]))


def _places(holders: Iterable[Any]) -> Counter[int]:
    """Of all that is reached from these, by id: how many places have it."""
    waiting, found = [*holders], Counter[int]()
    while waiting:
        each = waiting.pop()
        found[id(each)] += 1
        if found[id(each)] == 1:
            waiting += referents_of(each)
    return found
