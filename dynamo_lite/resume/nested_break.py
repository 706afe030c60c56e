"""Graph breaks inside inlined calls: the operators of the callees before the break stay in the caller's graph.

The new code of the root frame runs the instruction in CPython, below frames that look like the callees', and returns a
continuation: a resume function of the root. In place of the interrupted call it calls a resume function of the callee,
and so on inwards. The resume functions are traced together: the rest of the callees shares a graph with what follows.

If the instruction raises and a handler of a callee covers it, the innermost resume function raises the exception again.
A break is possible inside calls whose result is the callee's return value, while no callee handles an exception.
Otherwise the graph breaks at the call.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from inspect import CO_GENERATOR

from dynamo_lite import _C
from dynamo_lite.bytecode import Instruction, assemble, effect, emit, roles
from dynamo_lite.bytecode.instructions import CALLABLE_FIRST, EXIT_SIZE
from dynamo_lite.codegen.writer import Writer
from dynamo_lite.plan.rows import Break, Build, Constant, Local, Take, Value
from dynamo_lite.planner.planner import Planner
from dynamo_lite.variables.core.base import Translator
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.python.functions.function import ResumeFunction
from dynamo_lite.variables.python.objects.exception import ExceptionInfoVariable

from .dead_variables import is_deallocation_observable
from .graph_break import BrokenCallee, FrameBreaker, why_not_breakable
from .interpreted_frame import StoppedFrame, StoppedRoot
from .iterator_recipes import IteratorRecipes
from .resume_code import ARGUMENTS, CLOSURE, ERROR, RESUME_CODES, SELF, STACK, ResumePoint, original_position
from .varying_numbers import in_arguments, varying_numbers

_NEXT = "___next"
_ARGS = "___args"
_OPERAND = "___operand{}"


def can_break_inside(tx: Translator, path: tuple[int, ...]) -> bool:
    """Whether the graph may break inside this inlined frame: at its current instruction, or (with a ``path``) inside
    the callee of that instruction."""
    instruction = tx.current
    original, index = original_position(tx.code, instruction.index)
    if why_not_breakable(original, tx.scope.namespace, index) is not None or original.co_flags & CO_GENERATOR:
        return False
    if any(isinstance(value, ExceptionInfoVariable) for value in tx.stack):
        return False
    if path:
        return True
    may_be_super = "__class__" in original.co_freevars and roles.is_call(instruction) and instruction.arg == 0
    movable = (roles.leaves_value, roles.leaves_nothing, roles.tests_truth, enters_block)
    return any(holds(instruction) for holds in movable) and not may_be_super


def enters_block(instruction: Instruction) -> bool:
    """Whether it enters a ``with`` block, and leaves on the stack what another frame may return: ``__exit__`` and the
    result of ``__enter__``. (CPython 3.14 has a NULL there.)"""
    return roles.enters_with(instruction) and EXIT_SIZE == 1


def _seen_from_inside(error: BaseException, frames: int) -> BaseException:
    """The error as the innermost frame sees it: its traceback without that many outer frames."""
    trace = error.__traceback__
    for _ in range(frames):
        trace = trace and trace.tb_next
    return BaseException.with_traceback(error, trace)


class _Callee(BrokenCallee):
    """An inlined frame that is split. Its values are in locals of the root's new code."""

    def __init__(self, tx: StoppedFrame) -> None:
        super().__init__(tx)
        self.namespace: dict[str, object] = tx.scope.namespace
        is_block = enters_block(self.instruction)
        pushed = 2 if is_block else roles.leaves_value(self.instruction) + roles.pushes_null(self.instruction)
        taken = pushed - effect(self.instruction, False) if tx.callee is None else 0
        self.depth = len(tx.stack) - taken
        """How much of the stack the instruction leaves."""
        self.where: dict[str, str] = {}
        """Argument of the resume function -> the local that holds it."""
        self.bound = self.where
        self.operands_at: list[str | None] = []
        """The locals that hold the instruction's operands; None for NULL."""
        self.cells_at: list[str] = []
        self.shown: dict[str, str] = {}
        """Variable of the frame -> the local that holds its value."""

    def plan_values(self, plan: Planner, recipes: IteratorRecipes) -> None:
        tx = self.tx
        for at, value in enumerate(tx.stack):
            if isinstance(value, ExceptionInfoVariable):
                plan.cannot_create(value)
            name = None if value is NULL else _keep(plan, self.stack_value(plan, recipes, at), STACK.format(at))
            if at >= self.depth:
                self.operands_at.append(name)
            elif name is not None:
                self.where[STACK.format(at)] = name

        self.plan_locals(plan, self._keeper(plan, recipes))
        if self.first == SELF and SELF not in tx.locals:
            self.where[SELF] = _keep(plan, plan.value(self.content_of_self()), SELF)
        for name in (*self.original.co_cellvars, *self.original.co_freevars):
            self.cells_at.append(_keep(plan, plan.value(tx.cells[name]), f"cell_{name}"))

    def _keeper(self, plan: Planner, recipes: IteratorRecipes) -> Callable[[str], None]:
        """A function that keeps the local of a name."""

        def keep(name: str) -> None:
            self.where[name] = _keep(plan, self.local_value(plan, recipes, name), name)

        return keep

    def plan_dead(self, plan: Planner, recipes: IteratorRecipes) -> None:
        self.plan_dead_locals(plan, self._keeper(plan, recipes))
        self.shown = {name: at for name, at in self.where.items() if name in self.tx.locals and name != SELF}
        for name, value in self.contents_of_cells(plan).items():
            if name in self.original.co_cellvars or not is_deallocation_observable(plan, value):
                self.shown[name] = _keep(plan, plan.value(value), name)

    def exits(self) -> list[Value]:
        return [Local(self.where[STACK.format(at)]) for at in self.contexts]

    def resume_call(self, point: ResumePoint, inner: Mapping[str, Value]) -> tuple[ResumeFunction, dict[str, Value]]:
        """The resume function, its closure and its arguments. ``inner``: arguments that are in no local."""
        function = RESUME_CODES.function(self.original, point, self.namespace)
        arguments = [inner[name] if name in inner else Local(self.where[name]) for name in point.arguments()]
        closure = Build("TUPLE", tuple(map(Local, self.cells_at)))
        return function, {CLOSURE: closure, ARGUMENTS: Build("TUPLE", tuple(arguments))}

    def place_of_result(self, at: int) -> str:
        """A local for a result of the instruction, at this depth of the stack."""
        return self.where.setdefault(STACK.format(at), f"___result{at}")

    # -- frames to run the instruction in --------------------------------------------------------------------------

    def native_function(self) -> types.FunctionType:
        """A function of the operands that runs the instruction, in a frame that looks like this one in tracebacks."""
        names = [_OPERAND.format(at) for at, name in enumerate(self.operands_at) if name is not None]
        body: list[Instruction] = []
        for at, name in enumerate(self.operands_at):
            body += [emit.push_null()] if name is None else emit.take_fast(_OPERAND.format(at))
        if roles.tests_truth(self.instruction):
            body += emit.truth()
        else:
            body += self.native_instructions()
        if enters_block(self.instruction):
            body.append(emit.build("TUPLE", 2))
        elif not self.leaves_value():
            body.append(emit.load_const(None))
        return self._function(body, [*names, *self.shown])

    def leaves_value(self) -> bool:
        return roles.tests_truth(self.instruction) or roles.leaves_value(self.instruction)

    def calling_function(self) -> types.FunctionType:
        """A function that calls another, in a frame that looks like this one in tracebacks."""
        body = [*emit.callee([emit.load_fast(_NEXT)]), emit.load_fast(_ARGS), emit.call_with_tuple()]
        return self._function(body, [_NEXT, _ARGS, *self.shown])

    def _function(self, body: list[Instruction], names: list[str]) -> types.FunctionType:
        instructions = [*emit.prologue(0), *body, emit.return_value()]
        for each in instructions:
            each.positions = self.instruction.positions
        code = assemble(instructions, like=self.original, argnames=names, cellvars=(), freevars=())
        _C.mark_code(code, _C.Mark.SKIP)
        return types.FunctionType(code, self.namespace)


def _keep(plan: Planner, value: Value, name: str) -> str:
    return plan.store(value, f"callees_{name.removeprefix('___')}_").name


class NestedBreaker:
    """A break of the root frame and of the callees down to the instruction: planned, then emitted."""

    def __init__(self, root: StoppedRoot) -> None:
        self.root = FrameBreaker(root)
        _, *inlined = root.stopped()
        self.callees = [_Callee(tx) for tx in inlined]
        self.innermost = self.callees[-1]
        self.code = Writer()

    def plan(self, plan: Planner) -> None:
        """Plan what survives the break in all the frames."""
        self.root.plan(plan, self.callees)

    @property
    def end(self) -> Break:
        return self.root.end

    def check_is_before_return(self) -> None:
        self.root.check_is_before_return()

    def emit(self, code: Writer, temporaries: Sequence[str]) -> None:
        """Emit the instruction at which the innermost frame stopped, and the continuations of all the frames."""
        self.code = code
        self.root.restore(code, temporaries)
        start = len(code.body)
        self._run_natively()
        covered = code.body[start:]
        self._continue()
        if any(callee.is_covered for callee in self.callees):
            self.root.catch(covered)
            code.call(_seen_from_inside, Local(ERROR), Constant(len(self.callees)))
            code.store(ERROR)
            self.root.with_contexts(self._raise_inside, *self.callees)
        else:
            self.root.handle(covered)

    def _suspend(self) -> None:
        """Exit the contexts of the callees that the resume functions enter again."""
        for callee in reversed(self.callees):
            for at in sorted(callee.contexts, reverse=True):
                self.code.load(Local(callee.where[STACK.format(at)]))
                self.code.suspend_top()

    def _raise_inside(self) -> None:
        """Return a continuation of all the frames. The innermost raises the exception of its instruction."""
        frame = self.innermost
        self._suspend()
        self.root.take_kept(len(self.root.tx.stack))
        point = frame.resume_point(frame.index, frame.handler_depth, frame.nulls, raising=True)
        self._return(point, {ERROR: Take(ERROR)})  # its traceback refers to this frame

    def _run_natively(self) -> None:
        """Call the function that looks like the outermost callee; it calls the next one, and so on."""
        functions = [callee.calling_function() for callee in self.callees[:-1]]
        functions.append(self.innermost.native_function())
        self.code.call(functions[0], *self._arguments(functions, 0))

    def _arguments(self, functions: list[types.FunctionType], at: int) -> list[Value]:
        """The arguments of one of these functions."""
        callee = self.callees[at]
        given: list[Value]
        if callee is self.innermost:
            given = [Take(name) for name in callee.operands_at if name is not None]
        else:
            given = [Constant(functions[at + 1]), Build("TUPLE", tuple(self._arguments(functions, at + 1)))]
        return [*given, *map(Local, callee.shown.values())]

    def _continue(self) -> None:
        code, frame = self.code, self.innermost
        instruction = frame.instruction
        index = frame.index + 1
        if roles.tests_truth(instruction):
            target = frame.source[frame.index].target
            assert target is not None
            landing = emit.landing()
            code.add((emit.jump_if_true if roles.jumps_if_true(instruction) else emit.jump_if_false)(landing))
            self._resume_at(index, frame.depth, frame.nulls)
            code.add(landing)
            self._resume_at(target.index, frame.depth, frame.nulls)
            return
        depth, nulls = frame.depth, {at for at in frame.nulls if at < frame.depth}
        if enters_block(instruction):
            code.add(emit.unpack(2))
            for at in (depth, depth + 1):
                code.store(frame.place_of_result(at))
            depth += 2
        elif not frame.leaves_value():
            code.add(emit.pop_top())
        else:
            pushed = 1
            if roles.pushes_null(instruction):
                nulls.add(depth + CALLABLE_FIRST)
                pushed = 2
            at = depth if CALLABLE_FIRST else depth + pushed - 1
            code.store(frame.place_of_result(at))
            depth += pushed
        self._resume_at(index, depth, nulls)

    def _resume_at(self, index: int, depth: int, nulls: set[int]) -> None:
        """Return a continuation of all the frames, with the innermost at an index of its code."""

        def emit_return() -> None:
            self._suspend()
            self.root.store_stack(len(self.root.tx.stack))
            self._return(self.innermost.resume_point(index, depth, nulls), {})

        self.root.with_contexts(emit_return, *self.callees)

    def _return(self, point: ResumePoint, given: Mapping[str, Value]) -> None:
        """Return a continuation of all the frames, with the innermost at a point. ``given``: arguments of the innermost
        that are in no frame."""
        function, values = self.innermost.resume_call(point, given)
        varying = in_arguments(point, varying_numbers(self.innermost, point))
        for callee in reversed(self.callees[:-1]):
            point = callee.resume_point(callee.index, callee.depth, callee.nulls, callee=function)
            function, values = callee.resume_call(point, values)
            varying = in_arguments(point, [*varying_numbers(callee, point), *varying])
        self.root.return_call(function, values, varying)
