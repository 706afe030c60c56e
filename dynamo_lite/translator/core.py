"""The symbolic stack machine: one object a frame, the root's or an inlined one's."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from traceback import FrameSummary
from typing import Any, NoReturn

from dynamo_lite import config
from dynamo_lite.bytecode import Instruction, decode
from dynamo_lite.codegen.python_codegen import PyCodegen
from dynamo_lite.exc import InternalError, Unsupported
from dynamo_lite.insight.break_reasons import InlineLimit, UncaughtException, UnsupportedOpcode, UnsupportedOperation
from dynamo_lite.insight.site import Site, SiteFrame
from dynamo_lite.records.code_origin import is_polyfill
from dynamo_lite.resume.generators import parts_of, rebuild
from dynamo_lite.resume.graph_break import is_call_of_broken_callee, original_position
from dynamo_lite.resume.nested_break import can_break_inside
from dynamo_lite.variables import kinds  # noqa: F401  (registers them)
from dynamo_lite.variables.core.base import (
    Args,
    CreatingCall,
    Exhausted,
    Kwargs,
    NotConstant,
    ObservedException,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.reachable import Holder
from dynamo_lite.variables.python.functions.arguments import bind_arguments
from dynamo_lite.variables.python.functions.function import CellVariable, GlobalScope
from dynamo_lite.variables.python.objects.exception import (
    ExceptionInfoVariable,
    ExceptionVariable,
    stop_iteration_to_runtime_error,
)

from . import calls, containers, control, exceptions, operators, stack  # noqa: F401  (they register the handlers)
from .attempt import Attempt
from .opcodes import HANDLERS, REFUSED
from .operations import Operations

_MOST_OPERANDS = 3
"""That instructions other than calls take from the stack."""


class BreakHere(Exception):
    """The root frame has come to the step where the graph is to be broken."""


class InstructionTranslator(Operations, Holder):
    """Interprets one frame's bytecode over trackers.

    State of the frame: ``stack``, ``locals`` (bound ones only), ``cells``, ``pc`` (index of the next instruction),
    ``handled`` (the exception that is being handled), ``kw_names`` (of the call under way).
    """

    keeps_sent_iterator = sys.version_info >= (3, 12)

    def __init__(
        self,
        attempt: Attempt,
        code: types.CodeType,
        scope: GlobalScope,
        locals_: dict[str, VariableTracker],
        closure: list[CellVariable],
        parent: InstructionTranslator | None = None,
    ) -> None:
        self.attempt = attempt
        self.guards = attempt.guards
        self.graph = attempt.graph
        self.effects = attempt.effects
        self.code = code
        attempt.guards.constants.note_code(code)
        if code.co_cellvars:
            attempt.cell_frames.append(self)
        self.own_cells: tuple[str, ...] = code.co_cellvars
        """Names of the cells that the program's code makes; a resume function is given them."""
        self.instructions = decode(code)
        self.original: types.CodeType = original_position(code, 0)[0]
        """The program's own code."""
        attempt.has_handlers = attempt.has_handlers or bool(self.original.co_exceptiontable)
        self.scope = scope
        self.locals = locals_
        self.cells: dict[str, CellVariable] = dict(zip(code.co_freevars, closure))
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.stack: list[VariableTracker] = []
        self.pc = 0
        self.current: Any = None
        self.kw_names: tuple[str, ...] = ()
        self.handled: VariableTracker | None = None if parent is None else parent.handled
        self.steps = 0
        """How many instructions it came to."""
        self._tail: tuple[int, Any] = (0, None)
        """A step, and the function whose result is that of the call which the step makes."""
        self.done = False
        self.started = False
        self.returned: VariableTracker | None = None
        self.yielded: VariableTracker | None = None

    def held(self) -> Iterable[Any]:
        return (*self.locals.values(), *self.stack, *self.cells.values())

    def close(self) -> None:
        """Let go of the program's values."""
        self.stack, self.locals, self.cells = [], {}, {}
        self.parent = self.returned = self.yielded = self.handled = None

    # -- the stack -------------------------------------------------------------------------------------------------

    def pop(self) -> VariableTracker:
        """Take the top of the stack and look at it."""
        return self.stack.pop().realize()

    def popn(self, count: int) -> list[VariableTracker]:
        if not count:
            return []
        found = [each.realize() for each in self.stack[-count:]]
        del self.stack[-count:]
        return found

    def take(self, count: int) -> list[VariableTracker]:
        """Like `popn`, without looking at them."""
        if not count:
            return []
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Interpret until the frame returns or yields. Raises the ObservedException that leaves the frame."""
        attempt = self.attempt
        instructions = self.instructions
        self.done = False
        outer, attempt.innermost = attempt.innermost, self
        try:
            while not self.done:
                instruction = self.current = instructions[self.pc]
                self.pc += 1
                attempt.steps += 1
                self.steps += 1
                if attempt.steps >= attempt.pauses_at:
                    self._pause(instruction)
                self.step(instruction)
        finally:
            attempt.innermost = outer

    def _pause(self, instruction: Instruction) -> None:
        """At the limit, or at a step at which numbers have to be known."""
        if self.attempt.steps > config.unroll_limit:
            what = f"more than {config.unroll_limit} bytecodes were traced"
            unsupported(UnsupportedOpcode(instruction.opname, what))
        count = instruction.arg + 2 if instruction.opname.startswith("CALL") else _MOST_OPERANDS
        self.attempt.settle(self.stack[-count:], (self.site_frame(),))

    def step(self, instruction: Instruction) -> None:
        handler = HANDLERS.get(instruction.opname)
        if handler is None:
            self.refuse(instruction, REFUSED.get(instruction.opname, "it is not known"))
        try:
            handler(self, instruction)
        except ObservedException as observed:
            self.unwind(instruction, observed)
        except NotConstant as error:
            unsupported(UnsupportedOperation(instruction.opname, f"a value that is not known ({error})"))

    def unwind(self, instruction: Instruction, observed: ObservedException) -> None:
        """Go to the handler that covers the instruction, as CPython's exception table says, or leave the frame."""
        found = instruction.handler
        self.note_raise(observed)
        if found is None:
            try:
                raise observed
            finally:
                del observed  # its traceback holds this frame: they would keep each other
        del self.stack[found.depth :]
        if found.lasti:
            self.stack.append(ConstantVariable(instruction.index))
        self.stack.append(observed.error)
        self.pc = found.target.index
        self.kw_names = ()

    def note_raise(self, observed: ObservedException) -> None:
        """Remember where the root was when this was raised first."""
        if self.parent is not None:
            self.parent.note_raise(observed)

    def refuse(self, instruction: Instruction, why: str) -> NoReturn:
        unsupported(UnsupportedOpcode(instruction.opname, why))

    # -- calls -----------------------------------------------------------------------------------------------------

    def call_from_instruction(self, function: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Make the call that the current instruction is."""
        self._tail = self.steps, function
        return self.call(function, args, kwargs)

    def delegate(self, caller: VariableTracker, function: VariableTracker) -> None:
        """What is called calls something else in its place: the same arguments or more, the same result."""
        if self._tail[1] is caller:
            self._tail = self._tail[0], function.realize()

    def call_function(self, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a Python function by its model, or inline it."""
        is_tail, self._tail = self._tail == (self.steps, function), (0, None)
        known = self.find_model(function)
        if known is not None:
            return known(self, args, kwargs)
        return self.inline(function, args, kwargs, is_tail)

    def inline(self, function: Any, args: Args, kwargs: Kwargs, is_tail: bool = False) -> VariableTracker:
        """Trace the body of a Python function in place of its call."""
        code = function.code
        self.check_inlinable(function)
        if self.depth >= config.inline_limit:
            unsupported(InlineLimit(function.describe(), config.inline_limit))
        bound = bind_arguments(self, function, args, kwargs)
        callee = self.inlined(is_tail, code, function.scope(self), bound, function.cells(self))
        before = self.graph.operators
        try:
            callee.run()
        except ObservedException as observed:
            if observed.error.source is not None and not is_polyfill(code):  # its traceback takes the frame in
                unsupported(UncaughtException(observed.error.describe()))
            raise
        except Unsupported as error:
            callee.add_frame_to_stack(error)
            gains = self.graph.operators > before or is_call_of_broken_callee(self)
            enters = is_tail and gains
            error.path = (callee.steps, *error.path) if enters and can_break_inside(callee, error.path) else ()
            raise
        assert callee.returned is not None
        if self.attempt.answers.branched:
            self.attempt.answers.leave(callee, callee.returned, self.effects.count)
        return callee.returned

    def inlined(self, is_tail: bool, *frame: Any) -> InstructionTranslator:
        """The translator of a frame that this one calls. ``is_tail``: what it returns is the current call's result."""
        return InstructionTranslator(self.attempt, *frame, parent=self)

    def resume_generator(
        self, tx: InstructionTranslator, value: VariableTracker, error: VariableTracker | None = None
    ) -> VariableTracker:
        """Run this generator's frame to its next yield, where ``error`` is given by raising it where it waits.

        Raises `Exhausted` with what it returns."""
        self.parent = tx
        self.depth = tx.depth + 1
        if self.depth >= config.inline_limit:
            unsupported(InlineLimit(self.code.co_qualname, config.inline_limit))
        self._enter_handled_state(tx)
        self.yielded = None
        try:
            if error is None:
                self.stack.append(value)
                self.started = True
                self.run()
            else:
                self._throw(error)
        except Unsupported as broken:
            self.add_frame_to_stack(broken)
            broken.path = ()  # CPython runs the rest of a generator
            raise
        except ObservedException as observed:
            if issubclass(observed.error.python_type(), StopIteration):  # where the bytecode doesn't do it
                raise ObservedException(stop_iteration_to_runtime_error(observed.error)) from None
            raise
        if self.yielded is None:
            raise Exhausted(self.returned)
        return self.yielded.realize()

    def _enter_handled_state(self, tx: InstructionTranslator) -> None:
        """What is handled where the generator handles nothing itself is what its caller handles now."""
        own = next((value for value in self.stack if isinstance(value, ExceptionInfoVariable)), None)
        if own is None:
            self.handled = tx.handled
        else:
            own.previous = tx.handled

    def _throw(self, error: VariableTracker) -> None:
        inner = self._delegate()
        if inner is not None:
            try:
                if issubclass(error.python_type(), GeneratorExit):
                    inner.close(self)
                elif self.can_throw(inner):
                    self.yielded = inner.throw(self, error)
                    return
            except Exhausted as end:
                self.end_delegation(self.instructions[self.pc + 1].target, end)
                self.run()
                return
            except ObservedException as observed:
                error = observed.error
        self.unwind(self.current, ObservedException(error))
        self.run()

    def _delegate(self) -> VariableTracker | None:
        """What ``yield from`` waits for, if it is that where the frame waits."""
        resume = self.instructions[self.pc]
        return self.stack[-1].realize() if resume.opname == "RESUME" and resume.arg & 3 >= 2 else None

    def end_delegation(self, send: Any, end: Exhausted) -> None:
        """Go on behind a SEND, whose iterator is at its end."""
        result = end.value if end.value is not None else ConstantVariable(None)
        if self.keeps_sent_iterator:
            self.stack.append(result)
        else:
            self.stack[-1] = result
        self.pc = send.target.index

    def rebuild_generator(self, cg: PyCodegen, generator: VariableTracker) -> None:
        """Emit code that makes the generator whose frame this is."""
        rebuild(cg, self, generator)

    def generator_parts(self) -> CreatingCall:
        """What makes a generator with this frame, and of what."""
        return parts_of(self)

    def add_frame_to_stack(self, error: Unsupported) -> None:
        """Put this frame in front of the user's stack of an error that leaves it."""
        error.user_stack = (self.place(), *error.user_stack)

    def places(self) -> tuple[FrameSummary, ...]:
        """The frames of the program that are under way, outermost first."""
        return (*(() if self.parent is None else self.parent.places()), self.place())

    def place(self) -> FrameSummary:
        return self.site_frame().summary()

    def site(self) -> Site:
        """The instructions that are executing: in another translation of the frame, equal ones are at an equal site."""
        return *(() if self.parent is None else self.parent.site()), self.site_frame()

    def site_frame(self) -> SiteFrame:
        """This frame's part of the site."""
        positions, index = (None, -1) if self.current is None else (self.current.positions, self.current.index)
        line = positions[0] if positions else self.code.co_firstlineno
        return SiteFrame(self.code.co_filename, self.code.co_qualname, line, index)


class StoppingTranslator(InstructionTranslator):
    """Stops where the graph is to be broken. ``break_at``: the step before which to stop; if there are more, the step
    whose callee is to stop likewise."""

    def __init__(self, *args: Any, break_at: tuple[int, ...] = (), parent: InstructionTranslator | None = None) -> None:
        super().__init__(*args, parent=parent)
        self.break_at = break_at
        self.callee: StoppingTranslator | None = None
        """The inlined frame that stops."""

    def close(self) -> None:
        super().close()
        callee, self.callee = self.callee, None
        if callee is not None:
            callee.close()

    def stopped(self) -> Iterator[StoppingTranslator]:
        """The frames that stopped, outermost first."""
        yield self
        if self.callee is not None:
            yield from self.callee.stopped()

    def stacks(self) -> Iterator[VariableTracker]:
        """What is on the stacks of the frames that stopped, outermost first."""
        for frame in self.stopped():
            yield from frame.stack

    def step(self, instruction: Instruction) -> None:
        if self.break_at and self.steps == self.break_at[0] and len(self.break_at) == 1:
            raise BreakHere
        super().step(instruction)

    def inlined(self, is_tail: bool, *frame: Any) -> InstructionTranslator:
        if not (is_tail and self.break_at and self.steps == self.break_at[0]):
            return super().inlined(is_tail, *frame)
        self.callee = StoppingTranslator(self.attempt, *frame, break_at=self.break_at[1:], parent=self)
        return self.callee

    def run(self) -> None:
        super().run()
        if self.break_at:
            raise InternalError(
                f"tracing {self.code.co_qualname} again did not come to step {self.break_at[0]}, where it broke before"
            )


class RootTranslator(StoppingTranslator):
    """The frame that is being compiled."""

    def __init__(self, *args: Any, break_at: tuple[int, ...] = ()) -> None:
        super().__init__(*args, break_at=break_at)
        self.argument_names = list(self.locals)
        self.arguments = list(self.locals.values())
        self.attempt.lifetimes.among(self.arguments)

    def step(self, instruction: Instruction) -> None:
        self.attempt.provenance.step = self.graph.step = self.steps
        super().step(instruction)
        if self.attempt.lifetimes.there_are and not self.done:
            self._refuse_death(instruction)

    def _refuse_death(self, instruction: Instruction) -> None:
        elsewhere = [each for each in self.effects.written if not (each.source and each.source.local_rooted)]
        written = [scope.writes for scope in self.attempt.values.scopes]
        lost = self.attempt.lifetimes.lost([self, self.handled, *elsewhere, *written])
        if lost is not None:
            kind = type(lost.value).__name__
            self.refuse(instruction, f"it lets go of a {kind}, and the program may see it die")

    def close(self) -> None:
        super().close()
        self.arguments = []

    def note_raise(self, observed: ObservedException) -> None:
        self.attempt.provenance.raised(observed.error, self.step_to_break())

    def step_to_break(self) -> int:
        """Where to break when the current step can't be traced: there; or, where it handles an exception that was made
        in the trace (and so has no traceback), where that was raised."""
        for value in self.stack:
            if isinstance(value, ExceptionInfoVariable) and isinstance(value.error, ExceptionVariable):
                return self.attempt.provenance.raised_at(value.error, self.steps)
        return self.steps
