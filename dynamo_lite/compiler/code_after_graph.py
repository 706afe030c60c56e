"""Generates the code that follows the graph's call: effects replayed, then the frame's return or the graph break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
from dynamo_lite.records.calls_before_graph import CallBeforeGraph
from dynamo_lite.records.random_operators import may_draw
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


@dataclass
class _Ending:
    """Where a trace ended, and the plan of what follows the graph. The translators and their records don't change any
    more, but for what the passes decide of the graph: what it leaves, takes and returns."""

    root: RootTranslator
    breaks: bool
    """Whether the graph breaks here; otherwise the frame returns."""
    request: Request
    plan: Planner
    breaker: FrameBreaker | NestedBreaker | None = None
    end: Return | Break | None = None

    @property
    def attempt(self) -> Attempt:
        return self.root.attempt


def generate(root: RootTranslator, breaks: bool, request: Request) -> AfterGraph | Fact:
    """Plan and emit the code that runs after the graph of a traced frame: `_PASSES`, from top to bottom. A fact says
    what another attempt must do differently: a value must survive the graph that can't, or operators must be in graphs
    of their own.

    Raises:
        SkipFrame: there is nothing in the frame for a graph, or what it does to aliases can't be guarded.
    """
    ending = _Ending(root, breaks, request, Planner(root.attempt))
    for run_pass in _PASSES:
        fact = run_pass(ending) or ending.plan.made_by_cpython
        if fact is not None:
            return fact
    assert ending.end is not None
    if ending.breaker is not None:
        ending.breaker.check_is_before_return()
    return AfterGraph(ending.plan, ending.end, _emit(ending, ending.end))


def _emit(ending: _Ending, end: Return | Break) -> list[Instruction]:
    """The steps of the plan, then the frame's return or its break."""
    code = Writer(run(ending.plan.steps))
    if isinstance(end, Return):
        code.load(end.value)
        code.add(emit.return_value())
    else:
        assert ending.breaker is not None
        ending.breaker.emit(code, ending.plan.temporaries())
    return code.body


# -- the graph's own end, its inputs, and what is guarded of them ------------------------------------------------------


def _end_contexts(ending: _Ending) -> None:
    """Record in the graph that context managers are left which are still entered where it ends. One that an explicit
    call entered can't be."""
    for context in ending.attempt.torch_state.contexts:
        if ending.attempt.provenance.is_created(context):
            assert isinstance(context, VariableTracker)
            ending.plan.cannot_create(context)
    for value in reversed(list(ending.root.stacks()) if ending.breaks else []):
        if isinstance(value, ExitVariable) and isinstance(value.context, GraphContextVariable) and not value.called:
            value.context.leave_graph(ending.attempt.graph)


def _check_is_for_graph(ending: _Ending) -> None:
    """Under fullgraph a frame that is skipped would have each of its callees compiled as one graph."""
    request = ending.request
    takes_empty = request.traits.empty_graphs or request.fullgraph and not ending.breaks
    check_is_for_graph(ending.root, ending.breaks, takes_empty)
    ending.attempt.graph.assert_assumptions()


def _mutates_shared_memory(ending: _Ending) -> EndsBefore | None:
    step = ending.attempt.graph.writes_shared_memory()
    return None if step is None else EndsBefore(step, SharedMemory(), "it writes into tensors that share memory")


def _guard_aliases(ending: _Ending) -> None:
    guard_aliases(ending.attempt)


def _guard_current_device(ending: _Ending) -> None:
    """Operators without an index of their device compute on the current one, and backends fix which one that is."""
    if ending.attempt.graph.operators and torch.cuda.is_initialized() and torch.cuda.device_count() > 1:
        ending.attempt.guards.query(torch._C._cuda_getDevice)


def _order_inputs(ending: _Ending) -> None:
    """Inputs that the guard check captures come first, in order; then those that are arguments of the frame."""
    attempt = ending.attempt
    if not attempt.graph.operators:
        return
    attempt.graph.arrange_inputs()
    for each in attempt.graph.inputs:
        if each.captured:
            attempt.guards.capture(each.source)


def _call_around_graph(ending: _Ending) -> Fact | None:
    return call_around_graph(ending.attempt)


def _keep_random_state(ending: _Ending) -> None:
    """If the graph fails and the frame runs again, random numbers are drawn again: by generators in the state from
    before the graph."""
    attempt = ending.attempt
    if attempt.surroundings.is_exporting or not attempt.are_failures_observable:
        return
    if any(map(may_draw, attempt.graph.graph.nodes)):
        attempt.before_graph.calls[:0] = [
            CallBeforeGraph(each.get_state, result=f"___generator{at}", undo=each.set_state)
            for at, each in enumerate(_generators(attempt))
        ]


def _generators(attempt: Attempt) -> Iterator[torch.Generator]:
    """The default generators of the devices that the graph computes on."""
    yield torch.default_generator
    values = (node.meta.get("example_value") for node in attempt.graph.graph.nodes)
    devices = {each.device.index for each in values if isinstance(each, torch.Tensor) and each.device.type == "cuda"}
    yield from (torch.cuda.default_generators[index] for index in sorted(devices))


# -- what follows the graph --------------------------------------------------------------------------------------------


def _plan(ending: _Ending) -> None:
    """The side effects, then the frame's return, or what runs where it breaks."""
    plan = ending.plan
    try:
        plan.replay_effects()
        if ending.breaks:
            ending.breaker = _break(plan, ending.root)
            ending.end = ending.breaker.end
        else:
            ending.end = _return(plan, ending.root)
    except (Restart, Unsupported):
        # Where the graph breaks for what CPython must create, this may not come up.
        if plan.made_by_cpython is None:
            raise


def _break(plan: Planner, root: RootTranslator) -> FrameBreaker | NestedBreaker:
    """The instruction runs in CPython, and a resume function goes on after it."""
    if not any(isinstance(value, ExitVariable) for value in root.stacks()):
        # Before the values are created: no context on the stack changes the grad mode.
        plan.set_grad_mode(root.attempt.torch_state.final_grad_mode)
    breaker = FrameBreaker(root) if root.callee is None else NestedBreaker(root)
    breaker.plan(plan)
    return breaker


def _return(plan: Planner, root: RootTranslator) -> Return:
    plan.set_grad_mode(root.attempt.torch_state.final_grad_mode)
    assert root.returned is not None
    return Return(plan.value(root.returned))


# -- what may not leave the graph as it is -----------------------------------------------------------------------------


def _dropped_generators(ending: _Ending) -> None:
    """A generator that is dropped while it waits in a block leaves the block: CPython has to do that."""
    for generator in ending.attempt.provenance.generators:
        if generator.is_in_block and not ending.plan.survives_break(generator):
            ending.plan.cannot_create(generator, DroppedGenerator(generator.describe()))


def _outdated_on_ctx(ending: _Ending) -> FunctionsUntraced | None:
    return outdated_on_ctx(ending.attempt, ending.plan.has_created)


def _outdated_later_functions(ending: _Ending) -> MadeByCPython | None:
    return check_later_functions(ending.attempt, ending.plan.has_created)


def _lost_history(ending: _Ending) -> None:
    """The graph's results have the autograd history that they have in eager."""
    attempt, plan = ending.attempt, ending.plan
    has_gradients = any(each.value.requires_grad for each in attempt.graph.tensors)
    leaf = next(iter(attempt.provenance.leaves), None)
    if leaf is not None and not has_gradients and any(each.requires_grad for each in _outputs(plan)):
        plan.cannot_create(leaf)  # a backend would take the graph for inference


def _freed_together(ending: _Ending) -> EndsBefore | None:
    """After the break the program may run the backward of a part of the graph, and a compiled graph frees all that it
    saved at once. So operators that share no autograd history are in graphs of their own."""
    attempt = ending.attempt
    if not ending.breaks or not attempt.traits.frees_at_once:
        return None
    if not (attempt.restart_facts.calls_backward or any(map(_goes_back, ending.root.stopped()))):
        return None
    step = attempt.provenance.first_unrelated_step(_outputs(ending.plan))
    otherwise = "a backward would free what another needs, were they one compiled graph"
    return None if step is None else EndsBefore(step, FreedTogether(), otherwise)


def _outputs(plan: Planner) -> list[torch.Tensor]:
    return [each.fake for each in plan.outputs if isinstance(each, TensorVariable)]


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

_PASSES: tuple[Callable[[_Ending], Fact | None], ...] = (
    # the graph's own end, its inputs, and what is guarded of them
    _end_contexts,
    _check_is_for_graph,
    _mutates_shared_memory,
    _guard_aliases,
    _guard_current_device,
    _order_inputs,
    _call_around_graph,
    _keep_random_state,
    # what follows the graph
    _plan,
    # what may not leave the graph as it is
    _dropped_generators,
    _outdated_on_ctx,
    _outdated_later_functions,
    _lost_history,
    _freed_together,
)
"""In the order in which they run. Each may return what another attempt must do differently, or note in the planner what
CPython must create: then none that follows runs."""
