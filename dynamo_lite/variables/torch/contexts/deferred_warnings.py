"""Issues warnings of C code and torch's functions, which the traced program calls, in generated code after the graph.

Each has the program's line as its place. The actions of the filters of ``warnings`` are guarded; if one turns warnings
into exceptions, the graph breaks.
"""

from __future__ import annotations

import sys
import warnings

from dynamo_lite.insight.break_reasons import OutputCall
from dynamo_lite.variables.core.base import Planner, Translator, unsupported
from dynamo_lite.variables.polyfills.warnings import may_raise


def warn_after_graph(tx: Translator, text: str, category: type[Warning]) -> None:
    """``warnings.warn`` at the frame's current line."""
    place = tx.place()
    module = tx.scope.namespace.get("__name__")
    if tx.attempt.torch_state.catch_warnings_blocks or not isinstance(module, str) or module not in sys.modules:
        unsupported(OutputCall("warnings.warn"))
    if tx.truth(tx.call(tx.make(may_raise), [], {})):
        unsupported(OutputCall("warnings.warn"))
    tx.effects.note(_Warning(text, category, place.filename, place.lineno or 0, module))


class _Warning:
    """A warning to issue after the graph. It isn't noted as a call, whose effect an exported program can't have."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def replay(self, plan: Planner) -> None:
        plan.do(_warn, *map(plan.constant, self.arguments))


def _warn(text: str, category: type[Warning], filename: str, line: int, module: str) -> None:
    registry = vars(sys.modules[module]).setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, filename, line, module, registry)
