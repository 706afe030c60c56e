"""Iterators that survive a graph break as the call that creates them, so that the resume function can trace them.

A generator that no item was taken from is recreated by the resume function, which then traces its frame. One that a
loop has advanced survives as an object instead, since its state differs at each turn. The generator of a context
manager, around the break, is suspended at the same ``yield`` in each call: its bound ``__exit__`` is recreated.

Programs that need it: a ``with`` block of a ``@contextlib.contextmanager`` function around a ``print`` or an ``item()``
(``parametrize.cached()``, ``ema_scope()`` of latent diffusion), and a generator expression that is consumed after one.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dynamo_lite.plan.rows import Build, Value
from dynamo_lite.planner.planner import Planner
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.reachable import references
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.containers.iterators import GeneratorVariable

Recipe = tuple[Any, ...]
"""A callable, the constants it takes first, and for each further argument a recipe or None: see `build_from_recipe`."""


class IteratorRecipes:
    """Decides which live values are recreated after a break: generators, and what holds them, without aliases.

    ``holders``: everything live across the break, each value as often as it is referred to."""

    def __init__(self, plan: Planner, holders: Iterable[object]) -> None:
        self._plan = plan
        self._holders = holders

    @functools.cached_property
    def _references(self) -> Counter[int]:
        """How many references there are to each object that is live after the break, by id."""
        attempt = self._plan.attempt
        written = [*attempt.effects.written, *attempt.effects.noted, *(scope.writes for scope in attempt.values.scopes)]
        return Counter(map(id, references([*self._holders, *written])))

    def recipe(self, value: VariableTracker, waiting: bool = False) -> Recipe | None:
        """How to recreate a value; None if it survives as an object: what creates no generator is traced as one too.
        ``waiting``: generators may have started."""
        call = None if isinstance(value, LazyVariable) or self._plan.has_created(value) else value.creating_call()
        if call is None or self._references[id(value)] != 1:
            return None
        if isinstance(value, GeneratorVariable) and value.frame.started and not waiting:
            return None
        operands = [self.recipe(each, waiting) for each in call.operands]
        if not isinstance(value, GeneratorVariable) and all(each is None for each in operands):
            return None
        return (call.make, call.constants, *operands)

    def operands(self, value: VariableTracker, recipe: Recipe) -> Value:
        """A tuple of the values that the recipe takes."""
        call = value.creating_call()
        assert call is not None
        self._plan.note_recreated(value)
        pairs = zip(call.operands, recipe[2:], strict=True)
        parts = [self._plan.value(each) if inner is None else self.operands(each, inner) for each, inner in pairs]
        return Build("TUPLE", tuple(parts))
