"""The C parts of the module ``functools``. Its Python functions (``wraps``, ``partialmethod``, …) are inlined."""

from __future__ import annotations

import functools
import types
from typing import Any

from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import is_callable
from dynamo_lite.variables.core.base import Args, Kwargs, LazyVariable, VariableTracker, refuse_arguments, wraps_type
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import Model, models, models_if
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class PartialVariable(UserObjectVariable):
    """``functools.partial``. ``keywords`` is a dict that the program may mutate."""

    __slots__ = ("function", "args", "keywords")

    def __init__(
        self,
        function: VariableTracker,
        args: VariableTracker,
        keywords: VariableTracker,
        value: Any = None,
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
        return tx.call(self.function, [*self.args.realize().elements(tx), *args], {**named, **kwargs})

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        return {"func": self.function, "args": self.args, "keywords": self.keywords}[name]

    def reconstruct(self, cg: Codegen) -> None:
        def fill(cg: Codegen) -> None:
            loads = [self.function, self.args, self.keywords]
            cg.call_with_top(_fill_partial, [functools.partial(cg.load, each) for each in loads])
            self.store_attributes(cg)

        cg.make_then_fill(self, lambda: cg.call(functools.partial, [lambda: cg.load_const(_fill_partial)]), fill)


def _fill_partial(
    empty: functools.partial[Any], function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    empty.__setstate__((function, args, keywords, None))  # type: ignore[attr-defined]


@models(functools.partial)
def _partial(
    tx: Translator, function: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    if not is_callable(tx, function):
        refuse_arguments("functools.partial")
    keywords = DictVariable(dict(kwargs))
    if isinstance(function, PartialVariable) and not function.has_attributes:
        inner = function.keywords.realize()
        assert isinstance(inner, DictVariable)
        keywords = DictVariable({**inner.items, **kwargs})
        args = (*function.args.realize().elements(tx), *args)
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


# -- singledispatch ----------------------------------------------------------------------------------------------------

_DISPATCH: types.CodeType = next(
    code
    for code in functools.singledispatch.__code__.co_consts
    if isinstance(code, types.CodeType) and code.co_name == "dispatch"
)


def _find_implementation(cls: type, *kinds: type) -> type:
    return functools._find_impl(cls, {kind: kind for kind in kinds})  # type: ignore[attr-defined]


@models_if
def _dispatches(value: Any) -> Model | None:
    """``generic.dispatch``: the registry's implementation for a class. Its cache, which nobody can see, is left out."""
    if getattr(value, "__code__", None) is not _DISPATCH:
        return None

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        dispatch = tx.make(value)
        assert isinstance(dispatch, FunctionVariable)
        if len(args) != 1 or kwargs or not isinstance(args[0], ClassVariable):
            refuse_arguments("functools.singledispatch.dispatch")
        cells = dict(zip(_DISPATCH.co_freevars, dispatch.cells(tx)))
        content = cells["registry"].content
        registry = None if content is None else content.realize()
        assert isinstance(registry, DictVariable)
        keys = {registry.key_variable(key).as_constant(): key for key in registry.items}
        nearest = tx.guards.answers.ask(_find_implementation, args[0].value, *keys)
        return registry.items[keys[nearest]].realize()

    return model
