"""Emits the rows of a plan. This can't fail, and knows no tracker: whatever could go wrong, the planner has decided."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_lite.bytecode import Instruction, emit
from dynamo_lite.plan.rows import (
    Attribute,
    Binary,
    Build,
    Call,
    Cell,
    Constant,
    DeleteAttribute,
    Do,
    Extend,
    GraphResult,
    Item,
    Keep,
    Local,
    PushedNull,
    Reload,
    SetAttribute,
    SetHandled,
    SetItem,
    Step,
    Take,
    Value,
)

_RESULT = "___output{}"


def result_name(at: int) -> str:
    """The local variable that keeps a result of the graph."""
    return _RESULT.format(at + 1)


def load(value: Value) -> list[Instruction]:
    """Push a value."""
    match value:
        case Constant():
            return [emit.load_const(value.value)]
        case Take():
            return emit.take_fast(value.name)
        case Local():
            return [emit.load_fast(value.name)]
        case Cell():
            return [emit.load_closure(value.name)]
        case Reload():
            return load(value.way)
        case GraphResult():
            return [emit.load_fast(result_name(value.at))]
        case Item():
            return [*load(value.of), *load(value.key), emit.subscript()]
        case Call():
            code = emit.callee(load(value.function))
            for each in value.args:
                code += load(each)
            return [*code, *emit.call(len(value.args), value.names)]
        case Attribute():
            return [*load(value.of), emit.load_attr(value.name)]
        case Build():
            parts = [instruction for each in value.parts for instruction in load(each)]
            count = len(value.parts) // 2 if value.kind == "MAP" else len(value.parts)
            return [*parts, emit.build(value.kind, count)]
        case Binary():
            return _load_binary(value)
        case SetHandled():
            return [*load(value.error), emit.push_handled(), emit.pop_top()]
    assert isinstance(value, PushedNull)
    return [emit.push_null()]


def _load_binary(value: Binary) -> list[Instruction]:
    """A sum of many terms is deep on its left side, so that is walked in a loop."""
    spine: list[Binary] = []
    left: Value = value
    while isinstance(left, Binary):
        spine.append(left)
        left = left.left
    code = load(left)
    for each in reversed(spine):
        code += [*load(each.right), emit.binary_op(each.symbol)]
    return code


def run(steps: Iterable[Step]) -> list[Instruction]:
    """Run the steps of a plan in their order."""
    return [instruction for each in steps for instruction in _run(each)]


def _run(step: Step) -> list[Instruction]:
    match step:
        case Keep():
            return [*load(step.value), emit.store_fast(step.local.name)]
        case Do():
            return [*load(step.value), emit.pop_top()]
        case SetAttribute():
            return [*load(step.value), *load(step.of), emit.store_attr(step.name)]
        case DeleteAttribute():
            return [*load(step.of), emit.delete_attr(step.name)]
        case SetItem():
            return [*load(step.value), *load(step.of), *load(step.key), emit.store_subscript()]
    assert isinstance(step, Extend)
    return [*load(step.of), *load(step.items), emit.extend_list(), emit.pop_top()]
