"""One attempt's trace of a frame: from its arguments to its return, or to the step at which the graph breaks."""

from __future__ import annotations

import sys

from dynamo_lite import config
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.exc import SkipFrame
from dynamo_lite.records.restart_facts import RestartFacts
from dynamo_lite.resume.graph_break import continues_where_errors_may_be_swallowed
from dynamo_lite.translator.core import BreakHere, RootTranslator
from dynamo_lite.translator.stack_machine import Frame
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.namespaces import why_unreadable
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.functions.function import CellVariable
from dynamo_lite.variables.torch.functions.collectives import complete_pending

from .translation import Request


def begin(request: Request, facts: RestartFacts) -> RootTranslator:
    """The translator of the frame, in an attempt of its own."""
    view, traits = request.view, request.traits
    why = why_unreadable(view.globals, view.builtins)
    if why is not None:
        raise SkipFrame(why)
    attempt = Attempt(view.globals, view.builtins, request.shapes, request.precomputed, facts, request.captures_data)
    attempt.takes_wrappers = traits.wrappers
    attempt.takes_masked_writes = traits.masked_writes
    attempt.frees_at_once = traits.frees_at_once
    attempt.generates_kernels = traits.generates_kernels
    attempt.begins_handled = continues_where_errors_may_be_swallowed(view.code)
    attempt.errors_on_break = config.torch_errors_on_break()
    attempt.callers_handle = sys.exception() is not None
    request.prepare(attempt)
    sources = attempt.guards.root
    locals_: dict[str, VariableTracker] = {
        name: LazyVariable(attempt, value, sources.child("local", name)) for name, value in view.locals.items()
    }
    wrapped = [attempt.values.wrap(cell, sources.child("closure", at)) for at, cell in enumerate(view.closure)]
    cells = [each for each in wrapped if isinstance(each, CellVariable)]
    assert len(cells) == len(wrapped)
    frame = Frame(view.code, attempt.values.scope(view.globals), locals_, cells)
    return RootTranslator(attempt, frame, facts.break_at)


def trace(root: RootTranslator) -> bool:
    """Run the translator. Returns whether the graph breaks, rather than goes on to the frame's return.

    Raises:
        Unsupported: what comes next can't be in a graph.
        ObservedException: the program raises out of the frame.
        Restart: another attempt can go on.
    """
    attempt: Attempt = root.attempt
    breaks = False
    with attempt:
        try:
            root.run()
            complete_pending(root)
        except BreakHere:
            complete_pending(root)
            breaks = True
    attempt.innermost = root  # numbers that the code after the graph specializes are this place's doing
    return breaks
