"""``dl.export``: translates the call of a program into one graph module.

A generated function, whose parameters are the given arguments, calls the program. That function is translated like any
frame. The code after the graph call then runs on proxies instead of values: CPython builds the result, and each
operation on a proxy becomes a node of the outer graph.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from traceback import FrameSummary
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.attempt.side_effects import CallAfterGraph, SideEffects
from dynamo_lite.bytecode import assemble
from dynamo_lite.callables.compiled_function import disabled_function
from dynamo_lite.callables.compiled_module import CompiledModule
from dynamo_lite.codegen.function_code import code_returning
from dynamo_lite.codegen.new_code import new_code
from dynamo_lite.compiler.entry import guards_of, plan_of
from dynamo_lite.compiler.families import Family
from dynamo_lite.compiler.frame_compiler import FrameCompiler
from dynamo_lite.compiler.frame_identity import FrameIdentity
from dynamo_lite.compiler.observers import check_captures, check_runs_at_call
from dynamo_lite.compiler.translation import Translation
from dynamo_lite.exc import ConstraintViolation, InternalError, SkipFrame, Unsupported
from dynamo_lite.insight.break_reasons import EffectOfExport, FrameLeftAlone, HandledFailureInExport
from dynamo_lite.plan.rows import Constant
from dynamo_lite.records.surroundings import BackendTraits
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.interfaces import Globals
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, instance_dict
from dynamo_lite.variables.torch.contexts.streams import StreamUses

from .example_call import GENERATED, Program
from .outer_graph import OuterGraph


@disabled_function
def export(
    fn: Callable[..., Any], *args: object, aten_graph: bool = False, dynamic: bool = False, **kwargs: object
) -> tuple[torch.fx.GraphModule, list[str]]:
    """Trace ``fn(*args, **kwargs)``, without running it, into one graph module with the signature of ``fn``.

    Parameters and buffers are attributes of the graph module: the same objects as in ``fn`` and, if that is a module
    or a method of one, under the same names.

    Args:
        fn: a function, module or other callable.
        args, kwargs: example arguments.
        aten_graph: record ATen operators instead of torch's functions.
        dynamic: make sizes of tensors and integers among the arguments symbolic. The graph module then checks the
            conditions on them that the trace relied on. Sizes and integers that are 0 or 1 are specialized.

    Returns:
        ``(gm, guards)``: the graph module, which raises `exc.InvalidInput` for arguments that its graph is not valid
        for, and the guards as text, like those of `explain`.

    Raises:
        TypeError: ``fn`` is not callable, or doesn't accept these arguments; ``aten_graph`` or ``dynamic`` is no bool.
        exc.Unsupported: the program can't be captured as one graph, or it mutates something that outlives the call.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> gm, guards = dl.export(lambda x: x + 1, torch.zeros(2))
        >>> gm(torch.ones(2))
        tensor([2., 2.])
    """
    if not callable(fn):
        raise TypeError(f"dl.export takes a callable, not {type(fn).__name__} ({fn!r})")
    for setting, value in (("aten_graph", aten_graph), ("dynamic", dynamic)):
        if not isinstance(value, bool):
            raise TypeError(f"{setting} must be True or False, not {value!r}")
    if isinstance(fn, CompiledModule):
        fn = fn._dl_original
    elif isinstance(fn, _C.Wrapped) and fn.owner is not _C.OFF:
        fn = fn.__wrapped__
    check_runs_at_call(fn, must=True)
    try:
        return _exported(Program(fn, args, kwargs), aten_graph, dynamic)
    except (TypeError, Unsupported) as error:
        passed_as_one = not kwargs and [type(each) for each in args] == [tuple]
        if passed_as_one and (isinstance(error, TypeError) or "tuple" in error.reason.what()):
            what = "dl.export takes the arguments one by one, dl.export(fn, *args), not all in one tuple"
            raise TypeError(f"{what}; with a tuple as its argument the call fails") from error
        raise


def _exported(program: Program, aten_graph: bool, dynamic: bool) -> tuple[torch.fx.GraphModule, list[str]]:
    check_captures(program.name)
    exporter = _Exporter(program, aten_graph, dynamic)
    owner = _C.Owner(exporter, "export")
    owner.when_observed = True
    try:
        result: tuple[torch.fx.GraphModule, list[str]] = _C.Wrapped(program.caller, owner)(**program.given)
    finally:
        owner.reset()
    if not exporter.built:
        raise InternalError(f"{program.name} was called, not captured")
    return result


class _PlacedEffects(SideEffects):
    """Side effects, with the user's frames at the first mutation of each object or global."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.guards)
        self._attempt = attempt
        self.places: dict[object, tuple[FrameSummary, ...]] = {}

    def _note(self, written: object) -> None:
        innermost = self._attempt.innermost
        if written not in self.places:
            self.places[written] = () if innermost is None else _without_caller(innermost.places())

    def mutate(self, tracker: VariableTracker) -> None:
        super().mutate(tracker)
        self._note(tracker)

    def decorate(self, tracker: VariableTracker) -> None:
        super().decorate(tracker)
        self._note(tracker)

    def write_global(self, scope: Globals[VariableTracker], name: str, value: VariableTracker | None) -> None:
        super().write_global(scope, name, value)
        self._note((scope, name))


def _without_caller(stack: Iterable[FrameSummary]) -> tuple[FrameSummary, ...]:
    """The frames without the generated function's."""
    return tuple(each for each in stack if each.filename != GENERATED)


class _Exporter(FrameCompiler):
    """Translates the generated function's frame to code that returns the graph module and the text of its guards."""

    is_exporting = True

    def __init__(self, program: Program, aten_graph: bool, dynamic: bool) -> None:
        super().__init__(lambda gm, inputs: gm.forward, "export", Family(None, dynamic), fullgraph=True)
        self.traits = BackendTraits(empty_graphs=True, float_inputs=False, arguments_only=True)
        self.program = program
        self.aten_graph = aten_graph
        self.built = False

    def _miss(self, frame: FrameIdentity) -> Any:
        try:
            return super()._miss(frame)
        except Unsupported as error:
            stack = _without_caller(error.user_stack) or self.program.first_line
            raise Unsupported(error.reason, stack) from error.__cause__
        except ConstraintViolation as error:
            raise ConstraintViolation(error.what, _without_caller(error.user_stack)) from None

    def _skip(self, code: types.CodeType, skipped: SkipFrame) -> Any:
        if skipped.cause is not None:
            raise Unsupported(skipped.cause.reason, skipped.cause.user_stack)
        raise Unsupported(FrameLeftAlone(self.program.name, skipped.why))

    def prepare(self, attempt: Attempt) -> None:
        attempt.effects = _PlacedEffects(attempt)

    def _compile(self, frame: FrameIdentity) -> Any:
        translation = self.translate(frame)
        attempt = translation.attempt
        try:
            if translation.graph_break is not None:
                raise Unsupported(translation.graph_break.reason, translation.graph_break.user_stack)
            _refuse_lasting_effects(attempt)
            result, tree = self._build(translation, frame)
        finally:
            attempt.close()
        self.built = True
        return tree, code_returning(Constant(result), like=frame.code)

    def _build(self, translation: Translation, frame: FrameIdentity) -> tuple[Any, _C.GuardTree]:
        attempt = translation.attempt
        outer = OuterGraph(self.program, attempt)
        call = outer.embedded_call(translation, self.aten_graph)
        plan = plan_of(translation, call)
        after = new_code(plan, frame.code, call, translation.after.code, [], translation.positions)
        tree = guards_of(translation, frame, compiled_by="", guard_filter=None)
        values = attempt.guards.values(frame.code, translation.state, frame.view)
        if not values:
            raise InternalError(f"the guards of {self.program.name} don't hold of what it was exported with")
        names = frame.code.co_varnames[: frame.code.co_argcount]
        outer.run(assemble(after, like=frame.code, cellvars=(), argnames=(*names, _C.CAPTURED_NAME)), values)
        return (outer.build(), [str(reason) for reason, _, _ in tree.checks()]), tree


def _is_restored(tracker: VariableTracker) -> bool:
    """Whether the mutated attributes of an object have their former values at the end. Guards on these values."""
    if not isinstance(tracker, UserObjectVariable) or tracker.source is None:
        return False
    real = instance_dict(tracker.value)
    if real is None or tracker.deleted or tracker.payload is not None or tracker.cls is not type(tracker.value):
        return False
    for name, written in tracker.attrs.items():
        now = None if written is None else written.realize()
        if not isinstance(now, ConstantVariable) or name not in real or type(real[name]) is not type(now.value):
            return False
        if real[name] != now.value:
            return False
        tracker.source.instance_item(name).check("equals", now.value)
    return True


def _refuse_lasting_effects(attempt: Attempt) -> None:
    """Raise `Unsupported` for side effects that outlive the call, which a graph module can't have."""
    effects = attempt.effects
    assert isinstance(effects, _PlacedEffects)
    for tracker in effects.changed_trackers:
        if _is_restored(tracker):
            continue
        text = tracker.describe() if tracker.source is None else f"{tracker.source} ({tracker.describe()})"
        raise Unsupported(EffectOfExport(text), effects.places.get(tracker, ()))
    for scope, name in effects.written_globals:
        raise Unsupported(EffectOfExport(f"the global {name}"), effects.places[scope, name])
    if attempt.torch_state.final_grad_mode != attempt.torch_state.initial_grad_mode:
        raise Unsupported(EffectOfExport("torch's grad mode"))
    if attempt.before_graph.calls or any(isinstance(each, CallAfterGraph) for each in effects.noted):
        raise Unsupported(EffectOfExport("the state of random number generators, or of a device"))
    streams = attempt.state(StreamUses)
    if streams.streams or streams.current is not None:
        raise Unsupported(EffectOfExport("what streams wait for"))
    if attempt.graph.handled_failure:
        raise Unsupported(HandledFailureInExport(attempt.graph.handled_failure))
