"""Opcodes that raise, catch and re-raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_lite.bytecode import Instruction
from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import ObservedException, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.classes.class_checks import guarded_derives
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.objects.exception import (
    ExceptionInfoVariable,
    ExistingExceptionVariable,
    TracebackVariable,
    stop_iteration_to_runtime_error,
)

from .opcodes import opcode

if TYPE_CHECKING:
    from .core import InstructionTranslator


def _exception(tx: InstructionTranslator, value: VariableTracker) -> VariableTracker:
    """What ``raise value`` raises."""
    if isinstance(value, ClassVariable) and issubclass(value.value, BaseException):
        value = tx.call(value, [], {}).realize()
    if issubclass(value.python_type(), BaseException):
        return value
    tx.raise_error(TypeError, "exceptions must derive from BaseException")


@opcode("RAISE_VARARGS")
def raise_varargs(tx: InstructionTranslator, instruction: Instruction) -> None:
    if instruction.arg == 0:
        if tx.handled is None:
            tx.raise_error(RuntimeError, "No active exception to reraise")
        raise ObservedException(tx.handled)
    cause = tx.pop() if instruction.arg == 2 else None
    error = _exception(tx, tx.pop())
    if cause is not None:
        if not tx.is_none(cause):
            cause = _exception(tx, cause)
    if isinstance(error, ExistingExceptionVariable):
        unsupported(UnsupportedOperation("raising, which is noted in its traceback", error.describe()))
    if cause is not None:
        error.setattr(tx, "__cause__", cause)
    set_context(tx, error)
    raise ObservedException(error)


def set_context(tx: InstructionTranslator, error: VariableTracker) -> None:
    """Raising an exception while another is handled makes that its context. The chain gets no new cycle."""
    handled = tx.handled
    if handled is None or error is handled:
        return
    above = handled
    seen = {above}
    while True:
        next_ = above.getattr(tx, "__context__").realize()
        if next_ is error:
            above.setattr(tx, "__context__", ConstantVariable(None))
        if tx.is_none(next_) or next_ is error or next_ in seen:  # the program may have made a cycle
            break
        above = next_
        seen.add(above)
    error.setattr(tx, "__context__", handled)


@opcode("RERAISE")
def reraise(tx: InstructionTranslator, instruction: Instruction) -> None:
    raise ObservedException(tx.pop())


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(tx: InstructionTranslator, instruction: Instruction) -> None:
    tx.stack.append(tx.make(AssertionError))


@opcode("PUSH_EXC_INFO")
def push_exc_info(tx: InstructionTranslator, instruction: Instruction) -> None:
    error = tx.pop()
    tx.stack.append(ExceptionInfoVariable(tx.handled, error))
    tx.stack.append(error)
    tx.handled = error


@opcode("POP_EXCEPT")
def pop_except(tx: InstructionTranslator, instruction: Instruction) -> None:
    kept = tx.stack.pop()
    if not isinstance(kept, ExceptionInfoVariable):
        tx.refuse(instruction, "the handler was entered outside of the trace")
    kept.is_left = True
    tx.handled = kept.previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(tx: InstructionTranslator, instruction: Instruction) -> None:
    kinds = tx.pop()
    error = tx.stack[-1].realize()
    classes = [each.realize() for each in kinds.items] if isinstance(kinds, TupleVariable) else [kinds]
    for each in classes:
        if not isinstance(each, ClassVariable) or not issubclass(each.value, BaseException):
            tx.raise_error(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    kind = error.python_type()
    tx.stack.append(ConstantVariable(any(guarded_derives(tx, kind, each.value) for each in classes)))


@opcode("WITH_EXCEPT_START")
def with_except_start(tx: InstructionTranslator, instruction: Instruction) -> None:
    error, leave = tx.stack[-1].realize(), tx.stack[-4].realize()
    kind = tx.make(error.python_type())
    if isinstance(error, ExistingExceptionVariable):
        traceback = error.getattr(tx, "__traceback__")
    else:
        traceback = TracebackVariable()
    tx.stack.append(tx.call(leave, [kind, error, traceback], {}))


@opcode("CLEANUP_THROW")
def cleanup_throw(tx: InstructionTranslator, instruction: Instruction) -> None:
    """What was thrown into ``yield from`` has come out of the inner iterator."""
    error = tx.pop()
    if not issubclass(error.python_type(), StopIteration):
        raise ObservedException(error)
    del tx.stack[-2:]
    tx.stack += [ConstantVariable(None), error.getattr(tx, "value")]


@opcode("CALL_INTRINSIC_1")
def call_intrinsic_1(tx: InstructionTranslator, instruction: Instruction) -> None:
    handler = _INTRINSICS.get(instruction.arg)
    if handler is None:
        tx.refuse(instruction, f"intrinsic {instruction.arg} is not modelled")
    handler(tx)


def _stop_iteration_error(tx: InstructionTranslator) -> None:
    error = tx.stack[-1].realize()
    if issubclass(error.python_type(), StopIteration):
        tx.stack[-1] = stop_iteration_to_runtime_error(error)


def _unary_positive(tx: InstructionTranslator) -> None:
    tx.stack.append(tx.unary("+", tx.pop()))


def _list_to_tuple(tx: InstructionTranslator) -> None:
    tx.stack.append(TupleVariable(list(tx.pop().items)))


_INTRINSICS = {3: _stop_iteration_error, 5: _unary_positive, 6: _list_to_tuple}
