"""The code of resume functions: the user's code behind a prologue that restores the stack and goes on after a break.

The code of a short function is assembled with all that follows the break. For a long one only the prologue is: a frame
that is translated reads the user's instructions, which all its resume functions share. The rest is assembled when
CPython first runs it.
"""

from __future__ import annotations

import bisect
import types
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dynamo_lite import _C
from dynamo_lite.bytecode import (
    Handler,
    Instruction,
    assemble,
    copy_with_map,
    decode,
    drop_unreachable,
    emit,
    reachable_from,
    roles,
)
from dynamo_lite.bytecode.decode import PerCode
from dynamo_lite.codegen.emitter import load
from dynamo_lite.plan.rows import Call
from dynamo_lite.sources.identity import identity
from dynamo_lite.variables.core.null import unbound_local
from dynamo_lite.variables.python.functions.function import ResumeFunction
from dynamo_lite.variables.torch.contexts.torch_contexts import ReenterContext

STACK = "___stack{}"
SELF = "___self"
ERROR = "___error"
CLOSURE = "___closure"
ARGUMENTS = "___arguments"
"""The arguments of the callee's resume function, which the interrupted call continues in."""
NEW, WAITING = "new", "waiting"
COPIED_AT_MOST = 256
"""In functions of at most so many instructions, each resume function is a copy of the rest of the code: a call that
runs in eager then needs no second continuation."""


@dataclass(frozen=True)
class ResumePoint:
    """Where a frame continues and which values it needs. ``raising``: it raises an error that it receives there."""

    index: int
    """The index of the instruction in the user's code."""
    depth: int
    nulls: tuple[int, ...]
    """Stack positions of NULL."""
    names: tuple[str, ...]
    """The locals that are passed on."""
    first: str | None
    """The local that holds the argument which ``super()`` reads."""
    handled: tuple[int, ...] = ()
    """Stack positions of saved exc_info; the argument there is the exception being handled."""
    raising: bool = False
    generator: str = ""
    """`NEW` or `WAITING` if the function returns a generator that continues here."""
    callee: ResumeFunction | None = None
    """If a call was interrupted: the callee's resume function. This frame continues after the call, with its result."""
    contexts: tuple[tuple[int, ReenterContext], ...] = ()
    """Stack positions of the ``__exit__`` of suspended contexts, and what enters them again."""
    recipes: tuple[tuple[str, Call], ...] = ()
    """Arguments that the function recreates (see `IteratorRecipes`)."""

    def arguments(self) -> list[str]:
        """The parameters: the argument that ``super()`` reads, stack, callee, locals, error."""
        created = {*self.nulls, *dict(self.contexts)}
        stack = [STACK.format(at) for at in range(self.depth) if at not in created]
        first = [] if self.first is None else [self.first]
        rest = [name for name in self.names if name != self.first]
        error = [ERROR] if self.raising else []
        callee = [CLOSURE, ARGUMENTS] if self.callee is not None else []
        return [*first, *stack, *callee, *rest, *error]


@dataclass
class ResumeInfo:
    """How a resume function's code relates to the user's. ``runs``: of consecutive instructions that are consecutive in
    the user's code too, the first index and that in the user's code (None for those of the prologue). ``call``: its own
    index of the interrupted call, -1 if none was interrupted. ``is_deferred``: in CPython this code only continues with
    the rest of the user's."""

    original: types.CodeType
    point: ResumePoint
    runs: list[tuple[int, int | None]]
    call: int = -1
    is_deferred: bool = False

    def original_index(self, index: int) -> int | None:
        """The index in the user's code of an instruction; None in the prologue."""
        start, original = self.runs[bisect.bisect_right(self.runs, index, key=lambda run: run[0]) - 1]
        return None if original is None else original + index - start


def _runs(origin: Iterable[int | None]) -> list[tuple[int, int | None]]:
    found: list[tuple[int, int | None]] = []
    expected: int | None = -1
    for at, index in enumerate(origin):
        if index != expected:
            found.append((at, index))
        expected = None if index is None else index + 1
    return found


class ResumeCodes:
    """The code of all resume functions, cached weakly: it lives as long as generated code refers to it."""

    def __init__(self) -> None:
        self._codes: weakref.WeakValueDictionary[tuple[int, ResumePoint, bool], types.CodeType] = (
            weakref.WeakValueDictionary()
        )
        self._infos: dict[int, ResumeInfo] = {}

    def info(self, code: types.CodeType) -> ResumeInfo | None:
        return self._infos.get(identity(code))

    def get(self, original: types.CodeType, point: ResumePoint) -> types.CodeType:
        """The code of a function that anybody may call."""
        return self._get(original, point, is_deferred=False)

    def continuing(self, original: types.CodeType, point: ResumePoint) -> types.CodeType:
        """Code for a continuation. It may return a continuation itself."""
        return self._get(original, point, len(decode(original)) > COPIED_AT_MOST)

    def function(self, original: types.CodeType, point: ResumePoint, namespace: dict[str, object]) -> ResumeFunction:
        """Creates functions that anybody may call."""
        return ResumeFunction(self.continuing(original, point), namespace, partial(self.get, original, point))

    def _get(self, original: types.CodeType, point: ResumePoint, is_deferred: bool) -> types.CodeType:
        key = (identity(original), point, is_deferred)
        found = self._codes.get(key)
        if found is None:
            found, info = _deferred_code(original, point) if is_deferred else _resume_code(original, point)
            self._codes[key] = found
            if is_deferred:
                _C.mark_code(found, _C.Mark.NONE)  # the hook asks about each frame, it is never new
            self.add(found, info)
        return found

    def add(self, code: types.CodeType, info: ResumeInfo) -> None:
        self._infos[identity(code)] = info
        weakref.finalize(code, self._infos.pop, identity(code), None)


RESUME_CODES = ResumeCodes()


def instructions_of(code: types.CodeType) -> tuple[Sequence[Instruction], int]:
    """The instructions of a code object, and the index of the first that runs. They may be shared.

    Deferred code (see `ResumeInfo`) has the user's instructions, then its prologue."""
    info = RESUME_CODES.info(code)
    if info is None or not info.is_deferred:
        return decode(code), 0
    source = decode(info.original)
    prologue, _ = _shared_prologue(info.original, info.point)
    return [*source, *prologue], len(source)


def runs_rest_as_own_function(code: types.CodeType) -> bool:
    """Whether it is deferred code. Then frames of what CPython runs in its place are looked at by the hook from now on,
    which otherwise leaves them alone: their time is that of the calls."""
    info = RESUME_CODES.info(code)
    if info is None or not info.is_deferred:
        return False
    (rest,) = (each for each in code.co_consts if type(each) is _Rest)
    _C.mark_code(rest().code, _C.Mark.NONE)
    return True


def never_compiled(code: types.CodeType) -> types.CodeType:
    """The code to run in eager in the place of this: for deferred code one whose rest is never compiled."""
    info = RESUME_CODES.info(code)
    if info is None or not info.is_deferred:
        return code
    return _deferred_code(info.original, info.point, _C.Mark.SKIP_RECURSIVE)[0]


def original_position(code: types.CodeType, index: int) -> tuple[types.CodeType, int | None]:
    """The user's code object and the index in it, for an instruction of that code or of a resume function."""
    info = RESUME_CODES.info(code)
    return (code, index) if info is None else (info.original, info.original_index(index))


def continued(code: types.CodeType) -> Iterator[ResumeInfo]:
    """What a frame of this code continues: its own frame, then the interrupted calls, outermost first. Nothing if it is
    no resume function's."""
    info = RESUME_CODES.info(code)
    while info is not None:
        yield info
        callee = info.point.callee
        info = None if callee is None else RESUME_CODES.info(callee.code)


def forget_instructions(code: types.CodeType) -> None:
    """Drop the decoded instructions of a resume function and of those that it continues. It is rarely translated again,
    and its code lives as long as the entry before it."""
    while (info := RESUME_CODES.info(code)) is not None:
        decode.forget(code)
        if info.point.callee is None:
            return
        code = info.point.callee.code


def raising_code(code: types.CodeType, *, continuing: bool = False) -> types.CodeType | None:
    """For a resume function that continues inside a ``try`` or ``with``: the variant that raises, in that block, an
    error which it takes as its last argument. None if the frame would propagate the error anyway.

    ``continuing``: it is for a continuation."""
    info = RESUME_CODES.info(code)
    if info is None or info.point.generator:
        return None
    if all(decode(each.original)[each.point.index].handler is None for each in continued(code)):
        return None
    get = RESUME_CODES.continuing if continuing else RESUME_CODES.get
    return get(info.original, replace(info.point, raising=True))


def _resume_code(original: types.CodeType, point: ResumePoint) -> tuple[types.CodeType, ResumeInfo]:
    """The code of a resume function, whole."""
    source = decode(original)
    waiting = source[point.index - 2 : point.index] if point.generator == WAITING else ()
    following = source[point.index + (point.callee is not None)]
    body, mapping = copy_with_map(reachable_from(source, [*waiting, source[point.index], following]))
    yielding = [emit.load_const(None), *(emit.copy_of(mapping[each]) for each in waiting)] if waiting else []
    prologue, again = _prologue(original, point, mapping[source[point.index]], mapping[following], yielding)
    unbound = [each for copied in body for each in _unbound_handler(copied, original.co_cellvars)]
    kept = [*prologue, *body, *unbound]
    if point.raising or waiting or point.callee is not None:  # otherwise the prologue leads to all of it
        kept = drop_unreachable(kept)
    freevars = (*original.co_cellvars, *original.co_freevars)
    code = assemble(kept, like=original, argnames=point.arguments(), cellvars=(), freevars=freevars)
    index_of = {id(copied): each.index for each, copied in mapping.items()}
    call = -1
    if point.callee is not None:
        index_of[id(again)] = point.index
        call = kept.index(again)
    return code, ResumeInfo(original, point, _runs(index_of.get(id(each)) for each in kept), call)


def _prologue(
    original: types.CodeType,
    point: ResumePoint,
    start: Instruction,
    following: Instruction,
    yielding: Sequence[Instruction] = (),
) -> tuple[list[Instruction], Instruction]:
    """The instructions that restore the stack and lead to ``start``, or after an interrupted call to ``following``; and
    the last of them, or the one that makes or raises again out of that call. ``yielding``: those that a generator waits
    at, with the same handlers, so that throw() and close() find them."""
    code = emit.prologue(len(original.co_cellvars) + len(original.co_freevars))
    if point.generator:
        code[-1:-1] = emit.return_generator()
    code += _restored(point)
    callee = point.callee
    interrupted = None if callee is None else RESUME_CODES.info(callee.code)
    raises_anyway = interrupted is not None and interrupted.point.raising
    if point.raising and callee is not None:
        callee = _raising_function(callee)
    if point.raising and callee is None:
        code += emit.take_fast(ERROR)
        again = emit.reraise()
        again.handler = start.handler
        code.append(again)
    elif callee is not None:
        calls = _callee_call(callee, point.raising, raises_anyway)
        again = calls[-1]
        for instruction in calls:
            instruction.handler = start.handler
        code += [*calls, emit.jump(following)]
    else:
        again = emit.jump(start)
        code += [*yielding, again]
    for instruction in code:
        instruction.positions = start.positions
    return code, again


def _raising_function(callee: ResumeFunction) -> ResumeFunction | None:
    """The variant of an interrupted call's resume function that raises (see `raising_code`)."""
    info = RESUME_CODES.info(callee.code)
    if info is None or raising_code(callee.code, continuing=True) is None:
        return None
    return RESUME_CODES.function(info.original, replace(info.point, raising=True), callee.namespace)


def _shared_prologue(original: types.CodeType, point: ResumePoint) -> tuple[list[Instruction], Instruction]:
    """The prologue as if it stood behind the user's instructions."""
    source = decode(original)
    code, again = _prologue(original, point, source[point.index], source[point.index + (point.callee is not None)])
    for index, instruction in enumerate(code, len(source)):
        instruction.index = index
    return code, again


class _Rest:
    """What deferred code continues with: the code of the whole resume function, assembled at the first call."""

    def __init__(self, original: types.CodeType, point: ResumePoint, mark: _C.Mark) -> None:
        self._original, self._point, self._mark = original, point, mark
        self._resume: _C.Resume | None = None

    def __call__(self) -> _C.Resume:
        if self._resume is None:
            code, info = _resume_code(self._original, self._point)
            RESUME_CODES.add(code, info)
            _C.mark_code(code, self._mark)
            self._resume = _C.Resume(code)
        return self._resume


_C.mark_code(_Rest.__call__.__code__, _C.Mark.SKIP_RECURSIVE)


def _deferred_code(
    original: types.CodeType, point: ResumePoint, mark: _C.Mark = _C.Mark.SKIP
) -> tuple[types.CodeType, ResumeInfo]:
    """Code that is translated as the resume function, and whose frames in CPython become one that runs the rest.
    ``mark``: of that one's code."""
    skeleton, arguments = _skeleton(original), point.arguments()
    names = skeleton.co_freevars
    body = [*emit.prologue(len(names)), *emit.callee(emit.call_function(_Rest(original, point, mark)))]
    body += [*map(emit.load_closure, names), emit.build("TUPLE", len(names))] if names else [emit.load_const(None)]
    for name in arguments:
        body += emit.take_fast(name)
    body += [*emit.call(len(arguments) + 1), emit.return_value()]
    source = decode(original)
    for instruction in body:
        instruction.positions = source[point.index].positions
    code = assemble(body, like=skeleton, argnames=arguments)
    prologue, again = _shared_prologue(original, point)
    runs: list[tuple[int, int | None]] = [(0, 0), (len(source), None)]
    call = -1
    if point.callee is not None:
        call = again.index
        runs += [(call, point.index), (call + 1, None)]
    return code, ResumeInfo(original, point, runs, call, is_deferred=True)


def _assemble_skeleton(original: types.CodeType) -> types.CodeType:
    body = [*emit.prologue(0), emit.load_const(None), emit.return_value()]
    freevars = (*original.co_cellvars, *original.co_freevars)
    return assemble(body, like=original, argnames=(), cellvars=(), freevars=freevars)


_skeleton = PerCode(_assemble_skeleton)
"""An empty function like the user's. To assemble code like this costs nothing for constants and names."""


def _restored(point: ResumePoint) -> list[Instruction]:
    """Recreate the locals with a recipe, then push the stack."""
    code: list[Instruction] = []
    for name, recipe in point.recipes:
        code += [*load(recipe), emit.store_fast(name)]
    contexts = dict(point.contexts)
    for at in range(point.depth):
        if at in point.nulls:
            code.append(emit.push_null())
        elif at in contexts:
            code += emit.call_function(contexts[at])
        else:
            code += emit.take_fast(STACK.format(at))
        if at in point.handled:
            code += [emit.push_handled(), emit.pop_top()]
    return code


def _unbound_handler(instruction: Instruction, cells: tuple[str, ...]) -> list[Instruction]:
    """Raise UnboundLocalError for an empty cell that the user's code creates. It is a free variable in the resume
    function, for which CPython would raise a NameError with another message."""
    name = instruction.argval
    if not roles.fails_on_empty_cell(instruction) or name not in cells:
        return []
    block = [emit.pop_top(), *raise_unbound(name)]
    for each in block:
        each.handler, each.positions = instruction.handler, instruction.positions
    depth = 0 if instruction.handler is None else instruction.handler.depth
    instruction.handler = Handler(block[0], depth, False)
    return block


def raise_unbound(name: str) -> list[Instruction]:
    """Raise the UnboundLocalError that CPython raises for an unbound local variable."""
    error = emit.call_function(UnboundLocalError, [[emit.load_const(unbound_local(name))]])
    return [*error, emit.raise_top()]


def _callee_call(callee: ResumeFunction, raising: bool, raises_anyway: bool) -> list[Instruction]:
    """Call the callee's resume function in place of the interrupted call. ``raises_anyway``: the last of the arguments
    is an error already, which ``raising`` replaces."""
    function = emit.call_function(callee, [[emit.load_fast(CLOSURE)]])
    code = [*emit.callee(function), emit.load_fast(ARGUMENTS)]
    if raising and raises_anyway:
        code += [emit.load_const(slice(None, -1)), emit.subscript()]
    if raising:
        code += [emit.load_fast(ERROR), emit.build("TUPLE", 1), emit.binary_op("+")]
    code += [emit.delete_fast(name) for name in (CLOSURE, ARGUMENTS, *([ERROR] if raising else []))]
    return [*code, emit.call_with_tuple()]
