"""The state of an interpreted frame: its stack, variables and position. Handlers of opcodes work on it."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn

from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.attempt.side_effects import SideEffects
from dynamo_lite.bytecode import Instruction
from dynamo_lite.insight.break_reasons import UnsupportedOpcode
from dynamo_lite.resume.resume_code import instructions_of, original_position
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.interfaces import Globals
from dynamo_lite.variables.core.reachable import Holder
from dynamo_lite.variables.python.functions.function import CellVariable

from .operations import Operations


class Frame(NamedTuple):
    """What a frame starts with: code, globals, arguments, closure."""

    code: types.CodeType
    scope: Globals[VariableTracker]
    locals: dict[str, VariableTracker]
    """The arguments by name."""
    closure: Sequence[CellVariable]


class StackMachine(Operations, Holder):
    """State of the frame: ``stack``, ``locals`` (bound ones only), ``cells``, ``pc`` (index of the next instruction),
    ``handled`` (the exception that is being handled), ``kw_names`` (of the next call).
    """

    attempt: Attempt
    effects: SideEffects
    scope: Globals[VariableTracker]
    cells: dict[str, CellVariable]
    call_from_instruction: Callable[[VariableTracker, Args, Kwargs], VariableTracker]
    """Makes the call of the current instruction."""

    def __init__(self, attempt: Attempt, frame: Frame, parent: StackMachine | None = None) -> None:
        code = frame.code
        self.attempt = attempt
        self.guards = attempt.guards
        self.graph = attempt.graph
        self.effects = attempt.effects
        self.code = code
        self.instructions, self.pc = instructions_of(code)
        self.original: types.CodeType = original_position(code, 0)[0]
        """The user's code; for a resume function, the code that it continues."""
        attempt.has_handlers = attempt.has_handlers or bool(self.original.co_exceptiontable)
        self.scope = frame.scope
        self.locals = frame.locals
        self.cells = dict(zip(code.co_freevars, frame.closure))
        self.parent: StackMachine | None = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.stack: list[VariableTracker] = []
        self.current: Instruction = self.instructions[self.pc]
        self.kw_names: tuple[str, ...] = ()
        self.handled: VariableTracker | None = None if parent is None else parent.handled
        self.steps = 0
        """How many instructions were interpreted in this frame."""
        self.done = False
        self.started = False
        self.returned: VariableTracker | None = None
        self.yielded: VariableTracker | None = None

    def children(self) -> Iterable[object]:
        return (*self.locals.values(), *self.stack, *self.cells.values())

    def close(self) -> None:
        """Drop the references to user values."""
        self.stack, self.locals, self.cells = [], {}, {}
        self.parent = self.returned = self.yielded = self.handled = None

    # -- the stack -------------------------------------------------------------------------------------------------

    def pop(self) -> VariableTracker:
        """Pop the top of the stack and realize it."""
        return self.stack.pop().realize()

    def peek(self, depth: int = 1) -> VariableTracker:
        """Realize a value without popping it: the top of the stack, or one further down."""
        return self.stack[-depth].realize()

    def popn(self, count: int) -> list[VariableTracker]:
        """Pop several values, bottom first, and realize them."""
        return [each.realize() for each in self.take(count)]

    def take(self, count: int) -> list[VariableTracker]:
        """Pop several values, bottom first, without realizing (and so guarding) them."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def refuse(self, instruction: Instruction, why: str) -> NoReturn:
        unsupported(UnsupportedOpcode(instruction.opname, why))
