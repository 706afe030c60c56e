"""Breaking a frame in two: the native instruction between the graph and its resume functions.

The new code restores the stack, runs the instruction in CPython, moves the stack into locals and returns a
continuation: a resume function with the values that live on. An exception of the instruction that the program handles
is handed to a resume function which raises it again where the handlers cover it.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.bytecode import (
    Handler,
    Instruction,
    assemble,
    copy_with_map,
    decode,
    drop_unreachable,
    effect,
    emit,
    live_locals,
)
from dynamo_lite.bytecode.instructions import EXCEPT_STAR
from dynamo_lite.codegen.python_codegen import PyCodegen
from dynamo_lite.exc import SkipFrame
from dynamo_lite.records.code_origin import reads_frame_by_name
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.null import NULL, unbound_local
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.polyfills.carried import build_from_recipe
from dynamo_lite.variables.python.functions.function import ResumeFunction
from dynamo_lite.variables.python.objects.exception import ExceptionInfoVariable
from dynamo_lite.variables.torch.contexts.context import ExitVariable, ReenterContext, can_be_left
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .iterators import IteratorRecipes, Recipe

STACK = "___stack{}"
_KEPT = "___kept{}"
"""Stack values that a handler wants, kept while the instruction runs."""
_PREVIOUS = "___previous{}"
"""What was handled before a handler of the frame was entered."""
SELF = "___self"
ERROR = "___error"
CLOSURE = "___closure"
ARGUMENTS = "___arguments"
"""Those of the resume function that the call under way is to return from."""
NEW, WAITING = "new", "waiting"


@dataclass(frozen=True)
class ResumePoint:
    """Where and with what a frame goes on. ``raising``: by raising the error it is given instead."""

    index: int
    depth: int
    nulls: tuple[int, ...]
    names: tuple[str, ...]
    first: str | None
    handled: tuple[int, ...] = ()
    """Where on the stack handlers keep what was handled before; the argument is the exception that is handled."""
    raising: bool = False
    generator: str = ""
    """`NEW` or `WAITING`, where the function makes a generator that goes on from here."""
    callee: ResumeFunction | None = None
    """What a call goes on in, for one that is under way: the frame goes on at the next instruction, with its result."""
    contexts: tuple[tuple[int, ReenterContext], ...] = ()
    """Where on the stack is what leaves a context, and what enters that again."""
    carried: tuple[tuple[str, Recipe], ...] = ()
    """Arguments that are given in parts."""

    def arguments(self) -> list[str]:
        """Parameters: what ``super()`` takes for self, the stack, the callee's, the locals, the error."""
        made = {*self.nulls, *dict(self.contexts)}
        stack = [STACK.format(at) for at in range(self.depth) if at not in made]
        first = [] if self.first is None else [self.first]
        rest = [name for name in self.names if name != self.first]
        error = [ERROR] if self.raising else []
        callee = [CLOSURE, ARGUMENTS] if self.callee is not None else []
        return [*first, *stack, *callee, *rest, *error]


@dataclass
class ResumeInfo:
    """What is known of a resume function's code. ``origin``: original index by its own, None in its prologue.
    ``call``: its own index of the call that was under way, -1 if none was."""

    original: types.CodeType
    point: ResumePoint
    origin: list[int | None]
    call: int = -1


class ResumeCodes:
    """The resume functions made so far, alive as long as some generated code refers to them."""

    def __init__(self) -> None:
        self._codes: weakref.WeakValueDictionary[Any, types.CodeType] = weakref.WeakValueDictionary()
        self._infos: dict[int, ResumeInfo] = {}

    def info(self, code: types.CodeType) -> ResumeInfo | None:
        return self._infos.get(id(code))

    def raises(self, code: types.CodeType) -> bool:
        """Whether a resume function begins by raising the error that is its last argument."""
        info = self.info(code)
        return info is not None and info.point.raising

    def get(self, original: types.CodeType, point: ResumePoint) -> types.CodeType:
        key = (id(original), point)
        found = self._codes.get(key)
        if found is None:
            found, info = _resume_code(original, point)
            self._codes[key] = found
            self._infos[id(found)] = info
            weakref.finalize(found, self._infos.pop, id(found), None)
        return found


RESUME_CODES = ResumeCodes()


def original_position(code: types.CodeType, index: int) -> tuple[types.CodeType, int | None]:
    """The program's own code object and the index there, for an instruction of it or of a resume function."""
    info = RESUME_CODES.info(code)
    return (code, index) if info is None else (info.original, info.origin[index])


def raising_code(code: types.CodeType) -> types.CodeType | None:
    """Of a resume function that goes on in a ``try`` or ``with``: the one which raises there the error that it takes as
    one more argument, the last, or as its last if it raises as it is. None where raising to the caller is the same."""
    info = RESUME_CODES.info(code)
    if info is None or info.point.generator:
        return None
    point = info.point
    inside = point.callee is not None and raises_in(point.callee) is not None
    if decode(info.original)[point.index].handler is None and not inside:
        return None
    return RESUME_CODES.get(info.original, replace(point, raising=True))


def raises_in(function: ResumeFunction) -> ResumeFunction | None:
    """The same of what makes resume functions."""
    code = raising_code(function.code)
    return None if code is None else ResumeFunction(code, function.namespace)


def is_call_of_broken_callee(tx: Translator) -> bool:
    """Whether the current instruction makes a call that was under way when the graph was broken inside of it."""
    info = RESUME_CODES.info(tx.code)
    return info is not None and info.call == tx.current.index


def _resume_code(original: types.CodeType, point: ResumePoint) -> tuple[types.CodeType, ResumeInfo]:
    source = decode(original)
    body, mapping = copy_with_map(source)
    freevars = (*original.co_cellvars, *original.co_freevars)
    start = body[point.index]
    prologue: list[Instruction] = list(emit.prologue((), len(freevars)))
    if point.generator:
        prologue[-1:-1] = [emit.make("RETURN_GENERATOR"), emit.pop_top()]
    prologue += _restored(point)
    callee = point.callee
    raises_anyway = callee is not None and RESUME_CODES.raises(callee.code)
    if point.raising and callee is not None:
        callee = raises_in(callee)
    if point.raising and callee is None:
        prologue += [emit.load_fast(ERROR), emit.make("DELETE_FAST", ERROR)]
        again = emit.make("RERAISE", 0)
        again.handler = start.handler
        prologue.append(again)
    elif callee is not None:
        calls = _callee_call(callee, point.raising, raises_anyway)
        again = calls[-1]
        for instruction in calls:
            instruction.handler = start.handler
        prologue += [*calls, emit.jump(body[point.index + 1])]
    else:
        if point.generator == WAITING:  # at a yield with the same handlers, so that throw() and close() find them
            waits, goes_on = map(emit.copy_of, body[point.index - 2 : point.index])
            prologue += [emit.load_const(None), waits, goes_on]
        prologue.append(emit.jump(start))
    for instruction in prologue:
        instruction.positions = start.positions
    unbound = [each for copied in body for each in _where_unbound(copied, original.co_cellvars)]
    kept = drop_unreachable([*prologue, *body, *unbound])
    arguments = point.arguments()
    flags = original.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS)
    code = assemble(
        kept,
        like=original,
        argnames=arguments,
        posonlyargcount=0,
        kwonlyargcount=0,
        flags=flags,
        cellvars=(),
        freevars=freevars,
    )
    index_of = {id(copied): each.index for each, copied in mapping.items()}
    call = -1
    if point.callee is not None:
        index_of[id(again)] = point.index
        call = kept.index(again)
    return code, ResumeInfo(original, point, _origins(code, kept, index_of), call)


def _restored(point: ResumePoint) -> list[Instruction]:
    """The locals that are given in parts, then the stack."""
    made: list[Instruction] = []
    for name, recipe in point.carried:
        given = [[emit.load_const(recipe)], [emit.load_fast(name)]]
        made += [*emit.call_function([emit.load_const(build_from_recipe)], given), emit.store_fast(name)]
    contexts = dict(point.contexts)
    for at in range(point.depth):
        if at in point.nulls:
            made.append(emit.push_null())
        elif at in contexts:
            made += emit.call_function([emit.load_const(contexts[at])], [])
        else:
            made += [emit.load_fast(STACK.format(at)), emit.make("DELETE_FAST", STACK.format(at))]
        if at in point.handled:
            made += [emit.make("PUSH_EXC_INFO"), emit.pop_top()]
    return made


def _where_unbound(instruction: Instruction, cells: tuple[str, ...]) -> list[Instruction]:
    """Where the resume function goes if a cell is empty that the program's code made: as a free variable, which it is
    here, it has CPython say something else of it."""
    name = instruction.argval
    if instruction.opname not in _LOOKS_INTO_CELL or name not in cells:
        return []
    block = [emit.pop_top(), *_raise_unbound(name)]
    for each in block:
        each.handler, each.positions = instruction.handler, instruction.positions
    depth = 0 if instruction.handler is None else instruction.handler.depth
    instruction.handler = Handler(block[0], depth, False)
    return block


_LOOKS_INTO_CELL = ("LOAD_DEREF", "DELETE_DEREF")


def _raise_unbound(name: str) -> list[Instruction]:
    """What CPython does where a variable of the frame is not bound."""
    error = emit.call_function([emit.load_const(UnboundLocalError)], [[emit.load_const(unbound_local(name))]])
    return [*error, emit.make("RAISE_VARARGS", 1)]


def _callee_call(callee: ResumeFunction, raising: bool, raises_anyway: bool) -> list[Instruction]:
    """Call the callee's resume function in the place of the call that was under way. ``raises_anyway``: the last of its
    arguments is an error already, for another one to be raised instead."""
    given = [ARGUMENTS, *([ERROR] if raising else [])]
    make = emit.call_function([emit.load_const(callee)], [[emit.load_fast(CLOSURE)]])
    found = [emit.push_null(), *make, emit.load_fast(ARGUMENTS)]
    if raising and raises_anyway:
        found += [emit.load_const(slice(None, -1)), emit.make("BINARY_SUBSCR")]
    if raising:
        found += [emit.load_fast(ERROR), emit.make("BUILD_TUPLE", 1), emit.binary_op("+")]
    found += [emit.make("DELETE_FAST", name) for name in (CLOSURE, *given)]
    return [*found, emit.make("CALL_FUNCTION_EX", 0)]


def _origins(code: types.CodeType, kept: list[Instruction], index_of: dict[int, int]) -> list[int | None]:
    """Original indices in the order of the assembled code's instructions: those given, then jumps that were added."""
    added = len(decode(code)) - len(kept)
    return [index_of.get(id(each)) for each in kept] + [None] * added


def break_frame(cg: PyCodegen, root: Any) -> None:
    """Emit the native instruction at the root's program counter and what comes after it."""
    breaker = FrameBreaker(cg, root)
    breaker.restore()
    breaker.run_natively()


def why_unbroken(code: types.CodeType, namespace: Mapping[str, Any], index: int | None) -> str | None:
    """Why a frame can't be broken there, None if it can. ``code``: the program's own; ``namespace``: its globals."""
    if index is None:
        return "the first thing it does is to break"
    if reads_frame_by_name(code, namespace):
        return "it looks at its own variables by name"
    if decode(code)[index].opname in EXCEPT_STAR:  # it changes which exception is handled
        return "it handles an exception by `except*`"
    if set(code.co_cellvars) & set(code.co_freevars):
        return "one name is a cell of its own and of the function around it"
    return None


class BrokenFrame:
    """A frame at the instruction where it is broken: the program's code and index, the stack, the names."""

    def __init__(self, tx: Translator) -> None:
        self.tx = tx
        self.instruction: Instruction = tx.current
        self.original, index = original_position(tx.code, self.instruction.index)
        why = why_unbroken(self.original, tx.scope.namespace, index)
        if why is not None:
            raise SkipFrame(why, loses=index is not None)
        assert index is not None
        self.index = index
        self.source = decode(self.original)
        self.nulls = {at for at, value in enumerate(tx.stack) if value is NULL}
        self.handled = {at for at, value in enumerate(tx.stack) if _in_force(value)}
        exits = [(at, value.suspended) for at, value in enumerate(tx.stack) if isinstance(value, ExitVariable)]
        self.contexts = {at: entering for at, entering in exits if entering is not None}
        self.first = self._first_argument()
        self.carried: dict[str, Recipe] = {}
        """Locals that go over in parts."""
        self.outlive: frozenset[str] = frozenset()
        """Locals that are not used again, but whose values somebody may see die: they live on as in CPython."""

    def _first_argument(self) -> str | None:
        """The name of the argument that a native ``super()`` looks at, where the code may call it."""
        if "__class__" not in self.original.co_freevars or not self.original.co_argcount:
            return None
        name = self.original.co_varnames[0]
        if name in self.tx.cells:
            return SELF
        return name if name in self.tx.locals else (SELF if SELF in self.tx.locals else None)

    def load(self, cg: PyCodegen, carried: IteratorRecipes) -> None:
        """Of a callee: put its values into locals of the root's new code."""
        raise NotImplementedError

    def exits(self, cg: PyCodegen) -> list[Callable[[], None]]:
        """What loads the exits of its contexts that are left for a while."""
        raise NotImplementedError

    @property
    def is_covered(self) -> bool:
        """Whether a handler of the program's covers the instruction."""
        return self.source[self.index].handler is not None

    @property
    def handler_depth(self) -> int:
        """How much of the stack that wants."""
        handler = self.source[self.index].handler
        return 0 if handler is None else handler.depth

    def live(self) -> frozenset[str]:
        live = live_locals(self.original)
        handler = self.source[self.index].handler
        after = [live[at] for at in self._successor_indices()]
        if handler is not None:
            after.append(live[handler.target.index])
        return live[self.index].union(*after)

    def holders(self) -> list[Any]:
        """What has the values that live on."""
        bound, stack, cells = self.tx.locals, self.tx.stack, self.tx.cells.values()
        return [*(bound[name] for name in self.live() if name in bound), *stack, *cells]

    def load_local(self, cg: PyCodegen, carried: IteratorRecipes, name: str) -> None:
        """Its value, or the parts of it."""
        value = self.tx.locals[name]
        is_operand = self.instruction.argval == name and "FAST" in self.instruction.opname
        self._load(cg, carried, name, value, None if is_operand or name == self.first else carried.recipe(value))

    def load_from_stack(self, cg: PyCodegen, carried: IteratorRecipes, at: int) -> None:
        """The same of the stack, where only what leaves a block goes in parts."""
        value = self.tx.stack[at]
        recipe = carried.recipe(value, waiting=True) if at in self._exits_of_blocks() else None
        self._load(cg, carried, STACK.format(at), value, recipe)

    def _load(
        self, cg: PyCodegen, carried: IteratorRecipes, name: str, value: VariableTracker, recipe: Recipe | None
    ) -> None:
        if recipe is None:
            cg.load(value)
        else:
            self.carried[name] = recipe
            carried.load(value, recipe)

    def _exits_of_blocks(self) -> set[int]:
        """Where on the stack the ``with`` blocks that the instruction is in have what leaves them."""
        found = set()
        handler = self.source[self.index].handler
        while handler is not None:
            target = handler.target
            if target.opname == "PUSH_EXC_INFO" and self.source[target.index + 1].opname == "WITH_EXCEPT_START":
                found.add(handler.depth - 1)
            handler = target.handler
        return found

    def load_locals(self, cg: PyCodegen, store: Callable[[str], None]) -> None:
        """Load and store the locals that live on."""
        live, bound = self.live(), self.tx.locals
        overwritten = self.instruction.argval if self.instruction.opname == "STORE_FAST" else None
        wanted = {*live, self.first, overwritten}  # who sees a variable's value die is why its store is left to CPython
        for name in bound:
            if name in wanted:
                store(name)
        gone = self.instruction.argval if self.instruction.opname == "DELETE_FAST" else None
        rest = [name for name in bound if name not in wanted and name != gone]
        missed = [name for name in rest if is_deallocation_observable(cg, bound[name])]
        for name in missed:
            store(name)
        if overwritten in bound and is_deallocation_observable(cg, self.tx.stack[-1]):
            missed.append(overwritten)
        self.outlive = frozenset(missed)

    def _successor_indices(self) -> list[int]:
        instruction = self.source[self.index]
        found = [] if instruction.opname in _TERMINATORS else [self.index + 1]
        if instruction.target is not None:
            found.append(instruction.target.index)
        return found

    def resume_point(
        self,
        index: int,
        depth: int,
        nulls: set[int],
        bound: set[str],
        raising: bool = False,
        callee: ResumeFunction | None = None,
    ) -> ResumePoint:
        """Where it goes on, with those of the names in ``bound`` that live on."""
        lives = live_locals(self.original)
        live = lives[index + 1] if callee is not None else lives[index]
        handler = self.source[index].handler
        if handler is not None and (raising or callee is not None):
            live = lives[handler.target.index] | live
        live = live | self.outlive
        names = tuple(sorted(name for name in live if name in bound))
        handled = tuple(sorted(at for at in self.handled if at < depth))
        lower = tuple(sorted(at for at in nulls if at < depth))
        contexts = tuple(pair for pair in self.contexts.items() if pair[0] < depth)
        given = {*names, *map(STACK.format, range(depth))}
        carried = tuple(pair for pair in sorted(self.carried.items()) if pair[0] in given)
        return ResumePoint(
            index,
            depth,
            lower,
            names,
            self.first,
            handled,
            raising,
            callee=callee,
            contexts=contexts,
            carried=carried,
        )

    def operands(self) -> int:
        """How many of the stack's values the instruction takes away that may be NULL."""
        name, arg = self.instruction.opname, self.instruction.arg or 0
        if name == "CALL":
            return arg + 2
        return 3 + (arg & 1) if name == "CALL_FUNCTION_EX" else 0

    def pushes_null(self) -> bool:
        name = self.instruction.opname
        return name == "LOAD_METHOD" or (name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and self.instruction.flag)


class FrameBreaker(BrokenFrame):
    """Emits the break of the root's frame."""

    def __init__(self, cg: PyCodegen, root: Any) -> None:
        super().__init__(root)
        self.cg = cg
        self.cells = {name: f"___cell_{name}" for name in root.cells if name not in root.code.co_freevars}

    def restore(self, keep_all: bool = False, callees: Sequence[BrokenFrame] = ()) -> None:
        """Stack, then locals: everything is loaded before anything is stored, for loads read the arguments.

        ``keep_all``: handlers want the whole stack; ``callees``: frames that are broken with this one."""
        cg, tx = self.cg, self.tx
        carried = IteratorRecipes(cg, [each for frame in (self, *callees) for each in frame.holders()])
        kept = len(tx.stack) if keep_all else self.handler_depth
        for at, value in enumerate(tx.stack):
            if at in self.handled:
                self._load_handled(at, value)
                continue
            self.load_from_stack(cg, carried, at)
            if (at < kept and at not in self.nulls) or at in self.contexts:
                cg.copy_top()
                cg.store_fast(_KEPT.format(at))
        for callee in callees:
            callee.load(cg, carried)
        names: list[str] = []

        def load(name: str) -> None:
            names.append(name)
            self.load_local(cg, carried, name)

        self.load_locals(cg, load)
        for name in self.cells:
            cg.load(tx.cells[name])
        if self.first == SELF and SELF not in tx.locals:
            cg.load(tx.cells[self.original.co_varnames[0]].content)
            cg.store_fast(SELF)
        for name in reversed(list(self.cells.values())):
            cg.store_fast(name)
        for name in reversed(names):
            cg.store_fast(name)
        self._drop_arguments(names)
        cg.set_grad_mode(tx.attempt.torch_state.final_grad_mode)
        self.bound = set(names) | ({SELF} if self.first == SELF else set())

    def _drop_arguments(self, names: list[str]) -> None:
        """What is needed no more dies now, if nobody sees it."""
        kept = {*names, *self.cells.values(), SELF}
        for name in self.tx.argument_names:
            if name not in kept:
                self.cg.op("DELETE_FAST", name)
        self.cg.drop_temporaries()

    def _load_handled(self, at: int, value: ExceptionInfoVariable) -> None:
        """Make an exception the handled one, keeping it and what was handled before."""
        cg = self.cg
        cg.load(value.error)
        cg.store_fast(_KEPT.format(at))
        cg.load(value)
        cg.copy_top()
        cg.store_fast(_PREVIOUS.format(at))

    # -- the instruction -------------------------------------------------------------------------------------------

    def run_natively(self) -> None:
        cg = self.cg
        start = len(cg.body)
        target = self.source[self.index].target
        ends_loop = target is not None and target.opname == "END_FOR"
        # 3.12 wants FOR_ITER to jump to an END_FOR, which the evaluator steps over.
        jump_to = None if target is None else emit.make("END_FOR" if ends_loop else "NOP")
        self._emit_native(jump_to)
        covered = cg.body[start:]
        if self._is_unbound():
            pass  # it raises
        elif self.instruction.opname in _TERMINATORS:
            if self.instruction.opname == "RETURN_VALUE":
                raise SkipFrame("it breaks where it returns", loses=False)
        else:
            self._continue(self.index + 1, jump=False)
        if jump_to is not None:
            assert target is not None
            cg.add(jump_to)
            self._continue(target.index + ends_loop, jump=True)
        self.handle(covered)

    def _is_unbound(self) -> bool:
        """It looks into an empty cell that the program's code made. The new code has it in a local or as a free
        variable, of which CPython would say something else."""
        name = self.instruction.argval
        if self.instruction.opname not in _LOOKS_INTO_CELL or name not in self.original.co_cellvars:
            return False
        return self.tx.cells[name].content is None

    def _emit_native(self, jump_to: Instruction | None) -> None:
        cg, instruction = self.cg, self.instruction
        name = instruction.opname
        if self._is_unbound():
            cg.add(*_raise_unbound(instruction.argval))
        elif name == "CALL":
            cg.add(*emit.call(instruction.arg or 0, self.tx.kw_names))
        elif name == "RERAISE":
            cg.add(emit.make("RERAISE", 0))  # the offset on the stack is the original's
        elif name == "LOAD_METHOD" or (name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and instruction.flag):
            plain = emit.make("LOAD_ATTR" if name == "LOAD_METHOD" else name, instruction.argval)
            if name == "LOAD_SUPER_ATTR":
                plain.flag2 = instruction.flag2
            cg.add(plain, emit.push_null(), emit.swap(2))
        else:
            native = emit.copy_of(instruction)
            native.target = jump_to
            native.handler = None
            cg.add(native)

    def _depth_after(self, jump: bool) -> int:
        instruction = self.instruction
        change = effect(instruction, jump)
        if jump and instruction.opname == "FOR_ITER":
            change = -1  # by the time the loop is left the iterator is gone
        return len(self.tx.stack) + change

    def _continue(self, index: int, jump: bool) -> None:
        """Return a continuation at an index of the program's code."""
        depth = self._depth_after(jump)
        kept = len(self.tx.stack) - self.operands()
        nulls = {at for at in self.nulls if at < min(kept, depth)}
        if self.pushes_null():
            nulls.add(depth - 2)

        def go_on() -> None:
            self._put_stack_away(depth)
            self._return_resume(index, depth, nulls, raising=False)

        self.either_way(go_on)

    def either_way(self, go_on: Callable[[], None], *callees: BrokenFrame) -> None:
        """Return a continuation: contexts are left until it enters them again, where they can be left now; else it goes
        on inside of them."""
        frames = (self, *callees)
        exits = [load for frame in frames for load in frame.exits(self.cg)]
        if not exits:
            go_on()
            return
        as_they_are = emit.make("NOP")
        self.cg.call(can_be_left, exits)
        self.cg.add(emit.jump_if_false(as_they_are))
        go_on()
        self.cg.add(as_they_are)
        suspended = [frame.contexts for frame in frames]
        for frame in frames:
            frame.contexts = {}
        go_on()
        for frame, contexts in zip(frames, suspended, strict=True):
            frame.contexts = contexts

    def exits(self, cg: PyCodegen) -> list[Callable[[], None]]:
        return [partial(cg.load_fast, _KEPT.format(at)) for at in self.contexts]

    def _put_stack_away(self, depth: int) -> None:
        cg = self.cg
        for at in reversed(range(depth)):
            if at in self.contexts:
                cg.call_method_of_top("suspend")
                cg.pop_top()
                continue
            if at in self.handled:
                cg.op("POP_EXCEPT")
                cg.load_fast(_KEPT.format(at))
            cg.store_fast(STACK.format(at))

    def return_call(
        self, callee: ResumeFunction, loads: Mapping[str, Callable[[], None]], landed: bool = False
    ) -> None:
        """Return a continuation that makes the call which is under way. ``landed``: its stack is in locals already."""
        depth = len(self.tx.stack)
        if not landed:
            self._put_stack_away(depth)
        bound = self.bound - set(self.cells)
        self.return_resume(self.resume_point(self.index, depth, self.nulls, bound, callee=callee), loads)

    def handle(self, covered: list[Instruction]) -> None:
        """Where the instruction raises into a handler of the program: go on in a function that raises it again."""
        if self.is_covered:
            self.land(covered)
            self.either_way(self._raise)

    def _raise(self) -> None:
        self.take_kept(self.handler_depth)
        self._return_resume(self.index, self.handler_depth, self.nulls, raising=True)

    def land(self, covered: list[Instruction]) -> None:
        """Go on here where one of these raises."""
        landing = emit.store_fast(ERROR)
        shared = Handler(landing, 0, False)
        for instruction in covered:
            instruction.handler = shared
        self.cg.add(landing)
        if self.handled:
            self.cg.load_fast(_PREVIOUS.format(min(self.handled)))
            self.cg.op("POP_EXCEPT")

    def take_kept(self, depth: int) -> None:
        """The stack up to a depth, as it was kept, becomes arguments."""
        for at in reversed(range(depth)):
            if at in self.contexts:
                self.cg.load_fast(_KEPT.format(at))
                self.cg.call_method_of_top("suspend")
                self.cg.pop_top()
            elif at not in self.nulls:
                self.cg.load_fast(_KEPT.format(at))
                self.cg.op("DELETE_FAST", _KEPT.format(at))
                self.cg.store_fast(STACK.format(at))

    def _return_resume(self, index: int, depth: int, nulls: set[int], raising: bool) -> None:
        self.return_resume(self.resume_point(index, depth, nulls, self.bound - set(self.cells), raising))

    def return_resume(self, point: ResumePoint, loads: Mapping[str, Callable[[], None]] | None = None) -> None:
        """Return a continuation. ``loads``: what leaves an argument on the stack, for those that are no locals."""
        cg = self.cg
        cg.push_null()
        cg.load_const(_C.Resume(RESUME_CODES.get(self.original, point)))
        self._load_closure()
        arguments = point.arguments()
        for name in arguments:
            if loads is not None and name in loads:
                loads[name]()
                continue
            cg.load_fast(name)
            if point.raising:  # the error's traceback holds this frame
                cg.op("DELETE_FAST", name)
        cg.add(*emit.call(len(arguments) + 1, ()))
        cg.add(emit.return_value())

    def _load_closure(self) -> None:
        """The cells that the resume function's code has free: the original's own, then those it was given."""
        cg, tx = self.cg, self.tx
        names = (*self.original.co_cellvars, *self.original.co_freevars)
        if not names:
            cg.load_const(None)
            return
        for name in names:
            if name in tx.code.co_freevars:
                cg.add(emit.load_closure(name))
            else:
                cg.load_fast(self.cells[name])
        cg.build("TUPLE", len(names))


_UNSEEN = frozenset(
    map(
        id,  # a metaclass may compare classes
        (
            *(int, float, complex, bool, str, bytes, type(None), torch.Tensor, torch.nn.Parameter, torch.Size),
            *(torch.dtype, torch.device, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
        ),
    )
)


def is_deallocation_observable(cg: PyCodegen, value: VariableTracker) -> bool:
    """Whether user code can observe that a value is deallocated: by a weak reference, a finalizer, or what C code does
    then."""
    if isinstance(value, LazyVariable):
        return id(type(value.value)) not in _UNSEEN
    if cg.attempt.lifetimes.holds_watched(value):
        return True
    if isinstance(value, (ConstantVariable, TensorVariable)) or value.is_symbolic or value.is_loaded_as_constant:
        return False
    return cg.has_made(value) or value.source is not None and not value.is_guarded_by_identity


def _in_force(value: Any) -> bool:
    return isinstance(value, ExceptionInfoVariable) and not value.is_left


_TERMINATORS = frozenset({"RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "RETURN_CONST"})
