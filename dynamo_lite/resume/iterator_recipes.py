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

from dynamo_lite.plan.rows import Build, Call, Constant, Item, Value
from dynamo_lite.planner.planner import Planner
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.reachable import references
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.containers.iterators import GeneratorVariable


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

    def recipe(self, value: VariableTracker, operands: Value, waiting: bool = False) -> Call | None:
        """How the resume function recreates a value of a tuple of operands; None if it survives as an object: what
        creates no generator is traced as one too. ``waiting``: generators may have started."""
        call = None if isinstance(value, LazyVariable) or self._plan.has_created(value) else value.creating_call()
        if call is None or self._references[id(value)] != 1:
            return None
        if isinstance(value, GeneratorVariable) and value.frame.started and not waiting:
            return None
        items = [Item(operands, Constant(at)) for at in range(len(call.operands))]
        parts = [self.recipe(each, item, waiting) or item for each, item in zip(call.operands, items)]
        if not isinstance(value, GeneratorVariable) and parts == items:
            return None
        return Call(Constant(call.make), (*map(Constant, call.constants), *parts))

    def operands(self, value: VariableTracker, recipe: Call) -> Value:
        """The tuple of operands that the recipe takes."""
        call = value.creating_call()
        assert call is not None
        self._plan.note_recreated(value)
        pairs = zip(call.operands, recipe.args[len(call.constants) :], strict=True)
        parts = [
            self.operands(each, part) if isinstance(part, Call) else self._plan.value(each) for each, part in pairs
        ]
        return Build("TUPLE", tuple(parts))
