"""The C parts of the module ``functools``. Its Python functions (``wraps``, ``partialmethod``, …) are inlined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import is_callable
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class PartialVariable(UserObjectVariable):
    """``functools.partial``. ``keywords`` is a dict that the program may mutate."""

    __slots__ = ("function", "args", "keywords")

    def __init__(
        self,
        function: VariableTracker,
        args: VariableTracker,
        keywords: VariableTracker,
        value: functools.partial[Any] | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(value, functools.partial, source)
        self.function = function
        self.args = args
        self.keywords = keywords

    @property
    def has_attributes(self) -> bool:
        """Whether it has attributes. Reading its ``__dict__`` would create one, ``__reduce__`` doesn't."""
        return bool(self.attrs) or self.value is not None and bool(self.value.__reduce__()[2][3])

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        keywords = self.keywords.realize()
        assert isinstance(keywords, DictVariable)
        named = {name: value.realize() for name, value in keywords.items.items()}
        before = [*self.args.realize().elements(tx)]
        if (left_open := _count_placeholders(before)) > len(args):
            count = f"expected at least {left_open}, got {len(args)}"
            tx.raise_error(TypeError, f"missing positional arguments in 'partial' call; {count}")
        return tx.call(self.function, _filled(before, args), {**named, **kwargs})

    def slot_get(self, tx: Translator, name: str, raw: object) -> VariableTracker | None:
        return {"func": self.function, "args": self.args, "keywords": self.keywords}[name]

    def construct(self, plan: Planner) -> Value:
        new = plan.call(_create_partial, self.function, self.args, self.keywords)
        return plan.create(self, new, partial(self.store_attributes, plan))


def _create_partial(
    function: Callable[..., Any], args: tuple[object, ...], keywords: dict[str, object]
) -> functools.partial[Any]:
    """A partial that has this very dict of keywords."""
    created = functools.partial(function)
    created.__setstate__((function, args, keywords, None))  # type: ignore[attr-defined]
    return created


_PLACEHOLDER = getattr(functools, "Placeholder", None)
"""Leaves an argument of a partial open; None before CPython 3.14."""


def _is_placeholder(argument: VariableTracker) -> bool:
    return _PLACEHOLDER is not None and argument.python_type() is type(_PLACEHOLDER)


def _count_placeholders(args: Args) -> int:
    return sum(map(_is_placeholder, args))


def _filled(before: Args, args: Args) -> list[VariableTracker]:
    """The arguments of a partial, with what is given in the place of its first placeholders and behind all."""
    given = iter(args)
    return [next(given, each) if _is_placeholder(each) else each for each in before] + list(given)


@models(functools.partial)
def _partial(
    tx: Translator, function: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    if not is_callable(tx, function):
        refuse_arguments("functools.partial")
    if args and _is_placeholder(args[-1]):
        tx.raise_error(TypeError, "trailing Placeholders are not allowed")
    if any(map(_is_placeholder, kwargs.values())):
        tx.raise_error(TypeError, "Placeholder cannot be passed as a keyword argument")
    keywords = DictVariable(dict(kwargs))
    if isinstance(function, PartialVariable) and not function.has_attributes:
        inner = function.keywords.realize()
        assert isinstance(inner, DictVariable)
        keywords = DictVariable({**inner.items, **kwargs})
        args = tuple(_filled([*function.args.realize().elements(tx)], [*args]))
        function = function.function
    return PartialVariable(function, TupleVariable(list(args)), keywords)


@wraps_type(functools.partial)
def _wrap_partial(attempt: Attempt, value: functools.partial[Any], source: Source) -> VariableTracker:
    source.check("type", functools.partial)
    function, args, keywords = (
        LazyVariable(attempt, getattr(value, name), source.child("c_attr", name))
        for name in ("func", "args", "keywords")
    )
    return PartialVariable(function, args, keywords, value, source)
