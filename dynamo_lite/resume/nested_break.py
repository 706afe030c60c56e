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
from collections.abc import Mapping
from functools import partial
from inspect import CO_GENERATOR
from typing import TYPE_CHECKING

from dynamo_lite import _C
from dynamo_lite.bytecode import Instruction, assemble, effect, emit, roles
from dynamo_lite.bytecode.instructions import CALLABLE_FIRST, EXIT_SIZE
from dynamo_lite.codegen.python_codegen import PyCodegen, let_cpython_create
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.core.protocols import Load, Translator
from dynamo_lite.variables.python.functions.function import ResumeFunction
from dynamo_lite.variables.python.objects.exception import ExceptionInfoVariable

from .dead_variables import is_deallocation_observable
from .graph_break import BrokenFrame, FrameBreaker, why_not_breakable
from .iterator_recipes import IteratorRecipes
from .resume_code import ARGUMENTS, CLOSURE, ERROR, RESUME_CODES, SELF, STACK, ResumePoint, original_position
from .varying_numbers import in_arguments, varying_numbers

if TYPE_CHECKING:
    from dynamo_lite.translator.core import RootTranslator, StoppingTranslator

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


class _Callee(BrokenFrame):
    """An inlined frame that is split. Its values are in locals of the root's new code."""

    def __init__(self, tx: StoppingTranslator) -> None:
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

    def load(self, cg: PyCodegen, recipes: IteratorRecipes) -> None:
        tx = self.tx
        for at, value in enumerate(tx.stack):
            if isinstance(value, ExceptionInfoVariable):
                let_cpython_create(cg.attempt, value)
            name = None if value is NULL else self._keep(cg, partial(self.load_from_stack, cg, recipes, at))
            if at >= self.depth:
                self.operands_at.append(name)
            elif name is not None:
                self.where[STACK.format(at)] = name

        def keep(name: str) -> None:
            self.where[name] = self._keep(cg, partial(self.load_local, cg, recipes, name))

        self.load_locals(cg, keep)
        if self.first == SELF and SELF not in tx.locals:
            self.where[SELF] = self._keep(cg, partial(cg.load, self.content_of_self()))
        for name in (*self.original.co_cellvars, *self.original.co_freevars):
            self.cells_at.append(self._keep(cg, partial(cg.load, tx.cells[name])))

    def load_dead(self, cg: PyCodegen, recipes: IteratorRecipes) -> None:
        def keep(name: str) -> None:
            self.where[name] = self._keep(cg, partial(self.load_local, cg, recipes, name))

        self.load_dead_locals(cg, keep)
        self.shown = {name: at for name, at in self.where.items() if name in self.tx.locals and name != SELF}
        for name, value in self.contents_of_cells(cg).items():
            if name in self.original.co_cellvars or not is_deallocation_observable(cg, value):
                self.shown[name] = self._keep(cg, partial(cg.load, value))

    @staticmethod
    def _keep(cg: PyCodegen, load: Load) -> str:
        name = cg.temp("of_callee")
        load()
        cg.store_fast(name)
        return name

    def exits(self, cg: PyCodegen) -> list[Load]:
        return [partial(cg.load_fast, self.where[STACK.format(at)]) for at in self.contexts]

    def resume_call(
        self, cg: PyCodegen, point: ResumePoint, inner: Mapping[str, Load]
    ) -> tuple[ResumeFunction, dict[str, Load]]:
        """The resume function, and loads of its closure and its arguments. ``inner``: loads of arguments that are in no
        local."""

        def load_closure() -> None:
            for name in self.cells_at:
                cg.load_fast(name)
            cg.build("TUPLE", len(self.cells_at))

        def load_arguments() -> None:
            arguments = point.arguments()
            for name in arguments:
                if name in inner:
                    inner[name]()
                else:
                    cg.load_fast(self.where[name])
            cg.build("TUPLE", len(arguments))

        function = RESUME_CODES.function(self.original, point, self.namespace)
        return function, {CLOSURE: load_closure, ARGUMENTS: load_arguments}

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


class NestedBreaker:
    """Emits a break of the root frame and of the callees down to the instruction."""

    def __init__(self, cg: PyCodegen, root: RootTranslator) -> None:
        self.cg = cg
        self.root = FrameBreaker(cg, root)
        _, *inlined = root.stopped()
        self.callees = [_Callee(tx) for tx in inlined]
        self.innermost = self.callees[-1]

    def emit(self) -> None:
        """Emit the instruction at which the innermost frame stopped, and the continuations of all the frames."""
        cg = self.cg
        self.root.restore(self.callees)
        start = len(cg.body)
        self._run_natively()
        covered = cg.body[start:]
        self._continue()
        if any(callee.is_covered for callee in self.callees):
            self.root.catch(covered)
            cg.call(_seen_from_inside, [lambda: cg.load_fast(ERROR), lambda: cg.load_const(len(self.callees))])
            cg.store_fast(ERROR)
            self.root.with_contexts(self._raise_inside, *self.callees)
        else:
            self.root.handle(covered)

    def _suspend(self) -> None:
        """Exit the contexts of the callees that the resume functions enter again."""
        for callee in reversed(self.callees):
            for at in sorted(callee.contexts, reverse=True):
                self.cg.load_fast(callee.where[STACK.format(at)])
                self.cg.call_method_of_top("suspend")
                self.cg.pop_top()

    def _raise_inside(self) -> None:
        """Return a continuation of all the frames. The innermost raises the exception of its instruction."""
        frame = self.innermost
        self._suspend()
        self.root.take_kept(len(self.root.tx.stack))
        point = frame.resume_point(frame.index, frame.handler_depth, frame.nulls, raising=True)
        take_error = partial(self.cg.take_fast, ERROR)  # its traceback refers to this frame
        self._return(point, {ERROR: take_error})

    def _run_natively(self) -> None:
        """Call the function that looks like the outermost callee; it calls the next one, and so on."""
        cg = self.cg
        functions = [callee.calling_function() for callee in self.callees[:-1]]
        functions.append(self.innermost.native_function())
        cg.add(*emit.callee([emit.load_const(functions[0])]))
        cg.add(*emit.call(self._load_arguments(functions, 0)))

    def _load_arguments(self, functions: list[types.FunctionType], at: int) -> int:
        """Push the arguments of one of these functions, and return how many it takes."""
        callee = self.callees[at]
        if callee is self.innermost:
            given = [name for name in callee.operands_at if name is not None]
            for name in given:
                self.cg.take_fast(name)
        else:
            given = [_NEXT, _ARGS]
            self.cg.load_const(functions[at + 1])
            self.cg.build("TUPLE", self._load_arguments(functions, at + 1))
        for name in callee.shown.values():
            self.cg.load_fast(name)
        return len(given) + len(callee.shown)

    def _continue(self) -> None:
        cg, frame = self.cg, self.innermost
        instruction = frame.instruction
        index = frame.index + 1
        if roles.tests_truth(instruction):
            target = frame.source[frame.index].target
            assert target is not None
            landing = emit.landing()
            cg.add((emit.jump_if_true if roles.jumps_if_true(instruction) else emit.jump_if_false)(landing))
            self._resume_at(index, frame.depth, frame.nulls)
            cg.add(landing)
            self._resume_at(target.index, frame.depth, frame.nulls)
            return
        depth, nulls = frame.depth, {at for at in frame.nulls if at < frame.depth}
        if enters_block(instruction):
            cg.add(emit.unpack(2))
            for at in (depth, depth + 1):
                frame.where[STACK.format(at)] = cg.temp("result")
                cg.store_fast(frame.where[STACK.format(at)])
            depth += 2
        elif not frame.leaves_value():
            cg.pop_top()
        else:
            pushed = 1
            if roles.pushes_null(instruction):
                nulls.add(depth + CALLABLE_FIRST)
                pushed = 2
            at = depth if CALLABLE_FIRST else depth + pushed - 1
            result = frame.where[STACK.format(at)] = cg.temp("result")
            cg.store_fast(result)
            depth += pushed
        self._resume_at(index, depth, nulls)

    def _resume_at(self, index: int, depth: int, nulls: set[int]) -> None:
        """Return a continuation of all the frames, with the innermost at an index of its code."""

        def emit_return() -> None:
            self._suspend()
            self.root.store_stack(len(self.root.tx.stack))
            self._return(self.innermost.resume_point(index, depth, nulls), {})

        self.root.with_contexts(emit_return, *self.callees)

    def _return(self, point: ResumePoint, given: Mapping[str, Load]) -> None:
        """Return a continuation of all the frames, with the innermost at a point. ``given``: loads of the arguments of
        the innermost that are in no frame."""
        function, loads = self.innermost.resume_call(self.cg, point, given)
        varying = in_arguments(point, varying_numbers(self.innermost, point))
        for callee in reversed(self.callees[:-1]):
            point = callee.resume_point(callee.index, callee.depth, callee.nulls, callee=function)
            function, loads = callee.resume_call(self.cg, point, loads)
            varying = in_arguments(point, [*varying_numbers(callee, point), *varying])
        self.root.return_call(function, loads, varying)
