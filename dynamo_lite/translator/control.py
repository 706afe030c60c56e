"""Opcodes that move the instruction pointer: jumps, loops, ``with``, return, generators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dynamo_lite.bytecode import Instruction
from dynamo_lite.bytecode.instructions import EXIT_SIZE, ITERATOR_SIZE
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import DataDependentBranch
from dynamo_lite.insight.site import Site
from dynamo_lite.variables.core.base import Exhausted, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_number import DeferredNumberVariable
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.python.containers.iterators import GeneratorVariable
from dynamo_lite.variables.torch.contexts.streams import stream_context
from dynamo_lite.variables.torch.contexts.torch_contexts import ContextVariable, ExitVariable, as_context
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .opcodes import opcode
from .stack import constant_of_code
from .stack_machine import StackMachine


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: StackMachine, instruction: Instruction) -> None:
    target = instruction.target
    assert target is not None
    tx.pc = target.index


def _only_raises(instructions: Sequence[Instruction], at: int) -> bool:
    """Whether the code from this index on runs straight to a ``raise``."""
    for instruction in instructions[at:]:
        if instruction.opname == "RAISE_VARARGS":
            return True
        if instruction.target is not None or instruction.opname in _ENDS:
            return False
    return False


_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RERAISE", "YIELD_VALUE", "SEND"})


def _pop_truth(tx: StackMachine, instruction: Instruction, jumps_if: bool) -> bool:
    """Pop a value and return its truth value. If that depends on tensor data and one of the two branches only raises,
    the trace takes the other, and the graph gets a runtime assertion that the program does so too."""
    value = tx.pop()
    if isinstance(value, DeferredNumberVariable):
        truth = _assumed_truth(tx, instruction, jumps_if, value.tested_tensor(tx))
        if truth is None and value.can_be_tested_later(tx) and not _loops_since(tx, value.sites):
            unsupported(DataDependentBranch())
        return bool(tx.truth(value)) if truth is None else truth
    try:
        return bool(tx.truth(value))
    except Unsupported as error:
        if not isinstance(error.reason, DataDependentBranch):
            raise
        truth = _assumed_truth(tx, instruction, jumps_if, value.realize())
        if truth is None:
            raise
        return truth


def _loops_since(tx: StackMachine, reads: Iterable[Site]) -> bool:
    """Whether a loop around the current instruction began after a number was read: to break at the branch would break
    in each turn."""
    here, index = tx.site(), tx.current.index
    jumps = ((each.target.index, each.index) for each in tx.instructions if each.target is not None)
    loops = [(start, end) for start, end in jumps if start <= index <= end]
    callers = len(here) - 1
    for read in reads if loops else ():
        is_here = len(read) > callers and read[:callers] == here[:callers]
        if not is_here or any(not start <= read[callers].instruction <= end for start, end in loops):
            return True
    return False


def _assumed_truth(
    tx: StackMachine, instruction: Instruction, jumps_if: bool, condition: VariableTracker | None
) -> bool | None:
    """The truth value that a runtime assertion on the condition checks; None if no branch only raises."""
    if not isinstance(condition, TensorVariable):
        return None
    assert instruction.target is not None
    for truth, at in ((jumps_if, instruction.target.index), (not jumps_if, tx.pc)):
        if _only_raises(tx.instructions, at) and condition.expect(tx, not truth):
            return not truth
    return None


@opcode("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def pop_jump_if_true(tx: StackMachine, instruction: Instruction) -> None:
    if _pop_truth(tx, instruction, True):
        jump(tx, instruction)


@opcode("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def pop_jump_if_false(tx: StackMachine, instruction: Instruction) -> None:
    if not _pop_truth(tx, instruction, False):
        jump(tx, instruction)


@opcode("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
def pop_jump_if_none(tx: StackMachine, instruction: Instruction) -> None:
    if tx.is_none(tx.pop()):
        jump(tx, instruction)


@opcode("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")
def pop_jump_if_not_none(tx: StackMachine, instruction: Instruction) -> None:
    if not tx.is_none(tx.pop()):
        jump(tx, instruction)


@opcode("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def jump_if_or_pop(tx: StackMachine, instruction: Instruction) -> None:
    if tx.truth(tx.peek()) == (instruction.opname == "JUMP_IF_TRUE_OR_POP"):
        jump(tx, instruction)
    else:
        tx.stack.pop()


@opcode("GET_ITER", "GET_YIELD_FROM_ITER")
def get_iter(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(tx.iterate(tx.pop()))
    tx.stack += [NULL] * (ITERATOR_SIZE - 1)


@opcode("FOR_ITER")
def for_iter(tx: StackMachine, instruction: Instruction) -> None:
    try:
        tx.stack.append(tx.peek(ITERATOR_SIZE).next_lazily(tx))
    except Exhausted:
        del tx.stack[-ITERATOR_SIZE:]
        jump(tx, instruction)
        if tx.instructions[tx.pc].opname == "END_FOR":
            tx.pc += 1


@opcode("END_FOR")
def end_for(tx: StackMachine, instruction: Instruction) -> None:
    del tx.stack[-1 - ITERATOR_SIZE :]


@opcode("END_SEND")
def end_send(tx: StackMachine, instruction: Instruction) -> None:
    del tx.stack[-1 - ITERATOR_SIZE : -1]


@opcode("BEFORE_WITH")
def before_with(tx: StackMachine, instruction: Instruction) -> None:
    manager = stream_context(as_context(tx.pop()))
    if isinstance(manager, ContextVariable):
        manager.enter(tx)
        _push_entered(tx, ExitVariable(manager), manager.entered_value())
        return
    if EXIT_SIZE == 1:
        enter = tx.method_of_manager(manager, "__enter__")
        leave = tx.method_of_manager(manager, "__exit__", " (missed __exit__ method)")
    else:
        leave = tx.method_of_manager(manager, "__exit__", " (missed __exit__ method)")
        enter = tx.method_of_manager(manager, "__enter__", " (missed __enter__ method)")
    _push_entered(tx, leave, tx.call(enter, [], {}))


def _push_entered(tx: StackMachine, leave: VariableTracker, value: VariableTracker) -> None:
    tx.stack.append(leave)
    tx.stack += [NULL] * (EXIT_SIZE - 1)
    tx.stack.append(value)


@opcode("RETURN_VALUE")
def return_value(tx: StackMachine, instruction: Instruction) -> None:
    tx.returned = tx.stack.pop()
    tx.done = True


@opcode("RETURN_CONST")
def return_const(tx: StackMachine, instruction: Instruction) -> None:
    tx.returned = constant_of_code(tx, instruction.argval)
    tx.done = True


@opcode("RETURN_GENERATOR")
def return_generator(tx: StackMachine, instruction: Instruction) -> None:
    """The call of a generator function returns here. The generator continues this frame at the next instruction."""
    if tx.stack:  # of a generator expression of 3.15, which doesn't read its argument again
        tx.locals.pop(".0", None)
    tx.returned = GeneratorVariable(tx)
    tx.done = True


@opcode("YIELD_VALUE")
def yield_value(tx: StackMachine, instruction: Instruction) -> None:
    tx.yielded = tx.stack.pop()
    tx.done = True


@opcode("SEND")
def send(tx: StackMachine, instruction: Instruction) -> None:
    value = tx.pop()
    receiver = tx.peek(ITERATOR_SIZE)
    try:
        if isinstance(receiver, GeneratorVariable):
            item = receiver.send(tx, value)
        elif tx.is_none(value):
            item = receiver.next(tx)
        else:
            item = tx.next_by_call(receiver.getattr(tx, "send"), [value])
    except Exhausted as end:
        assert instruction.target is not None
        if instruction.target.opname != "END_SEND":  # which removes the iterator
            tx.stack.pop()
        tx.stack.append(ConstantVariable(None) if end.value is None else end.value)
        jump(tx, instruction)
    else:
        tx.stack.append(item)
