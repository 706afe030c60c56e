"""Issues warnings of C code and torch's functions, which the traced program calls, in generated code after the graph.

Each has the program's line as its place. The filters of ``warnings`` are guarded; if one turns the warning into an
exception, the graph breaks.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial

from dynamo_lite.insight.break_reasons import OutputCall
from dynamo_lite.variables.polyfills.warnings import action_of

from .base import unsupported
from .protocols import Codegen, Translator

_DEFERRED = frozenset({"always", "default", "ignore", "module", "once"})
"""Actions of filters that don't raise."""


def warn_after_graph(tx: Translator, text: str, category: type[Warning]) -> None:
    """``warnings.warn`` at the frame's current line. The filters are guarded."""
    place = tx.place()
    module = tx.scope.namespace.get("__name__")
    line = place.lineno or 0
    if tx.attempt.torch_state.catch_warnings_blocks or not isinstance(module, str) or module not in sys.modules:
        unsupported(OutputCall("warnings.warn"))
    found = tx.call(tx.make(action_of), [tx.make(each) for each in (text, category, module, line)], {})
    action = tx.python_value(found)
    if action not in _DEFERRED:
        unsupported(OutputCall("warnings.warn"))
    if action != "ignore":
        tx.effects.note(_Warning(text, category, place.filename, line, module))


class _Warning:
    """A warning to issue after the graph."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def replay(self, cg: Codegen) -> None:
        cg.call(_warn, [partial(cg.load_const, each) for each in self.arguments])
        cg.pop_top()


def _warn(text: str, category: type[Warning], filename: str, line: int, module: str) -> None:
    registry = vars(sys.modules[module]).setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, filename, line, module, registry)
