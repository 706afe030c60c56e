"""Opcodes that compute: unary, binary, comparison, subscripts, attributes, string formatting."""

from __future__ import annotations

from dynamo_lite.bytecode import BINARY_OPS, Instruction
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_text import concatenated
from dynamo_lite.variables.python.containers.sequences import SliceVariable

from .opcodes import opcode
from .stack import push_callable
from .stack_machine import StackMachine


@opcode("BINARY_OP")
def binary_op(tx: StackMachine, instruction: Instruction) -> None:
    right, left = tx.pop(), tx.pop()
    symbol = BINARY_OPS[instruction.arg]
    if symbol.endswith("="):
        tx.stack.append(tx.inplace(symbol.rstrip("="), left, right))
    else:
        tx.stack.append(tx.binary(symbol, left, right))


_UNARY = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~"}


@opcode(*_UNARY)
def unary_op(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.unary(_UNARY[instruction.opname], tx.pop()))


@opcode("UNARY_NOT")
def unary_not(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(ConstantVariable(not tx.truth(tx.pop())))


@opcode("TO_BOOL")
def to_bool(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(ConstantVariable(bool(tx.truth(tx.pop()))))


@opcode("COMPARE_OP")
def compare_op(tx: StackMachine, instruction: Instruction) -> None:
    right, left = tx.pop(), tx.pop()
    tx.stack.append(tx.compare(instruction.argval, left, right))


@opcode("IS_OP")
def is_op(tx: StackMachine, instruction: Instruction) -> None:
    right, left = tx.pop(), tx.pop()
    tx.stack.append(ConstantVariable(tx.identical(left, right) != bool(instruction.arg)))


@opcode("CONTAINS_OP")
def contains_op(tx: StackMachine, instruction: Instruction) -> None:
    container, item = tx.pop(), tx.pop()
    tx.stack.append(ConstantVariable(container.contains(tx, item) != bool(instruction.arg)))


@opcode("BINARY_SUBSCR")
def binary_subscr(tx: StackMachine, instruction: Instruction) -> None:
    key, container = tx.pop(), tx.pop()
    tx.stack.append(container.getitem(tx, key))


@opcode("STORE_SUBSCR")
def store_subscr(tx: StackMachine, instruction: Instruction) -> None:
    key, container = tx.pop(), tx.pop()
    value = tx.stack.pop()
    container.setitem(tx, key, value.realize())


@opcode("DELETE_SUBSCR")
def delete_subscr(tx: StackMachine, instruction: Instruction) -> None:
    key, container = tx.pop(), tx.pop()
    container.delitem(tx, key)


@opcode("BINARY_SLICE")
def binary_slice(tx: StackMachine, instruction: Instruction) -> None:
    stop, start, container = tx.pop(), tx.pop(), tx.pop()
    tx.stack.append(container.getitem(tx, SliceVariable([start, stop, ConstantVariable(None)])))


@opcode("STORE_SLICE")
def store_slice(tx: StackMachine, instruction: Instruction) -> None:
    stop, start, container, value = tx.pop(), tx.pop(), tx.pop(), tx.pop()
    container.setitem(tx, SliceVariable([start, stop, ConstantVariable(None)]), value)


@opcode("LOAD_ATTR")
def load_attr(tx: StackMachine, instruction: Instruction) -> None:
    found = tx.pop().getattr(tx, instruction.argval)
    if instruction.flag:
        push_callable(tx, found)
    else:
        tx.stack.append(found)


@opcode("LOAD_METHOD")
def load_method(tx: StackMachine, instruction: Instruction) -> None:
    found = tx.pop().getattr(tx, instruction.argval)
    push_callable(tx, found)


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(tx: StackMachine, instruction: Instruction) -> None:
    receiver, cls, function = tx.pop(), tx.pop(), tx.pop()
    found = tx.call(function, [cls, receiver], {}).realize().getattr(tx, instruction.argval)
    if instruction.flag:
        push_callable(tx, found)
    else:
        tx.stack.append(found)


@opcode("STORE_ATTR")
def store_attr(tx: StackMachine, instruction: Instruction) -> None:
    owner = tx.pop()
    value = tx.stack.pop()
    owner.setattr(tx, instruction.argval, value)


@opcode("DELETE_ATTR")
def delete_attr(tx: StackMachine, instruction: Instruction) -> None:
    tx.pop().delattr(tx, instruction.argval)


_CONVERSIONS = {1: str, 2: repr, 3: ascii}
"""By C functions: what the program has for these builtins doesn't matter."""


@opcode("FORMAT_VALUE")
def format_value(tx: StackMachine, instruction: Instruction) -> None:
    flags = instruction.arg
    spec: VariableTracker = tx.pop() if flags & 4 else ConstantVariable("")
    value = tx.pop()
    conversion = flags & 3
    if conversion:
        value = tx.call(tx.make(_CONVERSIONS[conversion]), [value], {}).realize()
    tx.stack.append(value.format(tx, spec))


@opcode("CONVERT_VALUE")
def convert_value(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.call(tx.make(_CONVERSIONS[instruction.arg]), [tx.pop()], {}))


@opcode("FORMAT_SIMPLE")
def format_simple(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.pop().format(tx, ConstantVariable("")))


@opcode("FORMAT_WITH_SPEC")
def format_with_spec(tx: StackMachine, instruction: Instruction) -> None:
    spec, value = tx.pop(), tx.pop()
    tx.stack.append(value.format(tx, spec))


@opcode("BUILD_STRING")
def build_string(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(concatenated(tx, tx.popn(instruction.arg)))


@opcode("GET_LEN")
def get_len(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.length(tx.peek()))
