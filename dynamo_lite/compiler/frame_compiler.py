"""The callback of an owner: a frame that missed becomes a guarded entry, in steps that are read from top to bottom.

    is it ours? → translate, and generate the code after the graph → compile the graph → install the entry

A translation restarts until an attempt comes through (`restart_loop`); where the backend fails on what may be left out
of a graph, the frame is translated again without.
"""

from __future__ import annotations

import threading
import time
from traceback import FrameSummary
from types import CodeType

from dynamo_lite import _C, logs
from dynamo_lite.exc import (
    BackendCompilerFailed,
    ConstraintViolation,
    InternalError,
    SkipFrame,
    Unsupported,
)
from dynamo_lite.insight.break_reasons import FrameLeftAlone
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.observer import GraphBreak, Observer
from dynamo_lite.resume.graph_break import raising_code
from dynamo_lite.runtime.interrupts import reraise_if_from_signal, without_garbage_collection
from dynamo_lite.runtime.precomputed_calls import PendingExceptions, PrecomputedCalls
from dynamo_lite.translator.attempt import Attempt

from .backend_traits import Backend, BackendTraits
from .eligibility import verdict, without_saved_tensor_hooks
from .entry import Entry, make_entry, note_break, note_entry
from .families import Family
from .graph_call import compile_graph, traits_without
from .recompilation import Versions, note_recompile
from .restart_loop import translate
from .translation import Request, Translation

Answer = Entry | _C.Verdict | Exception | tuple[CodeType, BaseException]
"""What the hook does with a frame, as `_C.Owner` documents."""


class FrameCompiler:
    """Called with each frame for which its owner has no entry whose guards hold. It has the owner's settings."""

    def __init__(
        self,
        backend: Backend,
        name: str,
        family: Family,
        *,
        fullgraph: bool = False,
        observer: Observer | None = None,
        traits: BackendTraits | None = None,
    ) -> None:
        self.backend = backend
        self.traits = BackendTraits.of(backend) if traits is None else traits
        self.family = family
        self.versions = Versions()
        self.name = name
        self.fullgraph = fullgraph
        self.observer = observer
        self.frozen = threading.local()
        """Has an attribute ``on`` on threads that run cached code only."""
        self.raised_ahead = PendingExceptions()

    def __call__(self, view: _C.FrameView) -> Answer:
        try:
            return self._miss(view)
        except BaseException as error:  # raised in the resume function's blocks, as any error there
            code = raising_code(view.code)
            if code is None:
                raise
            return code, error

    def _miss(self, view: _C.FrameView) -> Entry | _C.Verdict | Exception:
        is_frozen = getattr(self.frozen, "on", False)
        found = verdict(view, self.raised_ahead, self.versions, is_frozen=is_frozen, fullgraph=self.fullgraph)
        if found is not None:
            return found
        note_recompile(view)
        try:
            with without_saved_tensor_hooks():
                entry = self._compile(view)
        except SkipFrame as skipped:
            return self._skip(view.code, skipped)
        except (RecursionError, MemoryError, Warning) as error:  # the program's limits and filters, met here first
            return self._skip(view.code, SkipFrame(f"translating it raised {type(error).__name__}"))
        except (Unsupported, BackendCompilerFailed, ConstraintViolation, InternalError):
            raise
        except Exception as error:
            reraise_if_from_signal(error)
            place = f"{view.code.co_qualname} ({view.code.co_filename}:{view.code.co_firstlineno})"
            raise InternalError(f"translating {place} failed: {type(error).__name__}: {error}") from error
        if entry is not _C.PASS:
            self.versions.add(view)
        return entry

    def _compile(self, view: _C.FrameView) -> Entry | _C.Verdict:
        """Translate and generate, compile, install."""
        started = time.perf_counter()
        with without_garbage_collection():
            translation = self.translate(view)
        try:
            compiled = compile_graph(
                translation, self.backend, self.name, fullgraph=self.fullgraph, observer=self.observer
            )
        except BackendCompilerFailed:
            fewer = None if self.fullgraph else traits_without(translation, self.traits)
            if fewer is None:
                raise
            self.traits = fewer
            translation.attempt.close()
            return self._compile(view)
        entry = make_entry(translation, compiled, view.code, self.name, self.family)
        if isinstance(entry, tuple):
            counters.trace_seconds += time.perf_counter() - started - compiled.seconds
            counters.backend_seconds += compiled.seconds
            note_entry(translation, entry[0], self.observer)
        return entry

    def translate(self, view: _C.FrameView) -> Translation:
        """The frame, translated under the owner's settings."""
        traits = self.traits
        shapes = self.family.shapes.begin(view.code, view.locals, traits.takes_floats, traits.arguments_only)
        precomputed = PrecomputedCalls(self.raised_ahead, view.owner)
        return translate(Request(view, traits, self.fullgraph, shapes, precomputed, self.prepare))

    def prepare(self, attempt: Attempt) -> None:
        """Change an attempt before it begins."""

    def _skip(self, code: CodeType, skipped: SkipFrame) -> _C.Verdict:
        counters.skips += 1
        logs.code.debug("%s runs as it is: %s", code.co_qualname, skipped.why)
        if skipped.loses:
            cause = skipped.cause
            first_line = FrameSummary(code.co_filename, code.co_firstlineno, code.co_qualname, lookup_line=False)
            stack = (first_line,) if cause is None else cause.user_stack
            reason = FrameLeftAlone(code.co_qualname, skipped.why, None if cause is None else cause.reason)
            if self.fullgraph:
                raise Unsupported(reason, stack)
            note_break(GraphBreak(reason, stack), self.observer)
        return _C.SKIP

    def reset_backend(self) -> None:
        """Let the backend drop what it keeps for the code it compiled, if it says how."""
        getattr(self.backend, "reset", _nothing_to_reset)()


def _nothing_to_reset() -> None:
    pass


def _records_nothing() -> bool:
    return False


def _over_operands(error: Unsupported) -> bool:
    return isinstance(error.reason, OperatorFailed) and error.reason.over_operands


def _assumed_where(error: Unsupported, attempt: Attempt, settlings: Settlings) -> list[Assumed]:
    """Without which there may be no break."""
    of_tensors = attempt.guards.of_tensors() if _over_operands(error) else []
    return [*settlings.to_fill(attempt.guards), *of_tensors]


def _leave_module_call(code: types.CodeType, error: Unsupported) -> None:
    user_stack = error.user_stack
    if _over_operands(error):
        return
    if code_origin.is_module_call(code.co_filename) and not _is_in_forward(user_stack):
        raise SkipFrame("its hooks and its forward are compiled each by itself", loses=len(user_stack) == 1) from None


def _is_in_forward(user_stack: tuple[FrameSummary, ...]) -> bool:
    """Of a place under ``Module.__call__``: whether the innermost runs ``forward`` there, and not a hook."""
    inner_first = itertools.takewhile(
        lambda frame: not code_origin.is_module_call(frame.filename), reversed(user_stack)
    )
    called = next(reversed([*inner_first]), None)
    return called is not None and called.name.rpartition(".")[2] == "forward"


class Dropped(Exception):
    """A generator was dropped inside of the trace while it waited in a block: leaving the block is for CPython."""

    def __init__(self, tracker: VariableTracker) -> None:
        self.tracker = tracker
        self.reason: BreakReason = DroppedGenerator(tracker.describe())


class EndsBefore(Exception):
    """A graph may not hold what comes from this step of the root's on: it writes into memory that two of its inputs
    have, or is differentiated apart from what was before. ``otherwise``: why the frame runs as it is, if it can't break
    there."""

    def __init__(self, step: int, reason: BreakReason, otherwise: str) -> None:
        self.step = step
        self.reason = reason
        self.otherwise = otherwise


def _placed(broken: GraphBreak | None, root: RootTranslator) -> GraphBreak | None:
    """What is known only at the end of an attempt is known to be here in the next."""
    if broken is None or not isinstance(broken.reason, (SharedMemory, FreedTogether)):
        return broken
    return GraphBreak(broken.reason, (root.place(),))


def _path_to_break(root: RootTranslator, error: Unsupported) -> tuple[int, ...]:
    """The steps of the frames that are under way, the root's first."""
    step = root.step_to_break()
    return (step, *error.path) if step == root.steps else (step,)


def _step_that_made(attempt: Attempt, error: Unreconstructable | Dropped) -> int:
    """The root's step at which CPython is to make a value that the trace can't make (or keep alive)."""
    step = attempt.provenance.step_of(error.tracker)
    if not step:
        raise SkipFrame(error.reason.what()) from None
    return step


def _end_contexts(attempt: Attempt, stack: list[VariableTracker]) -> None:
    """Record the end of the contexts that go on after the graph. One that was entered by a call can't."""
    for context in attempt.torch_state.contexts:
        if attempt.provenance.is_created(context):
            raise Unreconstructable(context)
    for value in reversed(stack):
        if isinstance(value, ExitVariable) and isinstance(value.context, GraphContextVariable) and not value.called:
            value.context.leave_graph(attempt.graph)
    for context in reversed(attempt.torch_state.contexts):
        if context.ends_with_graph:
            context.leave_graph(attempt.graph)


def _load_contexts_before(cg: PyCodegen, root: RootTranslator) -> None:
    """Persistent changes of grad mode under no context on the stack are made before the stack is loaded."""
    if not any(isinstance(value, ExitVariable) for value in root.stacks()):
        cg.set_grad_mode(root.attempt.torch_state.final_grad_mode)


def can_trace_here() -> bool:
    """Whether nothing on this thread or in this process would see, or change, what tracing does."""
    if _python_watches_tensors() or torch._C._dispatch_tls_is_dispatch_key_excluded(_COUNTS_WRITES):
        return False
    return torch._C._get_tracing_state() is None and _builtins_are_there()


_COUNTS_WRITES = torch._C.DispatchKey.ADInplaceOrView
"""In a ``__torch_dispatch__`` it is off: a trace would not see what is written to."""


_REPLACEABLE = frozenset("print open input help exit quit license credits copyright breakpoint __import__".split())
_BUILTINS = [(name, value) for name, value in vars(builtins).items() if name not in _REPLACEABLE]


def _builtins_are_there() -> bool:
    """Programs may change builtins, or take the way to frames from `sys`, and the translator runs on them as well."""
    now = vars(builtins)
    return all(now.get(name, now) is value for name, value in _BUILTINS) and hasattr(sys, "_getframe")


def _python_watches_tensors() -> bool:
    """Whether some Python would see the operators on fakes: a mode of torch's (but for the device that is torch's
    default now), or hooks on what autograd saves."""
    modes = torch._C._len_torch_function_stack()
    if modes > 1 or torch._C._len_torch_dispatch_stack():
        return True
    if modes and type(torch._C._get_function_stack_at(0)) is not DeviceContext:
        return True
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks is not None and not all(getattr(hook, "__module__", None) in _LOSE_NOTHING for hook in hooks)


_LOSE_NOTHING = (torch.utils.checkpoint.__name__, torch.autograd.graph.__name__)
"""Whose hooks nobody can tell from none, whatever is saved: those of checkpoints only count it, which the compiled
forward and its recomputation save alike, those of `save_on_cpu` keep it elsewhere."""


@contextlib.contextmanager
def _nothing_saved() -> Iterator[None]:
    """Hooks on what autograd saves don't see the fakes."""
    autograd = torch._C._autograd
    hooks = []
    while (top := autograd._top_saved_tensors_default_hooks(False)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)


def _nothing_here(attempt: Attempt, root: RootTranslator, broke: bool) -> bool:
    """No operator, and no tensor or module in sight; where it broke, none of what comes after leads to one either."""
    if attempt.graph.inputs or any(
        isinstance(tracker, NNModuleVariable) for _, tracker in attempt.values.memo.values()
    ):
        return False
    in_sight = [*root.arguments, *root.locals.values(), *root.stack]
    if any(isinstance(value, LazyVariable) and _holds_tensors(value.value) for value in in_sight):
        return False
    return code_origin.is_library(root.code) or not (broke and _leads_to_tensors(_used_after(root)))


def _used_after(root: RootTranslator) -> list[Any]:
    """What the frame finds by name once the instruction is done at which it breaks."""
    variables, names = names_after(root.code, root.current.index)
    found: list[VariableTracker | None] = [root.locals[name] for name in variables if name in root.locals]
    found += [root.cells[name].content for name in variables if name in root.cells]
    values = [each.value for each in found if isinstance(each, LazyVariable)]
    return values + [root.scope.namespace[name] for name in names if name in root.scope.namespace]


_LOOKED_AT_MOST = 500


def _leads_to_tensors(values: Iterable[Any]) -> bool:
    """Whether there is a tensor or module in these, in what they hold or in what that holds, the nearest first."""
    waiting = deque(values)
    for _ in range(_LOOKED_AT_MOST):
        if not waiting:
            return False
        value = waiting.popleft()
        kind = type(value)
        if issubclass(kind, (torch.Tensor, torch.nn.Module)):
            return True
        waiting.extend(itertools.islice(_items(value), _LOOKED_AT_MOST))
        if not issubclass(kind, (type, types.ModuleType, types.FunctionType)):
            waiting.extend(itertools.islice((instance_dict(value) or {}).values(), _LOOKED_AT_MOST))
    return False


def _is_of_a_model(attempt: Attempt) -> bool:
    """Whether there is a module or a parameter in it."""
    trackers = (tracker for _, tracker in attempt.values.memo.values())
    parameters = (each for each in attempt.graph.tensors if isinstance(each.value, torch.nn.Parameter))
    return next(parameters, None) is not None or any(isinstance(each, NNModuleVariable) for each in trackers)


def _holds_tensors(value: Any, depth: int = 2) -> bool:
    """Whether a real value is, or has in it, a tensor or module."""
    if issubclass(type(value), (torch.Tensor, torch.nn.Module)):
        return True
    return bool(depth) and any(_holds_tensors(item, depth - 1) for item in _items(value))


def _items(value: Any) -> Iterable[Any]:
    """What a container holds, whatever its class says of it."""
    kind = type(value)
    if issubclass(kind, dict):
        return dict.values(value)
    return list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value) if issubclass(kind, tuple) else ()


def _order_inputs(attempt: Attempt) -> None:
    """Inputs that the guard check captures come first, in order; then those that are arguments of the frame."""
    if not attempt.graph.operators:
        return
    attempt.graph.drop_unused_inputs()
    attempt.graph.order_inputs(lambda each: not each.captured)
    attempt.guards.capture_all(each.source for each in attempt.graph.inputs if each.captured)


def _root(attempt: Attempt, view: _C.FrameView, break_at: tuple[int, ...]) -> RootTranslator:
    sources = attempt.guards.root
    locals_: dict[str, VariableTracker] = {
        name: LazyVariable(attempt, value, sources.child("local", name)) for name, value in view.locals.items()
    }
    cells = [attempt.values.wrap(cell, sources.child("closure", at)) for at, cell in enumerate(view.closure)]
    scope = attempt.values.scope(view.globals)
    root = RootTranslator(attempt, view.code, scope, locals_, cells, break_at=break_at)
    root.own_cells = original_position(view.code, 0)[0].co_cellvars
    return root
