"""Iterators of builtins (enumerate, zip, map, filter) and generators.

Those of builtins are classes and not polyfills: each is as short as a polyfill, often used, continues after an
exception, and generated code can create it in the middle of an iteration.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from dynamo_lite.bytecode import enclosing_handlers, roles
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.base import (
    CreatingCall,
    Exhausted,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    remaining_items,
)
from dynamo_lite.variables.core.base_kinds import IteratorVariable
from dynamo_lite.variables.core.class_lookup import MISSING
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.polyfills.recreation import advance_iterator, strict_map, strict_zip

from .sequences import TupleVariable

_CLOSE_GIVES_RESULT = sys.version_info >= (3, 13)
"""Whether a generator's ``close`` returns what the generator then returns."""


class GetitemIterator(IteratorVariable):
    """``iter`` or ``reversed`` of an object by its ``__getitem__``. ``of``: None once it is exhausted; ``at``: the next
    index."""

    __slots__ = ("of", "at", "step")

    def __init__(self, of: VariableTracker, at: int = 0, step: int = 1) -> None:
        self.source = None
        self.of: VariableTracker | None = of
        self.at = at
        self.step = step

    def python_type(self) -> type:
        return reversed if self.step < 0 else _BY_GETITEM

    def next(self, tx: Translator) -> VariableTracker:
        of, self.of = self.of, self.of if self.step > 0 else None
        if of is None or self.at < 0:
            raise Exhausted
        try:
            item = of.getitem(tx, ConstantVariable(self.at)).realize()
        except ObservedException as observed:
            if not issubclass(observed.error.python_type(), (IndexError, StopIteration)):
                raise
            self.of = None
            raise Exhausted from None
        self.of = of
        self.at += self.step
        return item

    def each_with_length_hint(self, tx: Translator) -> Iterator[VariableTracker]:
        if self.of is not None and tx.lookup(self.of.python_type(), "__len__") is not MISSING:
            tx.length(self.of)  # for its side effects
        return self.each(tx)

    def construct(self, plan: Planner) -> Value:
        of = self.of
        if of is None or self.step < 0:
            raise NotConstant("an iterator whose creation calls __len__")
        return plan.call(_iterate_at, of, plan.constant(self.at))


_BY_GETITEM = type(iter(type("", (), {"__getitem__": None})()))


def _iterate_at(of: Any, at: int) -> Iterator[Any]:
    iterator = iter(of)
    iterator.__setstate__(at)
    return iterator


class EnumerateVariable(IteratorVariable):
    """``enumerate``. ``of``: the iterator; ``count``: the next number."""

    __slots__ = ("of", "count")
    exact_type = enumerate

    def __init__(self, of: VariableTracker, count: int) -> None:
        self.source = None
        self.of = of
        self.count = count

    def next(self, tx: Translator) -> VariableTracker:
        item = self.of.next(tx)
        self.count += 1
        return TupleVariable([ConstantVariable(self.count - 1), item])

    def construct(self, plan: Planner) -> Value:
        return plan.call(enumerate, self.of, plan.constant(self.count))


def _check_strict(tx: Translator, name: str, iterators: list[VariableTracker], at: int) -> None:
    """With ``strict=True`` the iterator ``at`` is exhausted, so all must be."""
    rest = enumerate(iterators[1:], 1)
    other = at or next((n for n, each in rest if next(remaining_items(tx, each), None) is not None), 0)
    if other:
        before = "argument 1" if other == 1 else f"arguments 1-{other}"
        longer = "shorter" if at else "longer"
        tx.raise_error(ValueError, f"{name}() argument {other + 1} is {longer} than {before}")


class MapVariable(IteratorVariable):
    """``map``, or ``zip``, whose ``function`` is None. ``of``: the iterators."""

    __slots__ = ("function", "of", "strict", "started")

    def __init__(self, function: VariableTracker | None, of: list[VariableTracker], strict: bool) -> None:
        self.source = None
        self.function = function
        self.of = of
        self.strict = strict
        self.started = False

    def python_type(self) -> type:
        return zip if self.function is None else map

    def next(self, tx: Translator) -> VariableTracker:
        if not self.of:
            raise Exhausted
        self.started = True
        items: list[VariableTracker] = []
        for at, each in enumerate(self.of):
            try:
                items.append(each.next(tx))
            except Exhausted:
                if self.strict:
                    _check_strict(tx, self.python_type().__name__, self.of, at)
                raise Exhausted from None
        return TupleVariable(items) if self.function is None else tx.call(self.function, items, {}).realize()

    def creating_call(self) -> CreatingCall | None:
        return None if self.started or self.function is not None else CreatingCall(self._zip, (), self.of)

    @property
    def _zip(self) -> Callable[..., object]:
        return strict_zip if self.strict else zip

    def construct(self, plan: Planner) -> Value:
        if self.function is None:
            return plan.call(self._zip, *self.of)
        return plan.call(strict_map if self.strict else map, self.function, *self.of)


class FilterVariable(IteratorVariable):
    """``filter``. ``of``: the iterator."""

    __slots__ = ("function", "of")
    exact_type = filter

    def __init__(self, function: VariableTracker, of: VariableTracker) -> None:
        self.source = None
        self.function = function
        self.of = of

    def next(self, tx: Translator) -> VariableTracker:
        while True:
            item = self.of.next(tx)
            kept = item if tx.is_none(self.function) else tx.call(self.function, [item], {})
            if tx.truth(kept):
                return item

    def construct(self, plan: Planner) -> Value:
        return plan.call(filter, self.function, self.of)


class CallIterator(IteratorVariable):
    """``iter(function, sentinel)``. ``function``: None once it is exhausted."""

    __slots__ = ("function", "sentinel")
    exact_type = type(iter(int, 0))

    def __init__(self, function: VariableTracker, sentinel: VariableTracker) -> None:
        self.source = None
        self.function: VariableTracker | None = function
        self.sentinel = sentinel

    def next(self, tx: Translator) -> VariableTracker:
        if self.function is None:
            raise Exhausted
        try:
            item = tx.call(self.function, [], {}).realize()
        except ObservedException as observed:
            if not issubclass(observed.error.python_type(), StopIteration):
                raise
            item = self.sentinel
        if tx.same_or_equal(self.sentinel, item):
            self.function = None
            raise Exhausted
        return item

    def construct(self, plan: Planner) -> Value:
        if self.function is None:
            new = plan.call(iter, plan.constant(int), plan.constant(0))
            return plan.call(advance_iterator, new, plan.constant(1))
        return plan.call(iter, self.function, self.sentinel)


class GeneratorVariable(IteratorVariable):
    """A generator created during tracing. ``frame``: the translator of its frame, suspended between two items."""

    __slots__ = ("frame", "finished", "running", "resumed")
    exact_type = types.GeneratorType

    def __init__(self, frame: Any) -> None:
        self.source = None
        self.frame = frame
        self.finished = False
        self.running = False
        self.resumed = 0
        """How many times it was resumed."""
        frame.attempt.provenance.created_generator(self)

    @property
    def is_in_block(self) -> bool:
        """Whether it is suspended in a ``try`` or ``with``, whose cleanup would run when the generator is closed."""
        if self.finished or not self.frame.started:
            return False
        return any(not self._reraises_exit(each.target) for each in enclosing_handlers(self.frame.current))

    def _reraises_exit(self, target: Any) -> bool:
        """Whether a handler only has ``except Error:`` clauses, none of which catches ``GeneratorExit``. So it is in
        ``Sequence.__iter__``, whose generator ``in`` drops."""
        instructions = self.frame.instructions
        at = target.index + 1
        while roles.loads_global(instructions[at]):
            test, jump = instructions[at + 1 : at + 3]
            found = self.frame.scope.load(instructions[at].argval) or self.frame.attempt.values.builtin(
                instructions[at].argval
            )
            kind = None if found is None else found.value
            if not roles.matches_exception(test) or not isinstance(kind, type) or issubclass(GeneratorExit, kind):
                return False
            at = jump.target.index
        return roles.reraises(instructions[at])

    def describe(self) -> str:
        return f"a generator of {self.frame.code.co_qualname}"

    def next(self, tx: Translator) -> VariableTracker:
        return self.send(tx, ConstantVariable(None))

    def _resume(self, tx: Translator, value: VariableTracker, error: VariableTracker | None = None) -> VariableTracker:
        self.running = True
        self.resumed += 1
        try:
            return self.frame.resume_generator(tx, value, error)
        except (Exhausted, ObservedException):
            self.finished = True
            raise
        finally:
            self.running = False

    def _check_not_running(self, tx: Translator) -> None:
        if self.running:
            tx.raise_error(ValueError, "generator already executing")

    def send(self, tx: Translator, value: VariableTracker) -> VariableTracker:
        self._check_not_running(tx)
        if self.finished:
            raise Exhausted
        if not self.frame.started and not tx.is_none(value):
            tx.raise_error(TypeError, "can't send non-None value to a just-started generator")
        return self._resume(tx, value)

    def throw(self, tx: Translator, error: VariableTracker) -> VariableTracker:
        """Raise an exception where it is suspended."""
        self._check_not_running(tx)
        if self.finished or not self.frame.started:
            self.finished = True
            raise ObservedException(error)
        return self._resume(tx, ConstantVariable(None), error)

    def method_close(self, tx: Translator) -> VariableTracker:
        try:
            self.throw(tx, tx.call(tx.make(GeneratorExit), [], {}).realize())
        except Exhausted as end:
            return end.value if _CLOSE_GIVES_RESULT and end.value is not None else ConstantVariable(None)
        except ObservedException as observed:
            if issubclass(observed.error.python_type(), (GeneratorExit, StopIteration)):
                return ConstantVariable(None)
            raise
        tx.raise_error(RuntimeError, "generator ignored GeneratorExit")

    def method_send(self, tx: Translator, value: VariableTracker) -> VariableTracker:
        try:
            return self.send(tx, value)
        except Exhausted as end:
            tx.raise_stop_iteration(end.value)

    def method_throw(
        self, tx: Translator, kind: VariableTracker, value: VariableTracker | None = None, traceback: object = None
    ) -> VariableTracker:
        try:
            return self.throw(tx, tx.thrown(kind, value))
        except Exhausted as end:
            tx.raise_stop_iteration(end.value)

    def creating_call(self) -> CreatingCall | None:
        if self.finished or self.running:
            return None
        try:
            return self.frame.generator_parts()
        except NotConstant:
            return None

    def construct(self, plan: Planner) -> Value:
        if self.finished:
            return plan.call(_finished_generator)
        call = self.frame.generator_parts()
        return plan.call(call.make, *map(plan.constant, call.constants), *call.operands)


def _finished_generator() -> Iterator[object]:
    generator: Iterator[object] = (item for item in tuple[object, ...]())
    next(generator, None)
    return generator
