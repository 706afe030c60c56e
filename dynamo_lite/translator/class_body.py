"""Opcodes of class bodies: names in the namespace that becomes the class's."""

from __future__ import annotations

from typing import Any

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.containers.mapping import DictVariable

from .opcodes import opcode
from .stack import load_deref, load_global_name


def _namespace(tx: Any, instruction: Any) -> VariableTracker:
    if tx.namespace is None:
        tx.refuse(instruction, "it belongs to class bodies and modules, which run once")
    return tx.namespace


def _find(tx: Any, namespace: VariableTracker, name: str) -> VariableTracker | None:
    key = ConstantVariable(name)
    return namespace.getitem(tx, key) if namespace.contains(tx, key) else None


@opcode("LOAD_NAME")
def load_name(tx: Any, instruction: Any) -> None:
    found = _find(tx, _namespace(tx, instruction), instruction.argval)
    tx.stack.append(found if found is not None else load_global_name(tx, instruction.argval))


@opcode("STORE_NAME")
def store_name(tx: Any, instruction: Any) -> None:
    _namespace(tx, instruction).setitem(tx, ConstantVariable(instruction.argval), tx.stack.pop())


@opcode("DELETE_NAME")
def delete_name(tx: Any, instruction: Any) -> None:
    namespace, name = _namespace(tx, instruction), instruction.argval
    if _find(tx, namespace, name) is None:
        tx.raise_name_error(name, f"name '{name}' is not defined")
    namespace.delitem(tx, ConstantVariable(name))


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(tx: Any, instruction: Any) -> None:
    namespace = _namespace(tx, instruction)
    if _find(tx, namespace, "__annotations__") is None:
        namespace.setitem(tx, ConstantVariable("__annotations__"), DictVariable({}))


@opcode("LOAD_CLASSDEREF")
def load_classderef(tx: Any, instruction: Any) -> None:
    found = _find(tx, _namespace(tx, instruction), instruction.argval)
    if found is not None:
        tx.stack.append(found)
    else:
        load_deref(tx, instruction)


@opcode("LOAD_LOCALS")
def load_locals(tx: Any, instruction: Any) -> None:
    tx.stack.append(_namespace(tx, instruction))


@opcode("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(tx: Any, instruction: Any) -> None:
    found = _find(tx, tx.pop(), instruction.argval)
    if found is not None:
        tx.stack.append(found)
    else:
        load_deref(tx, instruction)


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(tx: Any, instruction: Any) -> None:
    found = _find(tx, tx.pop(), instruction.argval)
    tx.stack.append(found if found is not None else load_global_name(tx, instruction.argval))
