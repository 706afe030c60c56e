"""Opcodes that build and unpack containers, and those of ``match``."""

from __future__ import annotations

import collections.abc
import sys

from dynamo_lite.bytecode import Instruction
from dynamo_lite.insight.break_reasons import FailsInPython
from dynamo_lite.variables.core.base import ObservedException, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import is_immutable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import key_of
from dynamo_lite.variables.python.classes.isinstance_checks import is_instance
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.containers.sets import SetVariable

from .opcodes import opcode
from .stack import pop_tuple
from .stack_machine import StackMachine


@opcode("BUILD_TUPLE")
def build_tuple(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(TupleVariable(tx.take(instruction.arg)))


@opcode("BUILD_LIST")
def build_list(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(ListVariable(tx.take(instruction.arg)))


@opcode("BUILD_SET")
def build_set(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(SetVariable.of(tx, tx.popn(instruction.arg)))


@opcode("BUILD_MAP")
def build_map(tx: StackMachine, instruction: Instruction) -> None:
    operands = tx.take(2 * instruction.arg)
    _push_dict(tx, operands[::2], operands[1::2])


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(tx: StackMachine, instruction: Instruction) -> None:
    keys = pop_tuple(tx).items
    _push_dict(tx, keys, tx.take(instruction.arg))


def _push_dict(tx: StackMachine, keys: list[VariableTracker], values: list[VariableTracker]) -> None:
    created = DictVariable({})
    for key, value in zip(keys, values):
        created.put(tx, key.realize(), value)
    tx.stack.append(created)


@opcode("BUILD_SLICE")
def build_slice(tx: StackMachine, instruction: Instruction) -> None:
    bounds = tx.popn(instruction.arg)
    tx.stack.append(SliceVariable(bounds if len(bounds) == 3 else [*bounds, ConstantVariable(None)]))


@opcode("LIST_APPEND")
def list_append(tx: StackMachine, instruction: Instruction) -> None:
    item = tx.stack.pop()
    tx.peek(instruction.arg).call_method(tx, "append", [item], {})


@opcode("SET_ADD")
def set_add(tx: StackMachine, instruction: Instruction) -> None:
    item = tx.pop()
    tx.peek(instruction.arg).call_method(tx, "add", [item], {})


@opcode("MAP_ADD")
def map_add(tx: StackMachine, instruction: Instruction) -> None:
    value, key = tx.pop(), tx.pop()
    tx.peek(instruction.arg).setitem(tx, key, value)


@opcode("LIST_EXTEND")
def list_extend(tx: StackMachine, instruction: Instruction) -> None:
    items = tx.pop()
    tx.check_iterable(items, f"Value after * must be an iterable, not {items.python_type().__name__}")
    tx.peek(instruction.arg).call_method(tx, "extend", [items], {})


@opcode("SET_UPDATE")
def set_update(tx: StackMachine, instruction: Instruction) -> None:
    items = tx.pop()
    tx.peek(instruction.arg).call_method(tx, "update", [items], {})


@opcode("DICT_UPDATE")
def dict_update(tx: StackMachine, instruction: Instruction) -> None:
    other = tx.pop()
    mapping = other.mapping_items(tx)
    if mapping is None:
        tx.raise_error(TypeError, f"'{other.python_type().__name__}' object is not a mapping")
    _dict_below(tx, instruction).add_items(tx, mapping)


def _dict_below(tx: StackMachine, instruction: Instruction) -> DictVariable:
    """The dict that the compiler is building at the instruction's depth."""
    target = tx.peek(instruction.arg)
    assert isinstance(target, DictVariable)
    return target


@opcode("DICT_MERGE")
def dict_merge(tx: StackMachine, instruction: Instruction) -> None:
    other = tx.pop()
    target = _dict_below(tx, instruction)
    try:
        mapping = other.mapping_items(tx)
    except ObservedException as observed:
        if issubclass(observed.error.python_type(), KeyError):  # CPython reports it as a repeated keyword
            unsupported(FailsInPython(f"`**` of {other.describe()}", "its items raise KeyError"))
        raise
    if mapping is None:
        unsupported(FailsInPython(f"`**` of {other.describe()}", "it is no mapping"))
    if not mapping.items.keys().isdisjoint(target.items):
        unsupported(FailsInPython("`**`", "it has a keyword argument that is given already"))
    target.add_items(tx, mapping)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(tx: StackMachine, instruction: Instruction) -> None:
    items = tx.pop()
    assert isinstance(items, ListVariable)
    tx.stack.append(TupleVariable(list(items.items)))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(tx: StackMachine, instruction: Instruction) -> None:
    value = tx.pop()
    wanted = instruction.arg
    items = tx.unpack(value, wanted + 1)
    if len(items) != wanted:
        few = len(items) < wanted
        tells = few or (sys.version_info >= (3, 14) and value.python_type() in (list, tuple, dict))
        got = f", got {len(items) if few else value.length(tx)}" if tells else ""
        tx.raise_error(ValueError, f"{'not enough' if few else 'too many'} values to unpack (expected {wanted}{got})")
    tx.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def unpack_ex(tx: StackMachine, instruction: Instruction) -> None:
    before, after = instruction.arg & 0xFF, instruction.arg >> 8
    items = tx.unpack(tx.pop())
    if len(items) < before + after:
        wanted = before + after
        tx.raise_error(ValueError, f"not enough values to unpack (expected at least {wanted}, got {len(items)})")
    middle = items[before : len(items) - after]
    parts: list[VariableTracker] = [*items[:before], ListVariable(middle), *items[len(items) - after :]]
    tx.stack.extend(reversed(parts))


@opcode("MATCH_SEQUENCE")
def match_sequence(tx: StackMachine, instruction: Instruction) -> None:
    kind = tx.peek().python_type()
    matches = issubclass(kind, collections.abc.Sequence) and not issubclass(kind, (str, bytes, bytearray))
    tx.stack.append(ConstantVariable(matches))


@opcode("MATCH_MAPPING")
def match_mapping(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(ConstantVariable(issubclass(tx.peek().python_type(), collections.abc.Mapping)))


@opcode("MATCH_KEYS")
def match_keys(tx: StackMachine, instruction: Instruction) -> None:
    keys, subject = tx.peek(), tx.peek(2)
    assert isinstance(keys, TupleVariable)
    if is_immutable(subject.python_type()):  # a class of the program may override ``get``
        subject = subject.builtin_part()
    if not isinstance(subject, DictVariable):
        tx.refuse(instruction, f"a mapping pattern is matched against {subject.describe()}, which is no dict")
    names = [key_of(tx, key) for key in keys.items]
    if all(key in subject.items for key in names):
        tx.stack.append(TupleVariable([subject.items[key] for key in names]))
    else:
        tx.stack.append(ConstantVariable(None))


@opcode("MATCH_CLASS")
def match_class(tx: StackMachine, instruction: Instruction) -> None:
    names, cls, subject = tx.pop(), tx.pop(), tx.pop()
    if not issubclass(cls.python_type(), type):
        tx.refuse(instruction, f"{cls.describe()} is no class")
    if not is_instance(tx, subject, cls):
        tx.stack.append(ConstantVariable(None))
        return
    declared = tx.attribute_or_none(cls, "__match_args__") if instruction.arg else None
    matches_itself = instruction.arg == 1 and declared is None and tx.python_value(cls).__flags__ & _MATCH_SELF
    count = 0 if matches_itself else instruction.arg
    positional = () if declared is None else tx.python_value(declared)
    attributes = [*positional[:count], *names.as_constant()]
    are_names = type(positional) is tuple and all(type(each) is str for each in attributes)
    if not are_names or len(attributes) != count + len(names.as_constant()) or len({*attributes}) < len(attributes):
        tx.refuse(instruction, "CPython raises a TypeError for this class pattern")
    found = [subject] if matches_itself else []
    for name in attributes:
        value = tx.attribute_or_none(subject, name)
        if value is None:
            tx.stack.append(ConstantVariable(None))
            return
        found.append(value)
    tx.stack.append(TupleVariable(found))


_MATCH_SELF = 1 << 22
"""``_Py_TPFLAGS_MATCH_SELF``: the one positional sub-pattern matches the subject itself."""
