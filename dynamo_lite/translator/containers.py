"""Opcodes that build and take apart containers, and those of ``match``."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING, Any

from dynamo_lite.bytecode import Instruction
from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import ObservedException, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import key_of
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.containers.sets import SetVariable

from .calls import name_of_called
from .opcodes import opcode

if TYPE_CHECKING:
    from .core import InstructionTranslator


@opcode("BUILD_TUPLE")
def build_tuple(tx: InstructionTranslator, instruction: Instruction) -> None:
    tx.stack.append(TupleVariable(tx.take(instruction.arg)))


@opcode("BUILD_LIST")
def build_list(tx: InstructionTranslator, instruction: Instruction) -> None:
    tx.stack.append(ListVariable(tx.take(instruction.arg)))


@opcode("BUILD_SET")
def build_set(tx: InstructionTranslator, instruction: Instruction) -> None:
    tx.stack.append(SetVariable.of(tx, tx.popn(instruction.arg)))


@opcode("BUILD_MAP")
def build_map(tx: InstructionTranslator, instruction: Instruction) -> None:
    parts = tx.take(2 * instruction.arg)
    made = DictVariable({})
    for key, value in zip(parts[::2], parts[1::2]):
        made.put(tx, key.realize(), value)
    tx.stack.append(made)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(tx: InstructionTranslator, instruction: Instruction) -> None:
    keys = tx.pop()
    values = tx.take(instruction.arg)
    made = DictVariable({})
    for key, value in zip(keys.items, values):
        made.put(tx, key.realize(), value)
    tx.stack.append(made)


@opcode("BUILD_SLICE")
def build_slice(tx: InstructionTranslator, instruction: Instruction) -> None:
    parts = tx.popn(instruction.arg)
    tx.stack.append(SliceVariable(parts if len(parts) == 3 else [*parts, ConstantVariable(None)]))


@opcode("LIST_APPEND")
def list_append(tx: InstructionTranslator, instruction: Instruction) -> None:
    item = tx.stack.pop()
    tx.stack[-instruction.arg].realize().method_append(tx, item)


@opcode("SET_ADD")
def set_add(tx: InstructionTranslator, instruction: Instruction) -> None:
    item = tx.pop()
    tx.stack[-instruction.arg].realize().method_add(tx, item)


@opcode("MAP_ADD")
def map_add(tx: InstructionTranslator, instruction: Instruction) -> None:
    value, key = tx.pop(), tx.pop()
    tx.stack[-instruction.arg].realize().setitem(tx, key, value)


@opcode("LIST_EXTEND")
def list_extend(tx: InstructionTranslator, instruction: Instruction) -> None:
    items = tx.pop()
    tx.check_iterable(items, f"Value after * must be an iterable, not {items.python_type().__name__}")
    tx.stack[-instruction.arg].realize().method_extend(tx, items)


@opcode("SET_UPDATE")
def set_update(tx: InstructionTranslator, instruction: Instruction) -> None:
    items = tx.pop()
    tx.stack[-instruction.arg].realize().method_update(tx, items)


@opcode("DICT_UPDATE")
def dict_update(tx: InstructionTranslator, instruction: Instruction) -> None:
    other = tx.pop()
    mapping = tx.as_dict(other)
    if mapping is None:
        tx.raise_error(TypeError, f"'{other.python_type().__name__}' object is not a mapping")
    tx.stack[-instruction.arg].realize().method_update(tx, mapping)


@opcode("DICT_MERGE")
def dict_merge(tx: InstructionTranslator, instruction: Instruction) -> None:
    other = tx.pop()
    target = tx.stack[-instruction.arg].realize()
    try:
        mapping = tx.as_dict(other)
    except ObservedException as observed:
        if issubclass(observed.error.python_type(), KeyError):  # which CPython takes for a key that is there twice
            unsupported(UnsupportedOperation("**", f"{other.describe()}, which raises a KeyError"))
        raise
    if mapping is None:
        what = f"argument after ** must be a mapping, not {other.python_type().__name__}"
        tx.raise_error(TypeError, f"{name_of_called(tx, tx.stack[-instruction.arg - 2])} {what}")
    for key in mapping.items:
        if key in target.items:
            what = f"got multiple values for keyword argument '{key}'"
            tx.raise_error(TypeError, f"{name_of_called(tx, tx.stack[-instruction.arg - 2])} {what}")
    target.method_update(tx, mapping)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(tx: InstructionTranslator, instruction: Instruction) -> None:
    tx.stack.append(TupleVariable(list(tx.pop().items)))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(tx: InstructionTranslator, instruction: Instruction) -> None:
    value = tx.pop()
    wanted = instruction.arg
    items = tx.unpack(value, wanted + 1)
    if len(items) != wanted:
        few = len(items) < wanted
        message = f"not enough values to unpack (expected {wanted}, got {len(items)})"
        tx.raise_error(ValueError, message if few else f"too many values to unpack (expected {wanted})")
    tx.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def unpack_ex(tx: InstructionTranslator, instruction: Instruction) -> None:
    before, after = instruction.arg & 0xFF, instruction.arg >> 8
    items = tx.unpack(tx.pop())
    if len(items) < before + after:
        wanted = before + after
        tx.raise_error(ValueError, f"not enough values to unpack (expected at least {wanted}, got {len(items)})")
    middle = items[before : len(items) - after]
    parts: list[VariableTracker] = [*items[:before], ListVariable(middle), *items[len(items) - after :]]
    tx.stack.extend(reversed(parts))


@opcode("MATCH_SEQUENCE")
def match_sequence(tx: InstructionTranslator, instruction: Instruction) -> None:
    kind = tx.stack[-1].realize().python_type()
    matches = issubclass(kind, collections.abc.Sequence) and not issubclass(kind, (str, bytes, bytearray))
    tx.stack.append(ConstantVariable(matches))


@opcode("MATCH_MAPPING")
def match_mapping(tx: InstructionTranslator, instruction: Instruction) -> None:
    kind = tx.stack[-1].realize().python_type()
    tx.stack.append(ConstantVariable(issubclass(kind, collections.abc.Mapping)))


@opcode("MATCH_KEYS")
def match_keys(tx: InstructionTranslator, instruction: Instruction) -> None:
    keys, subject = tx.stack[-1].realize(), tx.stack[-2].realize()
    if not isinstance(subject, DictVariable):
        tx.refuse(instruction, "the subject is no dict")
    wanted = [key_of(tx, key) for key in keys.items]
    if all(key in subject.items for key in wanted):
        tx.stack.append(TupleVariable([subject.items[key] for key in wanted]))
    else:
        tx.stack.append(ConstantVariable(None))


@opcode("MATCH_CLASS")
def match_class(tx: InstructionTranslator, instruction: Instruction) -> None:
    names, cls, subject = tx.pop(), tx.pop(), tx.pop()
    if not issubclass(cls.python_type(), type):
        tx.fold(_match_by_no_class, ())
    found = _attributes(tx, subject, cls, instruction.arg, names) if tx.is_instance(subject, cls) else None
    tx.stack.append(ConstantVariable(None) if found is None else TupleVariable(found))


def _match_by_no_class() -> None:
    """Versions of Python differ in what they say of it."""
    no_class: Any = None
    match None:
        case no_class():
            pass


def _attributes(
    tx: InstructionTranslator, subject: VariableTracker, cls: VariableTracker, count: int, names: VariableTracker
) -> list[VariableTracker] | None:
    """What a class pattern is held against; None where the subject lacks one of the attributes."""
    found: list[VariableTracker] = []
    attributes: list[str] = []
    kind = cls.value  # type: ignore[attr-defined]
    if count:
        declared = tx.attribute_or_none(cls, "__match_args__")
        if declared is not None and declared.realize().python_type() is not tuple:
            name = declared.realize().python_type().__name__
            tx.raise_error(TypeError, f"{kind.__name__}.__match_args__ must be a tuple (got {name})")
        by_itself = declared is None and bool(kind.__flags__ & _MATCH_SELF)
        positional = [] if declared is None else declared.elements(tx)
        allowed = 1 if by_itself else len(positional)
        if allowed < count:
            what = f"{allowed} positional sub-pattern{'' if allowed == 1 else 's'} ({count} given)"
            tx.raise_error(TypeError, f"{kind.__name__}() accepts {what}")
        if by_itself:
            found.append(subject)
        attributes.extend(_match_arg(tx, each.realize()) for each in positional[:count])
    attributes.extend(names.as_constant())
    for at, name in enumerate(attributes):
        if name in attributes[:at]:
            tx.raise_error(TypeError, f"{kind.__name__}() got multiple sub-patterns for attribute {name!r}")
        value = tx.attribute_or_none(subject, name)
        if value is None:
            return None
        found.append(value)
    return found


def _match_arg(tx: InstructionTranslator, name: VariableTracker) -> str:
    if name.python_type() is not str:
        kind = name.python_type().__name__
        tx.raise_error(TypeError, f"__match_args__ elements must be strings (got {kind})")
    return tx.python_value(name)  # type: ignore[no-any-return]


_MATCH_SELF = 1 << 22
"""A class whose instances are matched as a whole, as those of what derives from it are."""
