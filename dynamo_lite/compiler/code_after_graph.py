"""Generates the code that follows the graph's call: effects replayed, then the frame's return or the graph break."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.bytecode import Instruction, emit, reachable_from
from dynamo_lite.bytecode.instructions import KIND, NAME
from dynamo_lite.codegen.emitter import run
from dynamo_lite.codegen.writer import Writer
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import DroppedGenerator, FreedTogether, SharedMemory
from dynamo_lite.plan.rows import Break, Return
from dynamo_lite.planner.later_functions import call_around_graph
from dynamo_lite.planner.planner import Planner
from dynamo_lite.records.restart import EndsBefore, Fact, FunctionsUntraced, MadeByCPython, Restart
from dynamo_lite.resume.graph_break import FrameBreaker
from dynamo_lite.resume.nested_break import NestedBreaker
from dynamo_lite.resume.resume_code import instructions_of
from dynamo_lite.translator.core import RootTranslator, StoppingTranslator
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.torch.autograd.function import outdated_on_ctx
from dynamo_lite.variables.torch.contexts.torch_contexts import ExitVariable, GraphContextVariable
from dynamo_lite.variables.torch.higher_order.later_calls import check_later_functions
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .aliases import guard_aliases
from .eligibility import check_is_for_graph
from .translation import AfterGraph, Request


def generate(root: RootTranslator, breaks: bool, request: Request) -> AfterGraph | Fact:
    """Plan and emit the code that runs after the graph of a traced frame. This determines the graph's inputs and
    outputs. A fact says what another attempt must do differently: a value must survive the graph that can't, or
    operators must be in graphs of their own.

    Raises:
        SkipFrame: there is nothing in the frame for a graph, or what it does to aliases can't be guarded.
    """
    attempt = root.attempt
    planner = Planner(attempt)
    _end_contexts(planner, list(root.stacks()) if breaks else [])
    if planner.made_by_cpython is not None:
        return planner.made_by_cpython
    # Under fullgraph a frame that is skipped would have each of its callees compiled as one graph.
    check_is_for_graph(root, breaks, request.traits.empty_graphs or request.fullgraph and not breaks)
    attempt.graph.assert_assumptions()
    fact: Fact | None = _mutates_shared_memory(attempt)
    if fact is not None:
        return fact
    guard_aliases(attempt)
    _guard_current_device(attempt)
    _order_inputs(attempt)
    fact = call_around_graph(attempt)
    if fact is not None:
        return fact
    try:
        planner.replay_effects()
        breaker = _break(planner, root) if breaks else None
        end = _return(planner, root) if breaker is None else breaker.end
    except (Restart, Unsupported):
        # Where the graph breaks for what CPython must create, this may not come up.
        if planner.made_by_cpython is None:
            raise
        return planner.made_by_cpython
    for find in _OBSTACLES:
        fact = planner.made_by_cpython or find(planner, root, breaks)
        if fact is not None:
            return fact
    if breaker is not None:
        breaker.check_is_before_return()
    return AfterGraph(planner, end, _emit(planner, end, breaker))


def _emit(planner: Planner, end: Return | Break, breaker: FrameBreaker | NestedBreaker | None) -> list[Instruction]:
    """The steps of the plan, then the frame's return or its break."""
    code = Writer(run(planner.steps))
    if isinstance(end, Return):
        code.load(end.value)
        code.add(emit.return_value())
    else:
        assert breaker is not None
        breaker.emit(code, planner.temporaries())
    return code.body


def _end_contexts(planner: Planner, stack: list[VariableTracker]) -> None:
    """Record in the graph that context managers are left which are still entered where it ends. One that an explicit
    call entered can't be."""
    attempt = planner.attempt
    for context in attempt.torch_state.contexts:
        if attempt.provenance.is_created(context):
            assert isinstance(context, VariableTracker)
            planner.cannot_create(context)
    for value in reversed(stack):
        if isinstance(value, ExitVariable) and isinstance(value.context, GraphContextVariable) and not value.called:
            value.context.leave_graph(attempt.graph)


def _mutates_shared_memory(attempt: Attempt) -> EndsBefore | None:
    step = attempt.graph.writes_shared_memory()
    return None if step is None else EndsBefore(step, SharedMemory(), "it writes into tensors that share memory")


def _order_inputs(attempt: Attempt) -> None:
    """Inputs that the guard check captures come first, in order; then those that are arguments of the frame."""
    if not attempt.graph.operators:
        return
    attempt.graph.arrange_inputs()
    for each in attempt.graph.inputs:
        if each.captured:
            attempt.guards.capture(each.source)


def _guard_current_device(attempt: Attempt) -> None:
    """Operators without an index of their device compute on the current one, and backends fix which one that is."""
    if attempt.graph.operators and torch.cuda.is_initialized() and torch.cuda.device_count() > 1:
        attempt.guards.query(torch._C._cuda_getDevice)


def _break(planner: Planner, root: RootTranslator) -> FrameBreaker | NestedBreaker:
    """The instruction runs in CPython, and a resume function goes on after it."""
    if not any(isinstance(value, ExitVariable) for value in root.stacks()):
        # Before the values are created: no context on the stack changes the grad mode.
        planner.set_grad_mode(root.attempt.torch_state.final_grad_mode)
    breaker = FrameBreaker(root) if root.callee is None else NestedBreaker(root)
    breaker.plan(planner)
    return breaker


def _return(planner: Planner, root: RootTranslator) -> Return:
    planner.set_grad_mode(root.attempt.torch_state.final_grad_mode)
    assert root.returned is not None
    return Return(planner.value(root.returned))


# -- what may not leave the graph as it is -----------------------------------------------------------------------------


def _dropped_generators(planner: Planner, root: RootTranslator, breaks: bool) -> MadeByCPython | None:
    """A generator that is dropped while it waits in a block leaves the block: CPython has to do that."""
    for generator in planner.attempt.provenance.generators:
        if generator.is_in_block and not planner.survives_break(generator):
            planner.cannot_create(generator, DroppedGenerator(generator.describe()))
    return planner.made_by_cpython


def _outdated_on_ctx(planner: Planner, root: RootTranslator, breaks: bool) -> FunctionsUntraced | None:
    return outdated_on_ctx(planner.attempt, planner.has_created)


def _outdated_later_functions(planner: Planner, root: RootTranslator, breaks: bool) -> MadeByCPython | None:
    return check_later_functions(planner.attempt, planner.has_created)


def _lost_history(planner: Planner, root: RootTranslator, breaks: bool) -> MadeByCPython | None:
    """The graph's results have the autograd history that they have in eager."""
    attempt = planner.attempt
    has_gradients = any(each.value.requires_grad for each in attempt.graph.tensors)
    leaf = next(iter(attempt.provenance.leaves), None)
    if leaf is not None and not has_gradients and any(each.requires_grad for each in _outputs(planner)):
        planner.cannot_create(leaf)  # a backend would take the graph for inference
    return planner.made_by_cpython


def _freed_together(planner: Planner, root: RootTranslator, breaks: bool) -> EndsBefore | None:
    """After the break the program may run the backward of a part of the graph, and a compiled graph frees all that it
    saved at once. So operators that share no autograd history are in graphs of their own."""
    attempt = planner.attempt
    if not breaks or not attempt.frees_at_once:
        return None
    if not (attempt.restart_facts.calls_backward or any(map(_goes_back, root.stopped()))):
        return None
    step = attempt.provenance.first_unrelated_step(_outputs(planner))
    otherwise = "a backward would free what another needs, were they one compiled graph"
    return None if step is None else EndsBefore(step, FreedTogether(), otherwise)


def _outputs(planner: Planner) -> list[torch.Tensor]:
    return [each.fake for each in planner.outputs if isinstance(each, TensorVariable)]


_OBSTACLES: tuple[Callable[[Planner, RootTranslator, bool], Fact | None], ...] = (
    _dropped_generators,
    _outdated_on_ctx,
    _outdated_later_functions,
    _lost_history,
    _freed_together,
)
"""What may keep a plan from being right. Each returns what another attempt must do differently, or None."""


def _goes_back(frame: StoppingTranslator) -> bool:
    """Whether the frame may run a backward, by the names of what it reads from its first instruction on."""
    if frame.code is frame.original or not any(map(_runs_backward, frame.original.co_names)):
        return any(map(_runs_backward, frame.code.co_names))
    instructions, start = instructions_of(frame.code)
    reached = reachable_from(instructions, [instructions[start]])
    return any(KIND[each.opcode] == NAME and _runs_backward(each.argval) for each in reached)


def _runs_backward(name: str) -> bool:
    return name in _GO_BACK or "backward" in name


_GO_BACK = frozenset({"grad", "register_hook"})
"""Other attributes that run a backward, or that run in one: a hook runs before the whole node that it is on."""
