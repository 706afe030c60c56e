"""What a report records of a miss: graphs, entries, breaks and frames in eager, as plain records."""

from __future__ import annotations

import operator
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from types import CodeType, FrameType

import torch
import torch.fx
from torch.utils._dtype_abbrs import dtype_abbrs

from dynamo_lite import _C
from dynamo_lite.insight.observer import GraphBreak
from dynamo_lite.insight.program_files import OURS, is_installed
from dynamo_lite.insight.recorder import (
    RECORDING,
    EntryRecord,
    GraphRecord,
    GuardRecord,
    NodeRecord,
    Place,
    Recorder,
    SkipRecord,
)
from dynamo_lite.records.node_origin import NodeOrigin, frames_of

from .frame_identity import FrameIdentity
from .translation import Translation


def graph_record(
    recorder: Recorder, translation: Translation, frame: FrameIdentity, gm: torch.fx.GraphModule, backend: str
) -> GraphRecord:
    """The record of a graph before its backend gets it, which may change it."""
    inputs = translation.attempt.graph.inputs
    given = {each.node.name: str(each.source) for each in inputs}
    parameters = {each.node.name for each in inputs if isinstance(each.value, torch.nn.Parameter)}
    nodes = [_node_record(node, given, parameters) for node in gm.graph.nodes]
    record = GraphRecord(1 + len(recorder.graphs), backend, gm.print_readable(print_output=False), nodes)
    recorder.graphs.append(record)
    return record


def _node_record(node: torch.fx.Node, given: Mapping[str, str], parameters: set[str]) -> NodeRecord:
    kind = {"placeholder": "input", "output": "output"}.get(node.op, "operator")
    if node.name in parameters:
        kind = "parameter"
    example = node.meta.get("example_value")
    result = ""
    if isinstance(example, torch.Tensor):
        result = f"{dtype_abbrs.get(example.dtype, example.dtype)}[{', '.join(map(str, example.shape))}]"
    inputs = [each.name for each in node.all_input_nodes]
    what = given.get(node.name) or ("results" if kind == "output" else _operator(node))
    return NodeRecord(node.name, kind, what, inputs, result, [_lines(frame) for frame in frames_of(node.meta)])


def _operator(node: torch.fx.Node) -> str:
    """As the program would write it."""
    target, args = node.target, node.args
    if isinstance(target, str):
        return f".{target}()" if node.op == "call_method" else target
    if target is operator.getitem and len(args) == 2 and isinstance(args[1], int):
        return f"[{args[1]}]"
    if target is getattr and len(args) == 2:
        return f".{args[1]}"
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def _lines(frame: NodeOrigin) -> Place:
    first, last = (0, 0) if frame.positions is None else frame.positions[:2]
    first = first or 0
    return Place(frame.filename, first, max(first, last or 0), frame.function)


def record_entry(
    recorder: Recorder,
    frame: FrameIdentity,
    entry: tuple[_C.GuardTree, CodeType],
    graph_break: GraphBreak | None,
    seconds: Mapping[str, float],
    graph: GraphRecord | None,
) -> None:
    """Record a new entry. ``seconds``: by stage, in their order; the last has just ended."""
    tree, new_code = entry
    costs: list[float] | list[None] = tree.seconds_of_checks(frame.view)
    checks = tree.checks()
    costs_or_none = costs or [None] * len(checks)
    guards = [GuardRecord(reason.place, reason.text, cost) for (reason, _, _), cost in zip(checks, costs_or_none)]
    name, filename, line = frame.place
    number = None if graph is None else graph.number
    check_seconds = tree.cost(frame.view, 100)
    stack = [*_calling_frames(), Place(filename, line, line, name)]
    stages, is_rest = dict(seconds), frame.is_rest
    found = EntryRecord(name, filename, line, is_rest, number, guards, check_seconds, stages, graph_break, stack)
    found.continues = recorder.break_before(found, frame.code)
    found.recompile = recorder.take_recompile(name, filename, line)
    recorder.entries.append(found)
    if graph_break is not None:
        for const in new_code.co_consts:
            if type(const) is _C.Resume:
                recorder.continuations[const.code] = graph_break
    recorder.at_end.append(_hit_counter(found, weakref.ref(frame.code), weakref.ref(new_code)))
    began = time.perf_counter() - sum(seconds.values())
    for stage, took in seconds.items():
        if took:
            recorder.note_span(stage, name, began, took, number)
        began += took


def _calling_frames() -> list[Place]:
    """The program's own frames on this thread's stack, outermost first."""
    found: list[Place] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(OURS) and not is_installed(code.co_filename):
            found.append(Place(code.co_filename, frame.f_lineno or 0, frame.f_lineno or 0, code.co_qualname))
        frame = frame.f_back
    return found[::-1]


def _hit_counter(
    record: EntryRecord, code: weakref.ref[CodeType], new_code: weakref.ref[CodeType]
) -> Callable[[], None]:
    """A function that records how often an entry's code has run, if the entry is still there."""

    def count() -> None:
        original, new = code(), new_code()
        if original is not None and new is not None:
            hits = [each.hits for each in _C.entries(original) if each.code is new]
            record.hits = sum(hits) if hits else None

    return count


def record_skip(place: tuple[str, str, int], why: str) -> None:
    """``place``: the function's name, file and line. Recorded once for each reason: some recur at every call."""
    record = SkipRecord(*place, why)
    if RECORDING.now is not None and record not in RECORDING.now.skips:
        RECORDING.now.skips.append(record)
