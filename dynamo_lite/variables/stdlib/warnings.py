"""``warnings.catch_warnings`` with filters that ignore. Recording, showing or raising warnings breaks the graph.

Such a block leaves nothing in the graph. An operator that would warn inside it while the graph runs breaks the graph.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from typing import Any

from dynamo_lite.insight.break_reasons import OutputCall, UnknownCall, UnsupportedContext, WarningsObserved
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.identity import identity
from dynamo_lite.variables.core.base import NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.torch.contexts.torch_contexts import ContextVariable


class CatchWarningsVariable(ContextVariable):
    """``warnings.catch_warnings()``, entered for real while tracing. It can't survive a graph break: CPython enters it
    then. ``arguments``: the arguments of the ``simplefilter`` call on entry, if there is one."""

    __slots__ = ("ignores_all", "filters_before")

    def enter(self, tx: Translator) -> None:
        if tx.effects.in_body:
            unsupported(UnsupportedContext(f"{self.describe()} (in a function that an operator runs)"))
        if self.value._entered:
            unsupported(UnsupportedContext(f"{self.describe()} (entered twice)"))
        blocks = tx.attempt.torch_state.catch_warnings_blocks
        tx.attempt.provenance.created(self)
        self.ignores_all = any(each.ignores_all for each in blocks)
        self.filters_before = warnings.filters
        self.value.__enter__()
        tx.attempt.torch_state.contexts.append(self)
        blocks.append(self)
        if self.arguments:
            tx.call(tx.make(warnings.simplefilter), [tx.make(each) for each in self.arguments], {})

    def leave(self) -> None:
        """Leave the real context manager."""
        self.value.__exit__(None, None, None)

    def exit(self, tx: Translator) -> None:
        self.leave()
        tx.attempt.torch_state.contexts.remove(self)
        tx.attempt.torch_state.catch_warnings_blocks.remove(self)
        tx.effects.note(_FiltersMutated())

    def construct(self, plan: Planner) -> Value:
        if self.value._entered:  # a second ``with`` raises
            raise NotConstant
        return plan.call(functools.partial(warnings.catch_warnings, **dict(zip(_FILTER, self.arguments))))


class _FiltersMutated:
    """Filters were set and restored, so CPython forgets which warnings it has shown."""

    def replay(self, plan: Planner) -> None:
        plan.do(warnings._filters_mutated)  # type: ignore[attr-defined]


_FILTER = {"action": None, "category": Warning, "lineno": 0, "append": False}
"""Arguments of ``catch_warnings`` for ``simplefilter``, with their defaults."""


@models(warnings.catch_warnings)
def _catch_warnings(tx: Translator, **options: VariableTracker) -> VariableTracker:
    named = {name: tx.python_value(value) for name, value in options.items()}
    if named.get("module") is not None:
        unsupported(UnknownCall("warnings.catch_warnings()", "it is given a module"))
    if named.get("record"):
        unsupported(WarningsObserved("warnings.catch_warnings(record=True)"))
    context = tx.evaluate(warnings.catch_warnings, (), named)
    if named.get("action") is None:
        return CatchWarningsVariable(context, ())
    return CatchWarningsVariable(warnings.catch_warnings(), tuple(named.get(name, _FILTER[name]) for name in _FILTER))


def _models_filter(function: Any) -> None:
    signature, name = inspect.signature(function), f"warnings.{function.__name__}()"

    def model(tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if not tx.attempt.torch_state.catch_warnings_blocks:
            unsupported(UnknownCall(name, "it sets a filter of the process: no catch_warnings() is open in this graph"))
        values, named = tx.python_values(args, kwargs)
        try:
            given = signature.bind(*values, **named).arguments
            if given["action"] != "ignore":
                unsupported(WarningsObserved(f"{name} with the action {given['action']!r}"))
            function(**given)
        except (TypeError, ValueError, AssertionError, re.error):
            refuse_arguments(name.removesuffix("()"))
        if not given.get("append") and warnings.filters[:1] == [_IGNORES_ALL]:
            tx.attempt.torch_state.catch_warnings_blocks[-1].ignores_all = True
        return ConstantVariable(None)

    models(function)(model)


for _function in (warnings.simplefilter, warnings.filterwarnings):
    _models_filter(_function)

_IGNORES_ALL = ("ignore", None, Warning, None, 0)


@models(warnings.warn)
def _warn(
    tx: Translator,
    message: VariableTracker,
    category: VariableTracker | None = None,
    stacklevel: VariableTracker | None = None,
    **options: VariableTracker,
) -> VariableTracker:
    """Nothing happens under a filter that was set during tracing and ignores all. The process's filters may change."""
    kind = UserWarning if category is None or tx.is_none(category) else tx.python_value(category)
    is_plain = isinstance(message, ConstantVariable) and type(message.value) is str and not options
    is_warning = isinstance(kind, type) and issubclass(kind, Warning)
    blocks = tx.attempt.torch_state.catch_warnings_blocks
    is_ignored = bool(blocks) and blocks[-1].ignores_all and not _has_written(tx)
    if not (is_plain and is_warning and is_ignored):
        unsupported(OutputCall("warnings.warn"))
    return ConstantVariable(None)


def _has_written(tx: Translator) -> bool:
    """Whether the program itself has written into the module or its list of filters."""
    filters = tx.attempt.values.memo.get(identity(warnings.filters))
    return tx.effects.wrote_global(vars(warnings)) or filters is not None and filters[1] in tx.effects.written
