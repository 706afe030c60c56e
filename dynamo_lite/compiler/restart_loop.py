"""Attempts at one frame: one that can't go on ends with a fact, which all later ones know."""

from __future__ import annotations

import time

from dynamo_lite import _C
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.exc import InternalError, RunsOnceInEager, SkipFrame, Unsupported
from dynamo_lite.insight.break_reasons import BackwardCall, LazyModuleCalled, UncaughtException
from dynamo_lite.insight.observer import GraphBreak
from dynamo_lite.records.restart import AnsweredAsInEager, BreakAt, Fact, Restart
from dynamo_lite.records.restart_facts import RestartFacts, is_over_operands
from dynamo_lite.resume.program_names import name_places
from dynamo_lite.resume.resume_code import forget_instructions, original_position
from dynamo_lite.translator.core import BreakHere, RootTranslator
from dynamo_lite.translator.stack_machine import Frame
from dynamo_lite.variables.core.base import ObservedException, VariableTracker
from dynamo_lite.variables.core.namespaces import why_unreadable
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.functions.function import CellVariable
from dynamo_lite.variables.python.objects.exception import ExceptionVariable
from dynamo_lite.variables.torch.functions.collectives import complete_pending

from .budget import TakesTooLong
from .code_after_graph import generate
from .eligibility import check_is_no_module_call
from .observers import without_dispatch_modes
from .translation import AfterGraph, Request, Translation

_ATTEMPTS = 40


def translate(request: Request) -> Translation:
    """Trace the frame and generate the code after the graph, again until an attempt succeeds.

    Raises:
        SkipFrame: the frame is not for us.
        Unsupported: the graph would break, under ``fullgraph=True``.
        RunsOnceInEager: this call prepares what later calls use.
        TakesTooLong: the time for it is over, and the frame needs another attempt.
    """
    facts = RestartFacts.first(request.shapes.history, request.fullgraph, request.traits.gradients)
    try:
        for _ in range(_ATTEMPTS):
            state = _C.GlobalState()
            with without_dispatch_modes():
                root = _begin(request, facts)
                outcome = _attempt(root, request, facts, state)
                if isinstance(outcome, Translation):
                    return outcome
                facts = facts.after(root.attempt.specialized_at).learn(outcome, root.place())
            if time.perf_counter() > request.until:
                raise TakesTooLong
    except SkipFrame as skipped:
        skipped.cause = skipped.cause or facts.graph_break
        raise
    finally:
        request.precomputed.close()
        forget_instructions(request.frame.code)
    raise InternalError(f"{request.frame.code.co_qualname} was tried {_ATTEMPTS} times without an end")


def _attempt(root: RootTranslator, request: Request, facts: RestartFacts, state: _C.GlobalState) -> Translation | Fact:
    """One pass over the frame: a translation, or what another attempt must do differently."""
    attempt, outcome = root.attempt, None
    try:
        breaks = _trace(root)
        after = generate(root, breaks, request)
        if not isinstance(after, AfterGraph):
            return after
        graph_break = facts.break_seen_from(root.place())
        stopped_at = [original_position(each.code, each.current.index) for each in root.stopped()] if breaks else ()
        outcome = Translation(attempt, after, root.current.positions, state, graph_break, tuple(stopped_at))
        attempt.guards.adopt(facts.assumed)
        if facts.raised is not None:
            attempt.guards.adopt_all(facts.raised)
        facts.after(attempt.specialized_at).remember()
        return outcome
    except Restart as restart:
        return restart.fact
    except Unsupported as error:
        return _fact_about(error, root, facts)
    except ObservedException as observed:
        return _fact_about_raised(observed, root)
    finally:
        root.close()
        if outcome is None:
            attempt.close()


def _begin(request: Request, facts: RestartFacts) -> RootTranslator:
    """The translator of the frame, in an attempt of its own."""
    frame, view = request.frame, request.frame.view
    why = why_unreadable(view.globals, view.builtins)
    if why is not None:
        raise SkipFrame(why)
    of_frame = request.traits, request.surroundings, request.shapes, request.precomputed
    attempt = Attempt(view.globals, view.builtins, *of_frame, facts)
    request.prepare(attempt)
    sources = attempt.guards.root
    name_places(sources, frame.code, frame.parameters)
    locals_: dict[str, VariableTracker] = {
        name: LazyVariable(attempt, value, sources.child("local", name)) for name, value in frame.arguments.items()
    }
    wrapped = [attempt.values.wrap(cell, sources.child("closure", at)) for at, cell in enumerate(view.closure)]
    cells = [each for each in wrapped if isinstance(each, CellVariable)]
    assert len(cells) == len(wrapped)
    begun = Frame(frame.code, attempt.values.scope(view.globals), locals_, cells)
    return RootTranslator(attempt, begun, facts.break_at)


def _trace(root: RootTranslator) -> bool:
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
    attempt.innermost = root  # numbers that the code after the graph specializes are attributed to the root frame
    return breaks


def _fact_about(error: Unsupported, root: RootTranslator, facts: RestartFacts) -> Fact:
    """What the next attempt does about what can't be in a graph: it knows the numbers there, or breaks the graph."""
    attempt = root.attempt
    root.add_frame_to_stack(error)
    numbers = facts.numbers.after(attempt.specialized_at)
    symbols = attempt.graph.symbols
    has_numbers = symbols.has_symbols or symbols.has_floats or bool(attempt.deferred_reads)
    fact = numbers.fact_about(error, attempt.steps, has_numbers)
    if fact is not None:
        return fact
    graph_break = GraphBreak(error.reason, error.user_stack)
    if isinstance(error.reason, LazyModuleCalled) and not attempt.surroundings.is_exporting:
        raise RunsOnceInEager(error.reason.what())
    if facts.fullgraph or attempt.errors_on_break:
        raise Unsupported(error.reason, error.user_stack) from None
    check_is_no_module_call(root.code, graph_break, is_over_operands(error))
    assumed, to_fill = facts.unfilled(attempt.guards)
    of_tensors = attempt.guards.of_tensors() if is_over_operands(error) else []
    step = root.step_to_break()
    path = (step, *error.path) if step == root.steps else (step,)
    calls_backward = isinstance(error.reason, BackwardCall)
    unhelpful_step = attempt.steps if attempt.steps in numbers.steps else None
    return BreakAt(path, graph_break, (*assumed, *of_tensors), to_fill, calls_backward, unhelpful_step)


def _fact_about_raised(observed: ObservedException, root: RootTranslator) -> BreakAt | AnsweredAsInEager:
    """CPython raises what leaves the frame: at the last step; if the trace created the exception, at the first that
    raised it. But first an attempt shows whether it does where the program isn't told that it is compiled: libraries
    expect of some compilers that they go back to eager there."""
    is_created = isinstance(observed.error, ExceptionVariable)
    if root.attempt.has_asked_compiling and is_created and not observed.error.by_statement:
        return AnsweredAsInEager()
    step = root.attempt.provenance.raised_at(observed.error, root.steps) if is_created else root.step_to_break()
    graph_break = GraphBreak(UncaughtException(observed.error.describe()), (root.place(),))
    attempt = root.attempt
    return BreakAt((step,), graph_break, raised=attempt.guards.all(attempt.graph.symbols.guards()))
