"""A frame's new code: what comes before the graph, the graph's call, what comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType

from dynamo_lite import _C
from dynamo_lite.bytecode import Handler, Instruction, emit
from dynamo_lite.bytecode.instructions import Positions
from dynamo_lite.exc import InternalError
from dynamo_lite.plan.rows import Call, Constant, Local, Plan

from .emitter import load, result_name, run

_RESULTS = "___results"


def new_code(
    plan: Plan,
    like: CodeType,
    graph_call: _C.GraphCall | None,
    body: Sequence[Instruction],
    failed: Sequence[Instruction],
    positions: Positions | None,
    hook_is_off: bool = False,
) -> list[Instruction]:
    """The whole code.

    ``like``: the code of the frame; ``body``: what follows the graph; ``failed``: the handler around its
    call, and if it is empty, errors leave the frame; ``positions``: of instructions that have none; ``hook_is_off``:
    while the code runs.
    """
    call: list[Instruction] = []
    wrong: list[Instruction] = []
    if graph_call is None:
        if plan.results:
            raise InternalError("the new code uses results of a graph that is empty")
        failed = []
    elif hook_is_off and plan.results and not (graph_call.captured or graph_call.keeps_state):
        call, wrong = _direct_call(plan, graph_call)
    else:
        call = _call(plan, graph_call)
    if failed:
        handler = Handler(failed[0], 0, False)
        for instruction in call:
            instruction.handler = handler
    code = [
        *emit.prologue(len(like.co_freevars)),
        *run(plan.before),
        *call,
        *run(plan.released),
        *body,
        *failed,
        *wrong,
    ]
    for instruction in code:
        if instruction.positions is None:
            instruction.positions = positions
    return code


def _call(plan: Plan, graph_call: _C.GraphCall) -> list[Instruction]:
    captured = [Local(_C.CAPTURED_NAME)] if graph_call.captured else []
    code = load(Call(Constant(graph_call), (*captured, *plan.inputs)))
    return [*code, *(_unpack(plan.results) if plan.results else [emit.pop_top()])]


def _direct_call(plan: Plan, graph_call: _C.GraphCall) -> tuple[list[Instruction], list[Instruction]]:
    """The call of the backend's callable without `GraphCall`, and the branch for a result of another length."""
    unpack = _unpack(plan.results)
    report = emit.call_function(graph_call.wrong, [[emit.load_fast(_RESULTS)]])
    wrong = [emit.store_fast(_RESULTS), *report, emit.jump(unpack[0])]
    code = load(Call(Constant(graph_call.fn), tuple(plan.inputs)))
    code += [emit.is_sequence(), emit.jump_if_false(wrong[0]), emit.length()]
    code += [emit.load_const(plan.results), emit.compare("=="), emit.jump_if_false(wrong[0])]
    return [*code, *unpack], wrong


def _unpack(count: int) -> list[Instruction]:
    return [emit.unpack(count), *(emit.store_fast(result_name(at)) for at in range(count))]
