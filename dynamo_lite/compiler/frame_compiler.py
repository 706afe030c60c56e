"""From a frame to guarded code: attempts, breaks, the backend, the entry."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import sys
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from traceback import FrameSummary
from typing import Any

import torch
import torch.utils.checkpoint
from torch._guards import TracingContext, tracing
from torch.utils._device import DeviceContext

from dynamo_lite import _C, logs
from dynamo_lite.backends.results import described, wrong_results
from dynamo_lite.bytecode import assemble, names_after
from dynamo_lite.codegen.python_codegen import PyCodegen, Unreconstructable
from dynamo_lite.codegen.rerun import as_expected, putting_back, where_graph_raises
from dynamo_lite.exc import (
    BackendCompilerFailed,
    ConstraintViolation,
    InternalError,
    RecompileLimitExceeded,
    SkipFrame,
    Unsupported,
    WrongBackendResult,
)
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import (
    DroppedGenerator,
    FrameLeftAlone,
    FreedTogether,
    OperatorFailed,
    SharedMemory,
    UncaughtException,
)
from dynamo_lite.insight.counters import counters
from dynamo_lite.records import code_origin
from dynamo_lite.records.guards import Assumed
from dynamo_lite.records.runtime_assertions import Unmet
from dynamo_lite.resume.graph_break import break_frame, origin_of, raising_code
from dynamo_lite.resume.nested_break import break_inside
from dynamo_lite.runtime.interrupts import let_through, no_collection
from dynamo_lite.runtime.precomputed_calls import RaisedAhead, RanAhead
from dynamo_lite.shapes.policy import Translated
from dynamo_lite.translator.attempt import Attempt
from dynamo_lite.translator.core import BreakHere, RootTranslator
from dynamo_lite.translator.specializations import Settlings
from dynamo_lite.variables.core.base import KnowMore, LazyVariable, ObservedException, VariableTracker
from dynamo_lite.variables.core.reachable import trackers_in
from dynamo_lite.variables.python.objects.exception import ExceptionVariable
from dynamo_lite.variables.python.objects.user_object import instance_dict
from dynamo_lite.variables.torch.autograd.function import check_kept_on_ctx
from dynamo_lite.variables.torch.contexts.context import ExitVariable, GraphContextVariable
from dynamo_lite.variables.torch.modules.nn_module import NNModuleVariable
from dynamo_lite.variables.torch.tensors.is_compiling_results import Untold
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .aliases import guard_aliases
from .ddp_stages import active_ddp, in_stages
from .families import Family
from .recompilation import Versions, hold_again, limit_reached, note_recompile

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]

_ATTEMPTS = 40


@dataclass(frozen=True)
class GraphBreak:
    """One place where a graph ended early. ``user_stack``: the user's frames, outermost first."""

    reason: BreakReason
    user_stack: tuple[FrameSummary, ...]

    @property
    def hint(self) -> str:
        return self.reason.hint()

    @property
    def filename(self) -> str:
        return self.user_stack[-1].filename

    @property
    def lineno(self) -> int:
        return self.user_stack[-1].lineno or 0


@dataclass
class Observer:
    """Gathers what is compiled, for ``dl.explain``."""

    graphs: list[torch.fx.GraphModule] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)


@dataclass
class Translation:
    """What an attempt that came through leaves for the backend."""

    attempt: Attempt
    cg: PyCodegen
    positions: Any
    state: _C.GlobalState
    broken: GraphBreak | None
    shapes: Translated


class FrameCompiler:
    """The callback of an owner: asked about each frame for which it has no entry that holds."""

    takes_all = False
    """Frames are translated too in which there is nothing for a graph."""
    gives_floats = True
    """Graphs may be given tensors, on the CPU, that are made of floats."""
    gives_gradients = True
    """Graphs may differentiate inside: the backend hasn't failed on one that does."""
    gives_wrappers = True
    """Graphs may have tensors that are made of others by their class: the backend hasn't failed on one that does."""
    arguments_only = False
    """Tensors that are not among the arguments keep their shapes."""

    def __init__(
        self,
        backend: Backend,
        name: str,
        family: Family,
        *,
        fullgraph: bool = False,
        observer: Observer | None = None,
    ) -> None:
        self.backend = backend
        self.family = family
        self.versions = Versions()
        self.name = name
        self.fullgraph = fullgraph
        self.observer = observer
        self.frozen = threading.local()
        """Has an attribute ``on`` on threads that only run what is there."""
        self.raised_ahead = RaisedAhead()

    def __call__(self, view: _C.FrameView) -> Any:
        try:
            return self._answer(view)
        except BaseException as error:  # raised where the program goes on: it leaves its blocks as it would by any
            code = raising_code(view.code)
            if code is None:
                raise
            return code, error

    def _answer(self, view: _C.FrameView) -> Any:
        if self.raised_ahead.waiting:
            raised = self.raised_ahead.take(view.code, view.locals)
            if raised is not None:
                return raised
        why = code_origin.skips_frame(view.code)
        if why is not None:
            counters.skips += 1
            return _C.FREEZE if code_origin.runs_alone(view.code) else _C.SKIP
        if hold_again(view):
            return _C.RETRY
        if getattr(self.frozen, "on", False) or not can_trace_here():
            return _C.PASS
        if view.adopt():
            counters.shared += 1
            return _C.RETRY
        if self.versions.at_limit(view):
            return self._past_limit(view)
        note_recompile(view)
        try:
            with _nothing_saved():
                compiled = self._compile(view)
            if compiled is not _C.PASS:
                self.versions.add(view)
            return compiled
        except SkipFrame as skipped:
            return self._leave_alone(view.code, skipped)
        except (RecursionError, MemoryError, Warning) as error:  # the program's limits and filters, met here first
            return self._leave_alone(view.code, SkipFrame(f"translating it raised {type(error).__name__}"))
        except (Unsupported, BackendCompilerFailed, ConstraintViolation, InternalError):
            raise
        except Exception as error:
            let_through(error)
            place = f"{view.code.co_qualname} ({view.code.co_filename}:{view.code.co_firstlineno})"
            raise InternalError(f"translating {place} failed: {type(error).__name__}: {error}") from error

    def reset_backend(self) -> None:
        """Let the backend drop what it keeps for the code it compiled, if it says how."""
        getattr(self.backend, "reset", _nothing_to_reset)()

    def _past_limit(self, view: _C.FrameView) -> Any:
        message = limit_reached(view)
        if self.fullgraph:
            raise RecompileLimitExceeded(message)
        return _C.FREEZE

    def _leave_alone(self, code: types.CodeType, skipped: SkipFrame) -> Any:
        counters.skips += 1
        logs.code.debug("%s runs as it is: %s", code.co_qualname, skipped.why)
        if skipped.loses:
            cause = skipped.cause
            first_line = FrameSummary(code.co_filename, code.co_firstlineno, code.co_qualname, lookup_line=False)
            stack = (first_line,) if cause is None else cause.user_stack
            reason = FrameLeftAlone(code.co_qualname, skipped.why, None if cause is None else cause.reason)
            if self.fullgraph:
                raise Unsupported(reason, stack)
            self._note_break(GraphBreak(reason, stack))
        return _C.SKIP

    def _compile(self, view: _C.FrameView) -> Any:
        started = time.perf_counter()
        with no_collection():
            translation = self._translate(view)
        attempt = translation.attempt
        try:
            graph_call, spent = self._run_backend(translation)
        except BackendCompilerFailed:
            if not self._gives_less(attempt):
                raise
            attempt.close()
            return self._compile(view)
        tensors = attempt.graph.inputs if graph_call is not None else []
        failed = _where_raised(view.code, translation)
        self_contained = translation.broken is None
        instructions = translation.cg.finish(graph_call, tensors, translation.positions, failed, self_contained)
        if not attempt.guards.answers.hold():  # the backend registered a class
            attempt.close()
            return _C.PASS
        attempt.guards.written = attempt.graph.written | attempt.graph.alone
        attempt.graph.symbols.check_marks(self.name if graph_call is not None else "")
        attempt.guards.facts(attempt.graph.symbols.facts())
        tree = attempt.guards.build(view.code, translation.state)
        translation.shapes.keep()
        code = assemble(instructions, like=view.code, cellvars=())
        keeper = None if _is_of_a_model(attempt) else self.family.keeper(view.code)
        attempt.close()
        counters.frames += 1
        counters.trace_seconds += time.perf_counter() - started - spent
        counters.backend_seconds += spent
        self._note(translation, tree)
        return tree, code, self_contained, keeper

    def _gives_less(self, attempt: Attempt) -> bool:
        """Whether the backend, which failed, may come to terms with graphs that ask less of it."""
        if attempt.graph.differentiates and not self.fullgraph:
            self.gives_gradients = False  # AOTAutograd can't trace each operator's second derivative
        elif attempt.has_wrappers and self.gives_wrappers and not self.fullgraph:
            self.gives_wrappers = False  # AOTAutograd asks a class for operators that the program does without
        else:
            return False
        return True

    def _note(self, translation: Translation, tree: _C.GuardTree) -> None:
        if translation.broken is not None:
            self._note_break(translation.broken)
        if self.observer is not None:
            self.observer.guards.extend(str(reason) for reason, _, _ in tree.checks())

    def _note_break(self, broken: GraphBreak) -> None:
        counters.graph_breaks += 1
        counters.break_reasons[broken.reason.what()] += 1
        place = broken.user_stack[-1]
        logs.breaks.info("graph break %s at %s:%s: %s", broken.reason.code, place.filename, place.lineno, broken.reason)
        if self.observer is not None:
            self.observer.breaks.append(broken)

    # -- tracing ---------------------------------------------------------------------------------------------------

    def _translate(self, view: _C.FrameView) -> Translation:
        """Attempts: each one that meets something untraceable tells the next where to break."""
        break_at: tuple[int, ...] = ()
        broken: GraphBreak | None = None
        ahead = RanAhead(self.raised_ahead, view.owner)
        assumed: list[Assumed] = []
        """Of tensors that an operator failed on and dicts that lacked something: with others there may be no break."""
        shapes = self._shapes_of(view)
        settlings = Settlings(shapes.settled, self.gives_gradients)
        try:
            for _ in range(_ATTEMPTS):
                state = _C.GlobalState()
                shapes.all_known = settlings.all_known
                attempt = self._begin(view, shapes, ahead, settlings)
                root = _root(attempt, view, break_at)
                found = None
                try:
                    found = self._attempt(attempt, root)
                except KnowMore:
                    continue
                except Untold as error:  # it may go another way
                    settlings.untold |= error.sites
                    broken, break_at = None, ()
                except Unsupported as error:
                    root.note_place(error)
                    if settlings.may_help(attempt, error):
                        continue
                    broken = GraphBreak(error.reason, error.user_stack)
                    if self.fullgraph:
                        raise Unsupported(error.reason, error.user_stack) from None
                    assumed += _assumed_where(error, attempt, settlings)
                    _leave_module_call(view.code, error)
                    break_at = self._earlier(break_at, _path_to_break(root, error))
                except ObservedException as observed:
                    broken = GraphBreak(UncaughtException(observed.error.describe()), (root.place(),))
                    break_at = self._earlier(break_at, (self._raising_step(attempt, root, observed),))
                except (Unreconstructable, Dropped) as error:
                    if settlings.makes_leaves_before(attempt, error.tracker):
                        continue
                    broken = broken or GraphBreak(error.reason, (root.place(),))
                    if self.fullgraph:
                        raise Unsupported(error.reason, broken.user_stack) from None
                    callee = len(break_at) > 1  # it may be something that only the callee has
                    break_at = break_at[:1] if callee else self._earlier(break_at, (_step_that_made(attempt, error),))
                except EndsBefore as error:
                    broken, break_at = self._ended_before(break_at, error, root)
                finally:
                    root.close()
                    if found is None:
                        attempt.close()
                if found is not None:
                    attempt.guards.adopt(assumed)
                    settlings.keep()
                    return Translation(attempt, *found, state, _placed(broken, root), shapes)
        except SkipFrame as skipped:
            skipped.cause = broken
            raise
        finally:
            ahead.close()
        raise InternalError(f"{view.code.co_qualname} was tried {_ATTEMPTS} times without an end")

    def _shapes_of(self, view: _C.FrameView) -> Translated:
        records: Callable[[], bool] = getattr(self.backend, "records_graphs", _records_nothing)
        floats = self.gives_floats and not records()
        return self.family.shapes.begin(view.code, view.locals, floats, self.arguments_only)

    def _begin(self, view: _C.FrameView, *for_attempt: Any) -> Attempt:
        attempt = Attempt(view.globals, view.builtins, *for_attempt)
        attempt.takes_wrappers = self.gives_wrappers
        attempt.carries_integers = getattr(self.backend, "carries_integers", True)
        attempt.frees_at_once = getattr(self.backend, "frees_at_once", False)
        attempt.begins_in_block = raising_code(view.code) is not None
        return attempt

    def _earlier(self, before: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, ...]:
        if before and now >= before:
            raise SkipFrame("what its break needs can't be made")
        return now

    def _ended_before(
        self, before: tuple[int, ...], error: EndsBefore, root: RootTranslator
    ) -> tuple[GraphBreak, tuple[int, ...]]:
        if self.fullgraph or not error.step or before and (error.step,) >= before:
            raise SkipFrame(error.otherwise) from None
        return GraphBreak(error.reason, (root.place(),)), (error.step,)

    def _raising_step(self, attempt: Attempt, root: RootTranslator, observed: ObservedException) -> int:
        """Where CPython is to raise what leaves the frame: the last place; the first, if the trace made it."""
        made = isinstance(observed.error, ExceptionVariable)
        return attempt.provenance.raised_at(observed.error, root.steps) if made else root.step_to_break()

    def _attempt(self, attempt: Attempt, root: RootTranslator) -> tuple[PyCodegen, Any]:
        """One pass over the frame, to its return or to the step where it breaks, and the code after the graph."""
        with attempt:
            broke = self._run(attempt, root)
        attempt.innermost = root  # what the code after the graph settles is its doing
        _end_contexts(attempt, list(root.stacks()) if broke else [])
        takes_all = self.takes_all or self.fullgraph and not broke  # what it calls would be asked for a graph each
        if not attempt.graph.operators and not takes_all and _nothing_here(attempt, root, broke):
            raise SkipFrame("there is nothing in it for a graph", loses=False)
        shared_from = attempt.graph.writes_shared_memory()
        if shared_from is not None:
            raise EndsBefore(shared_from, SharedMemory(), "it writes into tensors that share memory")
        attempt.effects.guard_deaths()
        guard_aliases(attempt)
        _order_inputs(attempt)
        cg = PyCodegen(attempt, root.code)
        attempt.effects.replay(cg)
        if broke:
            cg.grad_mode = attempt.torch_state.initial_grad_mode
            _load_contexts_before(cg, root)
            (break_frame if root.callee is None else break_inside)(cg, root)
        else:
            cg.set_grad_mode(attempt.torch_state.final_grad_mode)
            assert root.returned is not None
            cg.load(root.returned)
            cg.op("RETURN_VALUE")
        for generator in attempt.provenance.generators:
            if generator.in_block and not cg.lives_on(generator):
                raise Dropped(generator)
        check_kept_on_ctx(attempt, cg.has_made)
        _check_what_leaves(attempt, [each.fake for each in cg.outputs if isinstance(each, TensorVariable)])
        if broke:
            _check_what_is_freed(attempt, root, cg)
        return cg, root.current.positions

    def _run(self, attempt: Attempt, root: RootTranslator) -> bool:
        """Trace the frame; whether the graph is broken where that ends."""
        try:
            root.run()
        except BreakHere:
            if not self.fullgraph:
                _check_what_was_told(attempt, root)
            return True
        except ObservedException:
            if attempt.answers.told and not self.fullgraph:
                raise Untold(attempt.answers.told) from None
            raise
        return False

    # -- the backend -----------------------------------------------------------------------------------------------

    def _run_backend(self, translation: Translation) -> tuple[_C.GraphCall | None, float]:
        """The compiled graph, and how many seconds its backend took."""
        attempt, cg = translation.attempt, translation.cg
        if not attempt.graph.operators:
            return None, 0.0
        expected = [each.tensor.node for each in attempt.runtime_assertions]
        gm = attempt.graph.finish([*(tensor.node for tensor in cg.outputs), *expected])
        attempt.graph.symbols.check_marks()
        counters.graphs += 1
        counters.operators += attempt.graph.operators
        if self.observer is not None:
            self.observer.graphs.append(gm)
        started = time.perf_counter()
        try:
            with tracing(TracingContext(attempt.graph.fake_mode)):
                compiled = self._staged_backend()(gm, [each.example for each in attempt.graph.inputs])
        except Exception as error:
            let_through(error)
            raise BackendCompilerFailed(self.name, error) from error
        if not callable(compiled):
            raise WrongBackendResult(self.name, f"returned {described(compiled)}, which can't be called")
        unmet = None if self.fullgraph or not expected else _unmet(translation)
        wrong = wrong_results(self.name, len(cg.outputs) + len(expected))
        call = _call_of(compiled, attempt, len(cg.outputs), wrong, unmet)
        return call, time.perf_counter() - started

    def _staged_backend(self) -> Backend:
        ddp = active_ddp()
        return self.backend if ddp is None else in_stages(self.backend, ddp)


def _check_what_was_told(attempt: Attempt, root: RootTranslator) -> None:
    """Whether the program may fail after a break for having been told before it that it is compiled."""
    written = [scope.writes for scope in attempt.values.scopes]
    sites = attempt.answers.matter(lambda: trackers_in([*_under_way(root), *attempt.effects.written, *written]))
    if sites:
        raise Untold(sites)


def _check_what_leaves(attempt: Attempt, outputs: list[torch.Tensor]) -> None:
    """Whether the graph's results have the history that they have in eager."""
    cut_off = attempt.graph.cut_off(outputs)
    if cut_off:
        attempt.let_data_stay(cut_off)
    has_gradients = any(each.value.requires_grad for each in attempt.graph.tensors)
    leaf = attempt.provenance.first_leaf
    if leaf is not None and not has_gradients and any(each.requires_grad for each in outputs):
        raise Unreconstructable(leaf)  # a backend would take it for inference


def _check_what_is_freed(attempt: Attempt, root: RootTranslator, cg: PyCodegen) -> None:
    """Whether a program that breaks the graph, and has a backward, may go back through a part of the graph where the
    backend's node frees all of it: what shares no history is for graphs of their own."""
    names = itertools.chain.from_iterable(each.code.co_names for each in _under_way(root))
    goes_back = attempt.settlings.goes_back or any(name in _GO_BACK or "backward" in name for name in names)
    if not attempt.frees_at_once or not goes_back:
        return
    step = attempt.provenance.first_apart(each.fake for each in cg.outputs if isinstance(each, TensorVariable))
    if step is not None:
        raise EndsBefore(
            step, FreedTogether(), "a backward would free what another needs, were they one compiled graph"
        )


_GO_BACK = frozenset({"grad", "register_hook"})
"""What else goes back through a graph by itself, or has it done: a hook is run before the whole node that it is of."""


def _under_way(root: RootTranslator) -> Iterator[Any]:
    """The frames that a break is in."""
    frame: Any = root
    while frame is not None:
        yield frame
        frame = frame.callee


def _unmet(translation: Translation) -> Unmet:
    """What counts failures of the graph's conditions, and ends the entry where there are too many."""
    attempt = translation.attempt
    held = attempt.guards.held()
    return Unmet(
        translation.cg.code.co_qualname, translation.shapes.settled, held, [e.place for e in attempt.runtime_assertions]
    )


def _call_of(
    compiled: Callable[..., Any], attempt: Attempt, outputs: int, wrong: Any, unmet: Unmet | None
) -> _C.GraphCall:
    """The call of what a backend made, with what is done around it. ``outputs``: the results without conditions."""
    graph, truths = attempt.graph, [each.truth for each in attempt.runtime_assertions]
    if truths:
        compiled = as_expected(_C.GraphCall(compiled, outputs=outputs + len(truths), wrong=wrong), truths, unmet)
    written = [at for at, each in enumerate(graph.inputs) if each.source in graph.written]
    if graph.fails_handled and written:
        compiled = putting_back(compiled, written)
    captured = sum(each.captured for each in graph.inputs)
    return _C.GraphCall(compiled, captured, graph.changes_state, outputs, wrong)


def _where_raised(code: types.CodeType, translation: Translation) -> list[Any]:
    """Where the graph's call raises to."""
    attempt, inside, cg = translation.attempt, raising_code(code), translation.cg
    return where_graph_raises(code, attempt.shows_failures, inside, cg.draws_again(), cg.put_back())


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
        if isinstance(value, ExitVariable) and isinstance(value.of, GraphContextVariable) and not value.called:
            value.of.leave_graph(attempt.graph)
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
    root.own_cells = origin_of(view.code, 0)[0].co_cellvars
    return root
