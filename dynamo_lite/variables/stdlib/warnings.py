"""``warnings.catch_warnings`` with the filters that are set inside of it.

Nothing that warns is traced inside: what the filters would do with it is left to CPython. They are set while the graph
runs as well, for what kernels alone say.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import warnings
from typing import Any

from dynamo_lite.insight.break_reasons import OutputCall, UnknownCall, UnsupportedContext
from dynamo_lite.records import code_origin
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import VariableTracker, refuse_arguments, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import ListVariable
from dynamo_lite.variables.torch.contexts.context import GraphContextVariable


class CatchingVariable(GraphContextVariable):
    """``warnings.catch_warnings()``. It can't go on over a break: CPython enters it then. ``arguments``: those of
    ``simplefilter``, which it calls when it is entered, if there are any."""

    __slots__ = ("decides",)
    catches_warnings = True
    options: dict[str, Any] = {}

    def nodes(self) -> Any:
        return graph_functions.enter_warnings, (), graph_functions.exit_warnings

    def enter(self, tx: Any) -> None:
        if tx.effects.in_body:
            unsupported(UnsupportedContext(f"{self.describe()} (in a function that an operator runs)"))
        tx.attempt.made_at[self] = tx.attempt.root_step
        self.decides = _decides(tx)
        super().enter(tx)
        if self.arguments:
            tx.call(tx.make(warnings.simplefilter), [tx.make(each) for each in self.arguments], {})

    def record_end(self, graph: Any) -> None:
        nodes = self.node.graph.nodes
        while (last := next(iter(reversed(nodes)))).target is graph_functions.set_warnings_filter:
            graph.drop(last)
        if not graph.drop_last(self.node):
            super().record_end(graph)

    def exit(self, tx: Any) -> None:
        super().exit(tx)
        del tx.attempt.made_at[self]
        tx.effects.note(_Mutated())

    def reconstruct(self, cg: Any) -> None:
        named = dict(zip(_FILTER, self.arguments))
        cg.call(functools.partial(warnings.catch_warnings, **self.options, **named), [])


_FILTER = {"action": None, "category": Warning, "lineno": 0, "append": False}
"""Options that make a filter, with their defaults."""


class RecordingVariable(CatchingVariable):
    """``warnings.catch_warnings(record=True)``. What an operator says that was not tried is not in its list: the frame
    is run again."""

    __slots__ = ("log",)
    options = {"record": True}

    def nodes(self) -> Any:
        return graph_functions.enter_recording, (), graph_functions.exit_recording

    def enter(self, tx: Any) -> None:
        if not tx.graph.can_put_back():
            unsupported(UnsupportedContext(f"{self.describe()} (after a write into much memory)"))
        tx.graph.fails_handled = True
        self.log = ListVariable([])
        super().enter(tx)

    def leave(self) -> None:
        self.entered[0].__exit__(None, None, None)

    def entered_value(self) -> VariableTracker:
        return self.log


def _decides(tx: Any) -> bool:
    """Whether the filter in front was set inside of this graph: others are of the process, and may be others."""
    catching = [each for each in tx.attempt.contexts if each.catches_warnings]
    return bool(catching) and catching[-1].decides


class _Mutated:
    """Filters were set and taken back: what was shown once is no longer known to have been."""

    def replay(self, cg: Any) -> None:
        cg.call(warnings._filters_mutated, [])  # type: ignore[attr-defined]
        cg.pop_top()


@models(warnings.catch_warnings)
def _catch_warnings(tx: Any, **options: VariableTracker) -> VariableTracker:
    named = {name: tx.python_value(value) for name, value in options.items()}
    if named.get("module") is not None:
        unsupported(UnknownCall("warnings.catch_warnings()", "it is of another module"))
    kind = RecordingVariable if named.get("record") else CatchingVariable
    wanted = {**_FILTER, **{name: value for name, value in named.items() if name in _FILTER}}
    made = tx.fold(warnings.catch_warnings, (), named)
    return kind(made, () if wanted["action"] is None else tuple(wanted.values()))


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
            graph_functions.set_warnings_filter(function.__name__, **options)
        except (TypeError, ValueError, AssertionError, re.error):
            refuse_arguments(f"warnings.{function.__name__}")
        tx.graph.call("call_function", graph_functions.set_warnings_filter, (function.__name__,), options, None)
        innermost = [each for each in tx.attempt.contexts if each.catches_warnings][-1]
        innermost.decides |= not options.get("append", False)
        return ConstantVariable(None)

    models(function)(model)


for _function in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings):
    _sets_filter(_function)

_OF_ALL = (None, Warning, None, 0)
"""A filter without its action that is asked of each warning."""


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
    if not (plain and _decides(tx) and isinstance(kind, type) and issubclass(kind, Warning)) or _wrote(tx):
        unsupported(OutputCall("warnings.warn"))
    action, *asked = warnings.filters[0] if warnings.filters else ("", None)
    if tuple(asked) != _OF_ALL or action not in ("ignore", "always"):
        unsupported(OutputCall("warnings.warn"))
    if action == "always":
        _record(tx, message, kind, 1 if stacklevel is None else tx.python_value(stacklevel))
    return ConstantVariable(None)


def _wrote(tx: Any) -> bool:
    """Whether the program itself wrote into the module, or into its list of filters."""
    filters = tx.attempt.memo.get(id(warnings.filters))
    return tx.effects.wrote_global(vars(warnings)) or filters is not None and filters[1] in tx.effects.written


def _record(tx: Any, message: VariableTracker, kind: type[Warning], level: Any) -> None:
    """A warning that is shown each time, into the list of what is recorded."""
    recording = [each for each in tx.attempt.contexts if isinstance(each, RecordingVariable)]
    frame = tx
    while type(level) is int and level > 1 and frame is not None and not code_origin.is_polyfill(frame.code):
        frame, level = frame.parent, level - 1
    if not recording or type(level) is not int or frame is None or code_origin.is_polyfill(frame.code):
        unsupported(OutputCall("warnings.warn"))
    place, category = frame.place(), tx.make(kind)
    values = [tx.call(category, [message], {}), category, tx.make(place.filename), tx.make(place.lineno)]
    found = tx.call(tx.make(warnings.WarningMessage), values, {})
    tx.call(recording[-1].log.getattr(tx, "append"), [found], {})
