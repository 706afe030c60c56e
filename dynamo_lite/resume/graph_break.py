"""Splits a frame at a graph break: graph, one instruction in CPython, a resume function that continues the frame.

The new code restores the stack, runs the instruction in CPython, moves the stack into locals and returns a
continuation: a resume function and its arguments, the live values. If the instruction raises and a handler of the frame
covers it, the continuation is a resume function that raises the exception again under the same handlers.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from dynamo_lite import _C
from dynamo_lite.bytecode import (
    Handler,
    Instruction,
    bound_locals,
    decode,
    effect,
    emit,
    enclosing_handlers,
    live_locals,
    roles,
    targets_and_handler,
)
from dynamo_lite.bytecode.instructions import CALLABLE_FIRST, EXCEPT_STAR, EXIT_SIZE, ITERATOR_SIZE, TERMINATORS
from dynamo_lite.codegen.writer import Writer
from dynamo_lite.exc import SkipFrame
from dynamo_lite.plan.rows import Break, Build, Call, Cell, Constant, Local, SetHandled, Take, Value
from dynamo_lite.planner.planner import Planner
from dynamo_lite.records.code_origin import reads_frame_by_name
from dynamo_lite.runtime.special_methods import exit_of
from dynamo_lite.variables.core.base import Translator, VariableTracker
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.python.functions.function import CellVariable, ResumeFunction
from dynamo_lite.variables.python.objects.exception import ExceptionInfoVariable
from dynamo_lite.variables.torch.contexts.torch_contexts import ExitVariable, can_be_left

from .dead_variables import exists, is_deallocation_observable, rebound_by_closures
from .interpreted_frame import StoppedFrame, StoppedRoot
from .iterator_recipes import IteratorRecipes
from .resume_code import (
    ERROR,
    RESUME_CODES,
    SELF,
    STACK,
    ResumePoint,
    continued,
    original_position,
    raise_unbound,
)
from .varying_numbers import Varying, jumps_back, varying_numbers

_KEPT = "___kept{}"
"""Copies of the stack values that a handler expects, kept while the instruction runs."""
_PREVIOUS = "___previous{}"
"""The exception that was handled when a handler of the frame was entered."""


def interrupted_codes(code: types.CodeType) -> list[types.CodeType]:
    """The user's code objects that a frame of this code runs: its own, then those of the interrupted calls that it
    continues, outermost first."""
    return [info.original for info in continued(code)] or [code]


def _blocks(source: Sequence[Instruction], index: int) -> Iterator[tuple[int, bool]]:
    """The blocks around an instruction that catch errors, innermost first: how much of the stack each keeps, and
    whether it is a ``with``."""
    for handler in enclosing_handlers(source[index]):
        yield handler.depth, roles.leaves_with(source[handler.target.index + 1])


def continues_where_errors_may_be_swallowed(code: types.CodeType) -> bool:
    """Whether it is a resume function that continues inside a block which may swallow an error: a ``try``, or a
    ``with`` other than of torch's contexts that it enters again."""
    for info in continued(code):
        contexts = dict(info.point.contexts)
        blocks = () if info.point.generator else _blocks(decode(info.original), info.point.index)
        if any(not is_with or depth - EXIT_SIZE not in contexts for depth, is_with in blocks):
            return True
    return False


def continued_in_loop(code: types.CodeType) -> list[types.CodeType]:
    """The resume function and those of the interrupted calls, outermost first, down to the innermost that continues
    inside a loop of the user's code; empty if none does."""
    found, codes = list[types.CodeType](), [code]
    for info in continued(code):
        if any(start <= info.point.index <= end for start, end in jumps_back(info.original)):
            found = codes[:]
        if info.point.callee is not None:
            codes.append(info.point.callee.code)
    return found


def unused_arguments(code: types.CodeType) -> frozenset[str]:
    """The parameters of a resume function that it only keeps bound."""
    info = RESUME_CODES.info(code)
    if info is None:
        return frozenset()
    live, following = live_locals(info.original), info.point.index + (info.point.callee is not None)
    handlers = enclosing_handlers(decode(info.original)[info.point.index])
    return frozenset(info.point.names).difference(live[following], *(live[each.target.index] for each in handlers))


def argument_of_super(code: types.CodeType) -> str | None:
    """The name of the argument that a native ``super()`` reads from the frame, if the code may call it."""
    return code.co_varnames[0] if "__class__" in code.co_freevars and code.co_argcount else None


def is_call_of_broken_callee(tx: Translator) -> bool:
    """Whether the current instruction is a call that an earlier graph break, inside the callee, interrupted."""
    info = RESUME_CODES.info(tx.code)
    return info is not None and info.call == tx.current.index


def why_not_breakable(code: types.CodeType, namespace: Mapping[str, object], index: int | None) -> str | None:
    """Why a frame can't be broken at an index of the user's code; None if it can. ``namespace``: its globals."""
    if index is None:
        return "the graph breaks at its first instruction"
    if reads_frame_by_name(code, namespace):
        return "it reads its own variables by name"
    if decode(code)[index].opname in EXCEPT_STAR:  # it changes which exception is handled
        return "it handles an exception by `except*`"
    if set(code.co_cellvars) & set(code.co_freevars):
        return "one name is a cell of its own and a free variable too"
    return None


class BrokenFrame(ABC):
    """A frame at the instruction where it is split: the user's code and index, the stack, the names."""

    def __init__(self, tx: StoppedFrame) -> None:
        self.tx = tx
        self.instruction: Instruction = tx.current
        self.original, index = original_position(tx.code, self.instruction.index)
        why = why_not_breakable(self.original, tx.scope.namespace, index)
        if tx.locals.keys() & tx.cells.keys() or any(isinstance(value, CellVariable) for value in tx.stack):
            why = "it breaks in a comprehension whose variable has the name of one that closures share"
        if why is not None:
            raise SkipFrame(why, loses=index is not None)
        assert index is not None
        self.index = index
        self.source = decode(self.original)
        self.nulls = {at for at, value in enumerate(tx.stack) if value is NULL}
        self.handled = {at for at, value in enumerate(tx.stack) if _is_handler_open(value)}
        exits = [(at, value.suspended) for at, value in enumerate(tx.stack) if isinstance(value, ExitVariable)]
        self.contexts = {at: entering for at, entering in exits if entering is not None}
        self.first = self._first_argument()
        self.recipes: dict[str, Call] = {}
        """Locals that the resume function recreates."""
        self.outlive: frozenset[str] = frozenset()
        """Locals that are dead, but stay bound as in CPython."""
        self.bound: Collection[str] = ()
        """Names, the locals among them, that the new code has a value for."""

    def _first_argument(self) -> str | None:
        """The local that holds the argument which ``super()`` reads."""
        name = argument_of_super(self.original)
        if name is None:
            return None
        if name in self.tx.cells:
            return SELF
        return name if name in self.tx.locals else (SELF if SELF in self.tx.locals else None)

    def content_of_self(self) -> VariableTracker:
        """The argument that ``super()`` reads, out of its cell."""
        content = self.tx.cells[self.original.co_varnames[0]].content
        assert content is not None
        return content

    @abstractmethod
    def exits(self) -> list[Value]:
        """The ``__exit__`` of each context that is suspended across the break."""

    @property
    def is_covered(self) -> bool:
        """Whether an exception handler of the user's code covers the instruction."""
        return self.source[self.index].handler is not None

    @property
    def handler_depth(self) -> int:
        """How much of the stack that handler keeps."""
        handler = self.source[self.index].handler
        return 0 if handler is None else handler.depth

    def live(self) -> frozenset[str]:
        """The locals that are live before or after the instruction."""
        live = live_locals(self.original)
        return live[self.index].union(*(live[each.index] for each in targets_and_handler(self.source, self.index)))

    def holders(self) -> list[VariableTracker]:
        """Everything that refers to a live value."""
        bound, stack, cells = self.tx.locals, self.tx.stack, self.tx.cells.values()
        return [*(bound[name] for name in self.live() if name in bound), *stack, *cells]

    def local_value(self, plan: Planner, recipes: IteratorRecipes, name: str) -> Value:
        """A local, or the operands of its recipe."""
        value = self.tx.locals[name]
        is_operand = roles.names_local(self.instruction, name)
        recipe = None if is_operand or name == self.first else recipes.recipe(value, Local(name))
        return self._value(plan, recipes, name, value, recipe)

    def stack_value(self, plan: Planner, recipes: IteratorRecipes, at: int) -> Value:
        """A value of the stack. Only the ``__exit__`` of an enclosing ``with`` block may be recreated."""
        value = self.tx.stack[at]
        is_exit = (at + EXIT_SIZE, True) in _blocks(self.source, self.index)
        recipe = recipes.recipe(value, Local(STACK.format(at)), waiting=True) if is_exit else None
        return self._value(plan, recipes, STACK.format(at), value, recipe)

    def _value(
        self, plan: Planner, recipes: IteratorRecipes, name: str, value: VariableTracker, recipe: Call | None
    ) -> Value:
        if recipe is None:
            return plan.value(value)
        self.recipes[name] = recipe
        return recipes.operands(value, recipe)

    def plan_locals(self, plan: Planner, store: Callable[[str], None]) -> None:
        """Store the locals that survive the break."""
        live, bound = self.live(), self.tx.locals
        overwritten = roles.stored_local(self.instruction)
        wanted = {*live, self.first, overwritten}  # CPython's store deallocates the old value, perhaps observably
        for name in bound:
            if name in wanted:
                store(name)
        deleted = roles.deleted_local(self.instruction)
        rest = [name for name in bound if name not in wanted and name != deleted]
        observable = [name for name in rest if is_deallocation_observable(plan, bound[name])]
        for name in observable:
            store(name)
        if overwritten in bound:
            observable.append(overwritten)
        self.outlive = frozenset(observable)

    def plan_dead_locals(self, plan: Planner, store: Callable[[str], None]) -> None:
        """Store the other locals whose values exist: code that the instruction calls may read them by name.
        The resume function, which is one for all paths, keeps those that are bound on each path."""
        others = self.tx.locals.keys() - self.live() - self.outlive
        names = [name for name, value in self.tx.locals.items() if name in others and exists(plan, value)]
        for name in names:
            store(name)
        self.outlive |= bound_locals(self.original)[self.index].intersection(names)

    def contents_of_cells(self, plan: Planner) -> dict[str, VariableTracker]:
        """Variables in cells, which the new code keeps under other names, whose values exist and stay the same while
        the instruction runs."""
        changing = rebound_by_closures(self.original)
        found = ((name, cell.content) for name, cell in self.tx.cells.items() if name not in changing)
        return {name: value for name, value in found if value is not None and exists(plan, value)}

    def resume_point(
        self, index: int, depth: int, nulls: set[int], raising: bool = False, callee: ResumeFunction | None = None
    ) -> ResumePoint:
        """The point at an index, with the live ones among the `bound` locals."""
        lives = live_locals(self.original)
        live = lives[index + 1] if callee is not None else lives[index]
        handler = self.source[index].handler
        if handler is not None and (raising or callee is not None):
            live = lives[handler.target.index] | live
        live = live | self.outlive
        names = tuple(sorted(name for name in live if name in self.bound))
        handled = tuple(sorted(at for at in self.handled if at < depth))
        lower = tuple(sorted(at for at in nulls if at < depth))
        contexts = tuple(pair for pair in self.contexts.items() if pair[0] < depth)
        arguments = {*names, *map(STACK.format, range(depth))}
        recipes = tuple(pair for pair in sorted(self.recipes.items()) if pair[0] in arguments)
        return ResumePoint(
            index, depth, lower, names, self.first, handled, raising, callee=callee, contexts=contexts, recipes=recipes
        )

    def native_instructions(self, jump_to: Instruction | None = None) -> list[Instruction]:
        """The instruction in the new code, without the NULL that a method or an iterator is pushed with."""
        instruction = self.instruction
        if roles.makes_iterator(instruction) and roles.pushes_null(instruction):
            return emit.iterator()
        if roles.is_call(instruction):
            return emit.call(instruction.arg, self.tx.kw_names)
        if roles.pushes_null(instruction):
            return [emit.without_null(instruction)]
        native = emit.copy_of(instruction)
        native.target, native.handler = jump_to, None
        return [native]


class BrokenCallee(BrokenFrame):
    """An inlined frame that is split together with the root."""

    @abstractmethod
    def plan_values(self, plan: Planner, recipes: IteratorRecipes) -> None:
        """Plan that its values are kept in locals of the root's new code."""

    @abstractmethod
    def plan_dead(self, plan: Planner, recipes: IteratorRecipes) -> None:
        """`plan_values` for the values that the rest of the callee doesn't use."""


class FrameBreaker(BrokenFrame):
    """The break of the root frame: `plan` decides what survives it, then `emit` writes it."""

    tx: StoppedRoot

    def __init__(self, root: StoppedRoot) -> None:
        super().__init__(root)
        self.end = Break((), (), "")
        self.kept = 0
        """How much of the stack a handler expects, and is copied."""
        self.code = Writer()
        self.cells = {name: f"___cell_{name}" for name in root.cells if name not in root.code.co_freevars}

    def plan(self, plan: Planner, callees: Sequence[BrokenCallee] = ()) -> None:
        """Plan the stack and the locals. ``callees``: inlined frames that break with this one. Their handlers need
        copies of the whole stack.

        Raises:
            SkipFrame: the graph can't break there.
        """
        tx = self.tx
        recipes = IteratorRecipes(plan, [each for frame in (self, *callees) for each in frame.holders()])
        self.kept = len(tx.stack) if any(callee.is_covered for callee in callees) else self.handler_depth
        stack = [self.stack_value(plan, recipes, at) for at in range(len(tx.stack))]
        for callee in callees:
            callee.plan_values(plan, recipes)

        stores: dict[str, Value] = {}

        def store(name: str) -> None:
            stores[name] = self.local_value(plan, recipes, name)

        self.plan_locals(plan, store)
        self.plan_dead_locals(plan, store)
        self.bound = [*stores]
        for callee in callees:
            callee.plan_dead(plan, recipes)
        stores |= {local: plan.value(tx.cells[name]) for name, local in self.cells.items()}
        contents = self.contents_of_cells(plan)
        stores |= {name: plan.value(value) for name, value in contents.items() if name in self.cells}
        if self.first == SELF:
            self.bound = [*self.bound, SELF]
            if SELF not in tx.locals:
                stores[SELF] = plan.value(self.content_of_self())
        plan.set_grad_mode(tx.attempt.torch_state.final_grad_mode)
        innermost = (callees[-1] if callees else self).tx.place()
        self.end = Break(tuple(stack), tuple(stores.items()), f"{innermost.name}, line {innermost.lineno}")

    def restore(self, code: Writer, temporaries: Sequence[str]) -> None:
        """Push the stack, then store the locals. Everything is pushed before anything is stored: values are arguments.
        Then drop references that the program has dropped or never had."""
        self.code = code
        for at, value in enumerate(self.end.stack):
            if isinstance(value, SetHandled) and at in self.handled:
                self._set_handled(at, value)
                continue
            code.load(value)
            if (at < self.kept and at not in self.nulls) or at in self.contexts:
                code.store_copy(_KEPT.format(at))
        for _, value in self.end.locals:
            code.load(value)
        for name, _ in reversed(self.end.locals):
            code.store(name)
        bound = dict(self.end.locals)
        for name in self.tx.argument_names:
            if name not in bound and name != SELF:
                code.add(emit.delete_fast(name))
        code.unbind(temporaries)

    def _set_handled(self, at: int, value: SetHandled) -> None:
        """Make an exception the handled one. Keep it, and the one that was handled before."""
        self.code.load(value.error)
        self.code.store(_KEPT.format(at))
        self.code.load(SetHandled(Local(_KEPT.format(at))))
        self.code.store_copy(_PREVIOUS.format(at))

    # -- the instruction -------------------------------------------------------------------------------------------

    def check_is_before_return(self) -> None:
        if roles.is_return(self.instruction):
            raise SkipFrame("the graph breaks at its return", loses=self.tx.attempt.graph.operators > 0)

    def emit(self, code: Writer, temporaries: Sequence[str]) -> None:
        """Emit the instruction, the continuations after it and, if a handler covers it, the one that raises.
        ``temporaries``: locals of the plan, which are unbound."""
        self.restore(code, temporaries)
        start = len(code.body)
        target = self.source[self.index].target
        ends_loop = target is not None and roles.ends_loop(target)
        jump_to = None if target is None else emit.end_of_loop() if ends_loop else emit.landing()
        self._emit_native(jump_to)
        covered = code.body[start:]
        raises = self._is_unbound() or self.instruction.opcode in TERMINATORS
        if not raises:
            self._continue(self.index + 1, jump=False)
        if jump_to is not None:
            assert target is not None
            code.add(jump_to)
            self._continue(target.index + ends_loop, jump=True)
        self.handle(covered)

    def _is_unbound(self) -> bool:
        """Whether the instruction reads an empty cell that the user's code creates. In the new code the cell is a free
        variable or in a local, for which CPython would raise another error."""
        name = self.instruction.argval
        if not roles.fails_on_empty_cell(self.instruction) or name not in self.original.co_cellvars:
            return False
        return self.tx.cells[name].content is None

    def _emit_native(self, jump_to: Instruction | None) -> None:
        if self._is_unbound():
            self.code.add(*raise_unbound(self.instruction.argval))
        elif roles.reraises(self.instruction):
            self.code.add(emit.reraise())  # the offset on the stack is the original's
        elif roles.enters_with(self.instruction) and EXIT_SIZE > 1:
            self.code.add(*emit.enter_with(exit_of))
        else:
            self.code.add(*self.native_instructions(jump_to))
        if roles.pushes_null(self.instruction):
            self.code.add(*emit.top_as_callee())

    def _continue(self, index: int, jump: bool) -> None:
        """Return a continuation at an index of the user's code."""
        ends_loop = jump and roles.takes_item(self.instruction)  # which pops the iterator
        depth = len(self.tx.stack) + (-ITERATOR_SIZE if ends_loop else effect(self.instruction, jump))
        is_call = roles.is_any_call(self.instruction)  # the result replaces the NULL
        nulls = {at for at in self.nulls if at < depth - is_call}
        if roles.pushes_null(self.instruction):
            nulls.add(depth - 1 if CALLABLE_FIRST else depth - 2)
        if roles.enters_with(self.instruction) and EXIT_SIZE > 1:
            nulls.add(depth - 2)

        def emit_return() -> None:
            self.store_stack(depth)
            self.return_continuation(self.resume_point(index, depth, nulls))

        self.with_contexts(emit_return)

    def with_contexts(self, emit_return: Callable[[], None], *callees: BrokenCallee) -> None:
        """Emit the return of a continuation twice. If the contexts can be exited now, they are, and the resume function
        enters them again; otherwise it continues inside them."""
        frames = (self, *callees)
        exits = [each for frame in frames for each in frame.exits()]
        if not exits:
            emit_return()
            return
        inside = emit.landing()
        self.code.call(can_be_left, *exits)
        self.code.add(emit.jump_if_false(inside))
        emit_return()
        self.code.add(inside)
        suspended = [frame.contexts for frame in frames]
        for frame in frames:
            frame.contexts = {}
        emit_return()
        for frame, contexts in zip(frames, suspended, strict=True):
            frame.contexts = contexts

    def exits(self) -> list[Value]:
        return [Local(_KEPT.format(at)) for at in self.contexts]

    def store_stack(self, depth: int) -> None:
        """Move the stack into locals, exit the contexts and end the handlers on it."""
        code = self.code
        for at in reversed(range(depth)):
            if at in self.contexts:
                code.suspend_top()
                continue
            if at in self.handled:
                code.add(emit.pop_handled())
                code.load(Local(_KEPT.format(at)))
            code.store(STACK.format(at))

    def return_call(self, callee: ResumeFunction, values: Mapping[str, Value], varying: Sequence[Varying]) -> None:
        """Return a continuation that continues the interrupted call. The stack is in locals. ``varying``: among the
        arguments of the callee's resume function."""
        point = self.resume_point(self.index, len(self.tx.stack), self.nulls, callee=callee)
        self.return_continuation(point, values, varying)

    def handle(self, covered: list[Instruction]) -> None:
        """If a handler covers the instruction: catch its exception, and raise it again in a resume function."""
        if self.is_covered:
            self.catch(covered)
            self.with_contexts(self._raise)

    def _raise(self) -> None:
        self.take_kept(self.handler_depth)
        self.return_continuation(self.resume_point(self.index, self.handler_depth, self.nulls, raising=True))

    def catch(self, covered: list[Instruction]) -> None:
        """Continue here if one of these instructions raises."""
        landing = emit.store_fast(ERROR)
        shared = Handler(landing, 0, False)
        for instruction in covered:
            instruction.handler = shared
        self.code.add(landing)
        if self.handled:
            self.code.load(Local(_PREVIOUS.format(min(self.handled))))
            self.code.add(emit.pop_handled())

    def take_kept(self, depth: int) -> None:
        """Move the copies of the stack, up to a depth, to the locals that become arguments."""
        for at in reversed(range(depth)):
            if at in self.contexts:
                self.code.load(Local(_KEPT.format(at)))
                self.code.suspend_top()
            elif at not in self.nulls:
                self.code.take(_KEPT.format(at))
                self.code.store(STACK.format(at))

    def return_continuation(
        self, point: ResumePoint, given: Mapping[str, Value] | None = None, varying: Sequence[Varying] = ()
    ) -> None:
        """Return a continuation. ``given``: arguments that are not in a local of the same name."""
        resumed = RESUME_CODES.continuing(self.original, point)
        places = (each.place() for each in (*varying_numbers(self, point), *varying))
        self.tx.attempt.varying.setdefault(resumed, set()).update(places)
        in_local = Take if point.raising else Local  # an error's traceback refers to this frame
        arguments = [given[name] if given and name in given else in_local(name) for name in point.arguments()]
        self.code.call(_C.Resume(resumed), self._closure(), *arguments)
        self.code.add(emit.return_value())

    def _closure(self) -> Value:
        """The closure of the resume function: the original's own cells, then its free variables."""
        names = (*self.original.co_cellvars, *self.original.co_freevars)
        if not names:
            return Constant(None)
        free = self.tx.code.co_freevars
        return Build("TUPLE", tuple(Cell(name) if name in free else Local(self.cells[name]) for name in names))


def _is_handler_open(value: VariableTracker) -> bool:
    """Whether it saves the exc_info of a handler that hasn't been left."""
    return isinstance(value, ExceptionInfoVariable) and not value.is_left
