"""Opcodes that raise, catch and re-raise."""

from __future__ import annotations

from dynamo_lite.bytecode import Instruction
from dynamo_lite.bytecode.instructions import EXIT_SIZE
from dynamo_lite.insight.break_reasons import RaisedExistingException
from dynamo_lite.variables.core.base import ObservedException, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.classes.isinstance_checks import guarded_derives
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.objects.exception import (
    ExceptionInfoVariable,
    ExceptionVariable,
    ExistingExceptionVariable,
    TracebackVariable,
    handled_exception,
    stop_iteration_to_runtime_error,
)

from .containers import list_to_tuple
from .opcodes import opcode
from .stack_machine import StackMachine


@opcode("RAISE_VARARGS")
def raise_varargs(tx: StackMachine, instruction: Instruction) -> None:
    if instruction.arg == 0:
        handled = handled_exception(tx)
        if handled is None:
            tx.raise_error(RuntimeError, "No active exception to reraise")
        raise ObservedException(handled)
    cause = tx.pop() if instruction.arg == 2 else None
    error = tx.exception_to_raise(tx.pop())
    if cause is not None and not tx.is_none(cause):
        cause = tx.exception_to_raise(cause)
    if isinstance(error, ExistingExceptionVariable):  # raising it adds this frame to its traceback
        unsupported(RaisedExistingException(error.describe()))
    if cause is not None:
        error.setattr(tx, "__cause__", cause)
    set_context(tx, error)
    if isinstance(error, ExceptionVariable):
        error.by_statement = True
    raise ObservedException(error)


def set_context(tx: StackMachine, error: VariableTracker) -> None:
    """Make the exception that is being handled the context of a raised one, as ``_PyErr_SetObject`` does: the chain of
    contexts gets no new cycle."""
    handled = tx.handled
    if handled is None or error is handled:
        return
    visited = [handled]
    while True:
        context = visited[-1].getattr(tx, "__context__").realize()
        if context is error:
            visited[-1].setattr(tx, "__context__", ConstantVariable(None))
        if tx.is_none(context) or context is error or context in visited:  # the program may have made a cycle
            break
        visited.append(context)
    error.setattr(tx, "__context__", handled)


@opcode("RERAISE")
def reraise(tx: StackMachine, instruction: Instruction) -> None:
    raise ObservedException(tx.pop())


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.make(AssertionError))


@opcode("PUSH_EXC_INFO")
def push_exc_info(tx: StackMachine, instruction: Instruction) -> None:
    error = tx.pop()
    tx.stack.append(ExceptionInfoVariable(tx.handled, error))
    tx.stack.append(error)
    tx.handled = error


@opcode("POP_EXCEPT")
def pop_except(tx: StackMachine, instruction: Instruction) -> None:
    saved = tx.stack.pop()
    if not isinstance(saved, ExceptionInfoVariable):
        tx.refuse(instruction, "the handler was entered before tracing began")
    saved.is_left = True
    tx.handled = saved.previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(tx: StackMachine, instruction: Instruction) -> None:
    caught = tx.pop()
    classes: list[type] = []
    for each in caught.items if isinstance(caught, TupleVariable) else [caught]:
        cls = each.realize()
        if not isinstance(cls, ClassVariable) or not issubclass(cls.value, BaseException):
            tx.raise_error(TypeError, "catching classes that do not inherit from BaseException is not allowed")
        classes.append(cls.value)
    kind = tx.peek().python_type()
    tx.stack.append(ConstantVariable(any(guarded_derives(tx.guards, kind, cls) for cls in classes)))


@opcode("WITH_EXCEPT_START")
def with_except_start(tx: StackMachine, instruction: Instruction) -> None:
    error, leave = tx.peek(), tx.peek(3 + EXIT_SIZE)
    kind = tx.make(error.python_type())
    if isinstance(error, ExistingExceptionVariable):
        traceback = error.getattr(tx, "__traceback__")
    else:
        traceback = TracebackVariable()
    tx.stack.append(tx.call(leave, [kind, error, traceback], {}))


@opcode("CALL_INTRINSIC_1")
def call_intrinsic_1(tx: StackMachine, instruction: Instruction) -> None:
    handler = _INTRINSICS.get(instruction.arg)
    if handler is None:
        tx.refuse(instruction, f"intrinsic {instruction.arg} is not modelled")
    handler(tx, instruction)


def _stop_iteration_error(tx: StackMachine, instruction: Instruction) -> None:
    error = tx.peek()
    if issubclass(error.python_type(), StopIteration):
        tx.stack[-1] = stop_iteration_to_runtime_error(error)


def _unary_positive(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.unary("+", tx.pop()))


_INTRINSICS = {3: _stop_iteration_error, 5: _unary_positive, 6: list_to_tuple}
