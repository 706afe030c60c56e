"""``warnings.catch_warnings`` with the filters that are set inside of it.

Nothing that warns is traced inside: what the filters would do with it is left to CPython. They are set while the graph
runs as well, for what kernels alone say.
"""

from __future__ import annotations

import builtins
import inspect
import re
import warnings
from typing import Any

from ... import higher_order
from ...reasons import OutputCall, UnknownCall, UnsupportedContext
from ..base import VariableTracker, refuse_arguments, unsupported
from ..constant import ConstantVariable
from ..context import GraphContextVariable
from ..registry import models


class CatchingVariable(GraphContextVariable):
    """``warnings.catch_warnings()``. It can't go on over a break: CPython enters it then."""

    __slots__ = ()
    catches_warnings = True

    def nodes(self) -> Any:
        return higher_order.enter_warnings, (), higher_order.exit_warnings

    def enter(self, tx: Any) -> None:
        if tx.effects.in_body:
            unsupported(UnsupportedContext(f"{self.describe()} (in a function that an operator runs)"))
        tx.attempt.made_at[self] = tx.attempt.root_step
        super().enter(tx)

    def record_end(self, graph: Any) -> None:
        nodes = self.node.graph.nodes
        while (last := next(iter(reversed(nodes)))).target is higher_order.set_warnings_filter:
            graph.drop(last)
        if not graph.drop_last(self.node):
            super().record_end(graph)

    def exit(self, tx: Any) -> None:
        super().exit(tx)
        del tx.attempt.made_at[self]
        tx.effects.note(_Mutated())


class _Mutated:
    """Filters were set and taken back: what was shown once is no longer known to have been."""

    def replay(self, cg: Any) -> None:
        cg.call(warnings._filters_mutated, [])  # type: ignore[attr-defined]
        cg.pop_top()


@models(warnings.catch_warnings)
def _catch_warnings(tx: Any, **options: VariableTracker) -> VariableTracker:
    named = {name: tx.python_value(value) for name, value in options.items()}
    if any(named.values()):
        unsupported(UnknownCall("warnings.catch_warnings()", "it records them, or sets a filter at once"))
    return CatchingVariable(tx.fold(warnings.catch_warnings, (), named), ())


def _sets_filter(function: Any) -> None:
    signature = inspect.signature(function)

    def model(tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if not tx.attempt.catching:
            why = "it acts on the process, under no catch_warnings() of this graph"
            unsupported(UnknownCall(f"warnings.{function.__name__}()", why))
        values = [tx.python_value(each) for each in args]
        named = {key: tx.python_value(each) for key, each in kwargs.items()}
        try:
            options = signature.bind(*values, **named).arguments
            category = options.get("category", Warning)
            if getattr(builtins, getattr(category, "__name__", ""), None) is not category:
                unsupported(UnknownCall("a filter of warnings", "its category is not a builtin one"))
            if "category" in options:
                options["category"] = category.__name__
            higher_order.set_warnings_filter(function.__name__, **options)
        except (TypeError, ValueError, AssertionError, re.error):
            refuse_arguments(f"warnings.{function.__name__}")
        tx.graph.call("call_function", higher_order.set_warnings_filter, (function.__name__,), options, None)
        return ConstantVariable(None)

    models(function)(model)


for _function in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings):
    _sets_filter(_function)

_IGNORES_ALL = ("ignore", None, Warning, None, 0)


@models(warnings.warn)
def _warn(
    tx: Any,
    message: VariableTracker,
    category: VariableTracker | None = None,
    stacklevel: VariableTracker | None = None,
    **options: VariableTracker,
) -> VariableTracker:
    kind = UserWarning if category is None or tx.is_none(category) else tx.python_value(category)
    plain = isinstance(message, ConstantVariable) and type(message.value) is str and not options
    ignored = tx.attempt.catching and warnings.filters[:1] == [_IGNORES_ALL]
    if not (plain and ignored and isinstance(kind, type) and issubclass(kind, Warning)):
        unsupported(OutputCall("warnings.warn"))
    return ConstantVariable(None)
