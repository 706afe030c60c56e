"""From a translation and its compiled graph to an entry: the guards and the new code."""

from __future__ import annotations

import textwrap
from types import CodeType

import torch

from dynamo_lite import _C
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.bytecode import assemble
from dynamo_lite.codegen.new_code import new_code
from dynamo_lite.codegen.rerun import graph_failure_handler
from dynamo_lite.insight.observer import Observer
from dynamo_lite.plan.rows import Plan
from dynamo_lite.planner.planner import finished
from dynamo_lite.resume.resume_code import never_compiled, raising_code
from dynamo_lite.variables.torch.modules.nn_module import NNModuleVariable

from .families import Family
from .frame_identity import FrameIdentity
from .graph_call import CompiledGraph
from .guard_filter import Filter, leave_guards_out
from .translation import Translation

Entry = tuple[_C.GuardTree, CodeType, bool, _C.Owner | None]
"""As `_C.Owner` documents."""


def make_entry(
    translation: Translation,
    compiled: CompiledGraph,
    frame: FrameIdentity,
    name: str,
    family: Family,
    guard_filter: Filter | None,
    observer: Observer | None,
) -> Entry | _C.Verdict:
    """The entry for a frame; PASS if the backend changed what the guards assume. ``name``: of the backend."""
    attempt, like = translation.attempt, frame.code
    self_contained = translation.graph_break is None
    plan = plan_of(translation, compiled.call)
    reruns = never_compiled(like) if attempt.are_failures_observable else None
    failed = graph_failure_handler(plan, reruns, raising_code(like, continuing=True))
    code = new_code(plan, like, compiled.call, translation.after.code, failed, translation.positions, self_contained)
    if observer is not None:
        observer.plans.append(f"{frame.place}:\n{textwrap.indent(str(plan), '  ')}")
    if not attempt.guards.abstract_class_checks.hold():  # the backend registered a class
        attempt.close()
        return _C.PASS
    tree = guards_of(translation, frame, name if compiled.call is not None else "", guard_filter)
    attempt.shapes.keep()
    for code_after, numbers in attempt.varying.items():
        family.shapes.expect_changes(code_after, numbers)
    assembled = assemble(code, like=like, cellvars=())
    keeper = family.keeper(like, _part_of_model(attempt))
    attempt.close()
    return tree, assembled, self_contained, keeper


def plan_of(translation: Translation, call: _C.GraphCall | None) -> Plan:
    """The plan of the new code. ``call``: of the graph; None if nothing is to be computed."""
    return finished(translation.after.plan, translation.after.end, call is not None)


def guards_of(
    translation: Translation, frame: FrameIdentity, compiled_by: str, guard_filter: Filter | None
) -> _C.GuardTree:
    """All that the translation assumes, without what the user leaves out. ``compiled_by``: the backend whose own
    assumptions on sizes are checked against the user's marks; empty: none was run."""
    attempt = translation.attempt
    attempt.guards.written = attempt.graph.written | attempt.graph.alone
    attempt.graph.symbols.check_marks(compiled_by)
    attempt.guards.add_facts(attempt.graph.symbols.guards())
    if guard_filter is not None:
        leave_guards_out(guard_filter, attempt.guards, translation.state, frame)
    return attempt.guards.build(frame.code, translation.state)


def _part_of_model(attempt: Attempt) -> torch.nn.Module | torch.nn.Parameter | None:
    """The first module or parameter that the trace has used."""
    for _, tracker in attempt.values.memo.values():
        if isinstance(tracker, NNModuleVariable):
            return tracker.value
    return next((each.value for each in attempt.graph.tensors if isinstance(each.value, torch.nn.Parameter)), None)
