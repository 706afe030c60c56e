"""Opcodes that move values: constants, locals, cells, globals, the stack itself."""

from __future__ import annotations

from typing import NoReturn

from dynamo_lite.bytecode import Instruction
from dynamo_lite.bytecode.instructions import CALLABLE_FIRST, LOADS_CELLS
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import check_cell, check_global
from dynamo_lite.variables.core.null import NULL, unbound_local
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.functions.function import CellVariable

from .opcodes import opcode
from .stack_machine import StackMachine


@opcode("NOP", "RESUME", "PRECALL", "COPY_FREE_VARS")
def nop(tx: StackMachine, instruction: Instruction) -> None:
    pass


@opcode("POP_TOP")
def pop_top(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.pop()


@opcode("PUSH_NULL")
def push_null(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(NULL)


@opcode("COPY")
def copy(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.stack[-instruction.arg])


@opcode("SWAP")
def swap(tx: StackMachine, instruction: Instruction) -> None:
    stack, depth = tx.stack, instruction.arg
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@opcode("LOAD_CONST")
def load_const(tx: StackMachine, instruction: Instruction) -> None:
    value = instruction.argval
    kind = type(value)
    if kind is int or kind is str or value is None or kind is bool or kind is float:
        tx.stack.append(ConstantVariable(value))
    else:
        tx.stack.append(constant_of_code(tx, value))


def constant_of_code(tx: StackMachine, value: object) -> VariableTracker:
    """The tracker of one of the code object's constants."""
    return tx.attempt.values.constant_tuple(value) if type(value) is tuple else tx.make(value)


def pop_tuple(tx: StackMachine) -> TupleVariable:
    """Take a tuple that the compiler put on the stack."""
    value = tx.pop()
    assert isinstance(value, TupleVariable)
    return value


@opcode("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(tx: StackMachine, instruction: Instruction) -> None:
    found = tx.locals.get(instruction.argval)
    if found is None:
        if LOADS_CELLS and instruction.argval in tx.cells:
            tx.stack.append(tx.cells[instruction.argval])
            return
        tx.raise_error(UnboundLocalError, unbound_local(instruction.argval))
    tx.stack.append(found)


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.locals.pop(instruction.argval, NULL))


@opcode("STORE_FAST")
def store_fast(tx: StackMachine, instruction: Instruction) -> None:
    value = tx.stack.pop()
    if value is NULL:
        tx.locals.pop(instruction.argval, None)
    elif isinstance(value, CellVariable) and instruction.argval in tx.cells:
        tx.cells[instruction.argval] = value  # the end of a comprehension: see `make_cell`
    else:
        tx.locals[instruction.argval] = value


@opcode("DELETE_FAST")
def delete_fast(tx: StackMachine, instruction: Instruction) -> None:
    if tx.locals.pop(instruction.argval, None) is None:
        tx.raise_error(UnboundLocalError, unbound_local(instruction.argval))


@opcode("MAKE_CELL")
def make_cell(tx: StackMachine, instruction: Instruction) -> None:
    """Create the cell of a variable. A comprehension runs in the function's own frame (PEP 709): where both have a
    variable of this name, the comprehension's cell replaces the function's, which LOAD_FAST_AND_CLEAR has just pushed
    on the stack. The STORE_FAST at the comprehension's end puts that back."""
    name = instruction.argval
    is_free_too = name in tx.code.co_cellvars and name in tx.code.co_freevars  # 3.12 doesn't restore the free variable
    if name in tx.cells and not is_free_too:
        tx.stack[-1] = tx.cells[name]
    tx.cells[name] = CellVariable(tx.locals.pop(name, None), creator=(tx, name), body=tx.graph.scope)


@opcode("LOAD_CLOSURE")
def load_closure(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.cells[instruction.argval])


@opcode("LOAD_DEREF")
def load_deref(tx: StackMachine, instruction: Instruction) -> None:
    content = tx.cells[instruction.argval].load()
    if content is None:
        _raise_unbound_cell(tx, instruction.argval)
    if tx.graph.scope.is_nested:
        check_cell(tx, tx.cells[instruction.argval], instruction.argval, content)
    tx.stack.append(content)


def _raise_unbound_cell(tx: StackMachine, name: str) -> NoReturn:
    if name in tx.original.co_cellvars:
        tx.raise_error(UnboundLocalError, unbound_local(name))
    message = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
    tx.raise_error(NameError, message)


@opcode("STORE_DEREF")
def store_deref(tx: StackMachine, instruction: Instruction) -> None:
    tx.cells[instruction.argval].set(tx, tx.stack.pop())


@opcode("DELETE_DEREF")
def delete_deref(tx: StackMachine, instruction: Instruction) -> None:
    cell = tx.cells[instruction.argval]
    if cell.load() is None:
        _raise_unbound_cell(tx, instruction.argval)
    cell.set(tx, None)


@opcode("LOAD_GLOBAL")
def load_global(tx: StackMachine, instruction: Instruction) -> None:
    name = instruction.argval
    value = tx.scope.load(name)
    if value is None:
        value = load_builtin(tx, name)
    elif tx.graph.scope.is_nested:
        check_global(tx, tx.scope, name, value)
    if instruction.flag:
        push_callable(tx, value)
    else:
        tx.stack.append(value)


def push_callable(tx: StackMachine, value: VariableTracker) -> None:
    """Push a callable, and the NULL beside it."""
    tx.stack += (value, NULL) if CALLABLE_FIRST else (NULL, value)


def load_builtin(tx: StackMachine, name: str) -> VariableTracker:
    value = tx.attempt.values.builtin(name)
    if value is None:
        tx.raise_error(NameError, f"name '{name}' is not defined")
    return value


@opcode("STORE_GLOBAL")
def store_global(tx: StackMachine, instruction: Instruction) -> None:
    tx.scope.store(instruction.argval, tx.stack.pop())


@opcode("DELETE_GLOBAL")
def delete_global(tx: StackMachine, instruction: Instruction) -> None:
    name = instruction.argval
    if tx.scope.load(name) is None:
        tx.raise_error(NameError, f"name '{name}' is not defined")
    tx.scope.store(name, None)
