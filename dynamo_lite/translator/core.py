"""The symbolic stack machine: one translator for each frame, the one being compiled or an inlined one."""

from __future__ import annotations

import types
from collections.abc import Iterator
from traceback import FrameSummary

from dynamo_lite import config
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.bytecode import Instruction
from dynamo_lite.exc import InternalError, Unsupported
from dynamo_lite.insight.break_reasons import (
    DroppedGenerator,
    InlineLimit,
    ThrowIntoDelegate,
    TraceLimit,
    UncaughtException,
    UnsupportedOperation,
)
from dynamo_lite.insight.site import Site, SiteFrame
from dynamo_lite.records.code_origin import is_polyfill
from dynamo_lite.records.node_origin import ModuleCall, NodeOrigin
from dynamo_lite.resume.generators import generator_call
from dynamo_lite.resume.graph_break import is_call_of_broken_callee
from dynamo_lite.resume.nested_break import can_break_inside, enters_block
from dynamo_lite.variables import kinds  # noqa: F401  (its modules register their kinds)
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
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.python.functions.arguments import bind_arguments
from dynamo_lite.variables.python.functions.function import (
    PythonFunctionVariable,
    note_called,
)
from dynamo_lite.variables.python.objects.exception import (
    ExceptionInfoVariable,
    ExceptionVariable,
    stop_iteration_to_runtime_error,
)
from dynamo_lite.variables.torch.modules.nn_module import NNModuleVariable

from . import calls, containers, control, exceptions, operators, stack  # noqa: F401  (they register the handlers)
from .opcodes import HANDLERS, REFUSED
from .stack_machine import Frame, StackMachine

_MOST_OPERANDS = 3
"""How many operands instructions other than calls take from the stack at most."""
_AFTER_YIELD_FROM = 2
"""The least argument of a RESUME after a ``yield from`` (2) or an ``await`` (3)."""


class BreakHere(Exception):
    """Tracing reached the instruction before which the graph breaks."""


class InstructionTranslator(StackMachine):
    """Interprets one frame's bytecode over trackers."""

    parent: InstructionTranslator | None

    def __init__(self, attempt: Attempt, frame: Frame, parent: InstructionTranslator | None = None) -> None:
        super().__init__(attempt, frame, parent)
        if frame.code.co_cellvars:
            attempt.cell_frames.append(self)
        self._tail: tuple[int, VariableTracker | None] = (0, None)
        """A step count, and the function whose result is the result of the call instruction at that step."""
        self._origin: tuple[int, NodeOrigin | None] = (-1, None)
        """A step count, and where the frame was at that step."""
        self._module: ModuleCall | None = None

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Interpret until the frame returns or yields.

        Raises:
            ObservedException: the frame raises and doesn't handle the exception.
        """
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
        """Break the graph at the limit of instructions, or specialize the operands of this instruction."""
        if self.attempt.steps > config.unroll_limit:
            unsupported(TraceLimit(config.unroll_limit))
        count = instruction.arg + 2 if instruction.opname.startswith("CALL") else _MOST_OPERANDS
        self.attempt.specialize_operands(self.stack[-count:], (self.site_frame(),))

    def step(self, instruction: Instruction) -> None:
        handler = HANDLERS.get(instruction.opname)
        if handler is None:
            self.refuse(instruction, REFUSED.get(instruction.opname, "this version of CPython added it"))
        try:
            handler(self, instruction)
        except ObservedException as observed:
            self.unwind(instruction, observed)
        except NotConstant as error:
            unsupported(UnsupportedOperation(instruction.opname, f"a value that is not constant ({error})"))

    def unwind(self, instruction: Instruction, observed: ObservedException) -> None:
        """Jump to the handler that covers the instruction in the exception table, or raise out of the frame."""
        handler = instruction.handler
        self.note_raise(observed)
        if handler is None:
            try:
                raise observed
            finally:
                del observed  # breaks the cycle with its traceback, which refers to this frame
        del self.stack[handler.depth :]
        if handler.lasti:
            self.stack.append(ConstantVariable(instruction.index))
        self.stack.append(observed.error)
        self.pc = handler.target.index
        self.kw_names = ()

    def note_raise(self, observed: ObservedException) -> None:
        """Record at which step of the root frame an exception was first raised."""
        if self.parent is not None:
            self.parent.note_raise(observed)

    # -- calls -----------------------------------------------------------------------------------------------------

    def call_from_instruction(self, function: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Make the call of the current instruction."""
        self._tail = self.steps, function
        return self.call(function, args, kwargs)

    def delegate(self, caller: VariableTracker, function: VariableTracker) -> None:
        """Note that ``caller`` returns the result of calling ``function``, with at least the same arguments."""
        if self._tail[1] is caller:
            self._tail = self._tail[0], function.realize()

    def call_function(self, function: PythonFunctionVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a Python function: by its model if it has one, otherwise by inlining it."""
        is_tail, self._tail = self._tail == (self.steps, function), (0, None)
        known = self.find_model(function)
        if known is not None:
            return known(self, args, kwargs)
        return self.inline(function, args, kwargs, is_tail)

    def inline(
        self, function: PythonFunctionVariable, args: Args, kwargs: Kwargs, is_tail: bool = False
    ) -> VariableTracker:
        """Trace the body of a Python function in place of its call. ``is_tail``: its result is the current call's."""
        code = function.code
        self.check_inlinable(function)
        if self.graph.scope.is_nested:
            note_called(self.graph, function)
        if self.depth >= config.inline_limit:
            unsupported(InlineLimit(function.describe(), config.inline_limit))
        bound = bind_arguments(self, function, args, kwargs)
        callee = self.callee_for(is_tail, Frame(code, function.scope(self), bound, function.cells(self)))
        before = self.graph.operators
        try:
            callee.run()
        except ObservedException as observed:
            if observed.error.source is not None and not is_polyfill(code):  # this frame belongs in its traceback
                unsupported(UncaughtException(observed.error.describe()))
            raise
        except Unsupported as error:
            callee.add_frame_to_stack(error)
            is_worth_it = self.graph.operators > before or is_call_of_broken_callee(self)
            is_worth_it = is_worth_it or bool(error.path) or enters_block(callee.current)  # what follows is most of it
            breaks_inside = is_tail and is_worth_it and can_break_inside(callee, error.path)
            error.path = (callee.steps, *error.path) if breaks_inside else ()
            raise
        assert callee.returned is not None
        return callee.returned

    def callee_for(self, is_tail: bool, frame: Frame) -> InstructionTranslator:
        """The translator of a frame that this one calls."""
        return InstructionTranslator(self.attempt, frame, self)

    def resume_generator(
        self, tx: InstructionTranslator, value: VariableTracker, error: VariableTracker | None = None
    ) -> VariableTracker:
        """Run this generator's frame to its next ``yield``: send it a value, or raise ``error`` at its ``yield``.

        Raises:
            Exhausted: with the generator's return value.
        """
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
            broken.path = ()  # a generator's frame can't be broken: CPython runs the rest of it
            raise
        except ObservedException as observed:
            if issubclass(observed.error.python_type(), StopIteration):  # on 3.11 the bytecode doesn't
                raise ObservedException(stop_iteration_to_runtime_error(observed.error)) from None
            raise
        if self.yielded is None:
            raise Exhausted(self.returned)
        return self.yielded.realize()

    def _enter_handled_state(self, tx: InstructionTranslator) -> None:
        """Link the generator's handled exceptions to the caller's, as CPython links a generator's exc_info."""
        outermost = next((value for value in self.stack if isinstance(value, ExceptionInfoVariable)), None)
        if outermost is None:
            self.handled = tx.handled
        else:
            outermost.previous = tx.handled

    def _throw(self, error: VariableTracker) -> None:
        """Raise at the ``yield``."""
        resume = self.instructions[self.pc]
        if resume.opname == "RESUME" and resume.arg & 3 >= _AFTER_YIELD_FROM:
            unsupported(ThrowIntoDelegate(self.code.co_qualname))
        self.unwind(self.current, ObservedException(error))
        self.run()

    def generator_parts(self) -> CreatingCall:
        """The call that creates a generator which continues this frame."""
        return generator_call(self)

    def node_origin(self) -> NodeOrigin:
        """The frame's place, for a node that is recorded now. It is cached: callers stay at one step meanwhile."""
        step, found = self._origin
        if step != self.steps or found is None:
            caller = None if self.parent is None else self.parent.node_origin()
            code = self.original
            if found is None:
                self._module = self._module_call(caller)
            found = NodeOrigin(caller, code.co_filename, code.co_qualname, self.current.positions, self._module)
            self._origin = self.steps, found
        return found

    def _module_call(self, caller: NodeOrigin | None) -> ModuleCall | None:
        """The module whose ``forward`` this frame is. None for the one that was compiled itself."""
        code = self.original
        if code.co_name != "forward" or not code.co_argcount or caller is None or caller.only_calls_module():
            return None
        first = self.locals.get(code.co_varnames[0])
        found = None if first is None else first.known()
        if not isinstance(found, (NNModuleVariable, LazyVariable)) or found.source is None:
            return None
        return ModuleCall.of(found.value, found.source)

    def add_frame_to_stack(self, error: Unsupported) -> None:
        """Prepend this frame to the user's stack in an error that propagates through it."""
        error.user_stack = (self.place(), *error.user_stack)

    def places(self) -> tuple[FrameSummary, ...]:
        """The active user frames, outermost first."""
        return (*(() if self.parent is None else self.parent.places()), self.place())

    def place(self) -> FrameSummary:
        """The source line that this frame is at."""
        return self.site_frame().summary()

    def site(self) -> Site:
        """The instructions that are executing: in another translation of the frame, equal ones are at an equal site."""
        return *(() if self.parent is None else self.parent.site()), self.site_frame()

    def site_frame(self) -> SiteFrame:
        """This frame's part of the site."""
        line, *ends = self.current.positions or (self.code.co_firstlineno, None, None, None)
        return SiteFrame(self.code.co_filename, self.code.co_qualname, line, self.current.index, *ends)


class StoppingTranslator(InstructionTranslator):
    """A translator that stops where the graph breaks.

    ``break_at``: the step count before which to stop. With several, the first one is the step of a call, and tracing
    stops inside its callee, at the step counts that follow.
    """

    def __init__(
        self, attempt: Attempt, frame: Frame, parent: InstructionTranslator | None, break_at: tuple[int, ...]
    ) -> None:
        super().__init__(attempt, frame, parent)
        self.break_at = break_at
        self.callee: StoppingTranslator | None = None
        """The inlined frame that stops too."""

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
        """The values on the stacks of the frames that stopped, outermost frame first."""
        for frame in self.stopped():
            yield from frame.stack

    def step(self, instruction: Instruction) -> None:
        if self.break_at and self.steps == self.break_at[0] and len(self.break_at) == 1:
            raise BreakHere
        super().step(instruction)

    def callee_for(self, is_tail: bool, frame: Frame) -> InstructionTranslator:
        if not (is_tail and self.break_at and self.steps == self.break_at[0]):
            return super().callee_for(is_tail, frame)
        self.callee = StoppingTranslator(self.attempt, frame, self, self.break_at[1:])
        return self.callee

    def run(self) -> None:
        super().run()
        if self.break_at:
            raise InternalError(
                f"tracing {self.code.co_qualname} again did not reach step {self.break_at[0]}, where it broke before"
            )


class RootTranslator(StoppingTranslator):
    """The frame that is being compiled."""

    def __init__(self, attempt: Attempt, frame: Frame, break_at: tuple[int, ...]) -> None:
        super().__init__(attempt, frame, None, break_at)
        self.argument_names = list(frame.locals)
        self.arguments = list(frame.locals.values())
        self.suspended = [each.value for each in self.arguments if type(each.value) is types.GeneratorType]
        """Generators whose last reference the frame may hold: a loop that is left by ``break`` runs their ``finally``
        and ends their ``with`` blocks."""

    def step(self, instruction: Instruction) -> None:
        self.attempt.provenance.step = self.graph.step = self.steps
        super().step(instruction)
        if self.suspended and not self.done:
            held = [*self.stack, *self.locals.values(), *(each.content for each in self.cells.values())]
            values = [each.value for each in held if each is not None]
            for generator in self.suspended:
                if generator.gi_suspended and not any(each is generator for each in values):
                    unsupported(DroppedGenerator("the generator"))

    def close(self) -> None:
        super().close()
        self.arguments = []

    def note_raise(self, observed: ObservedException) -> None:
        self.attempt.provenance.raised(observed.error, self.step_to_break())

    def step_to_break(self) -> int:
        """The step to break before when the current one can't be traced. While the frame handles an exception created
        during tracing, which has no traceback, that is the step that raised it."""
        for value in self.stack:
            if isinstance(value, ExceptionInfoVariable) and isinstance(value.error, ExceptionVariable):
                return self.attempt.provenance.raised_at(value.error, self.steps)
        return self.steps
