"""torch's context managers: grad mode, inference mode, autocast, record_function, sdpa_kernel, devices.

Entering one records nodes in the graph, and really enters it while tracing, so that fake tensors see its effect.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.amp import autocast_mode
from torch.autograd.profiler import record_function
from torch.nn import attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._device import DeviceContext

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import ContextByCall, FailsInPython, UnsupportedAttribute
from dynamo_lite.plan.rows import Attribute, Value
from dynamo_lite.records.captured_warnings import CAPTURED_WARNINGS
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.runtime import graph_functions
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models, models_raw
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.functions.builtin_callable import BuiltinVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.torch.contexts.deferred_warnings import warn_after_graph

Nodes = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., object]]
"""The function that enters a context, its arguments, and the function that exits, given the result of the first."""


class ContextVariable(VariableTracker):
    """A context manager of torch that can be entered in a graph."""

    __slots__ = ("value", "arguments")
    exit_result: bool | None = None
    """The result of ``__exit__``."""

    def __init__(self, value: Any, arguments: tuple[Any, ...], source: Source | None = None) -> None:
        self.source = source
        self.value = value
        self.arguments = arguments
        """The arguments with which its class creates an equal one."""

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"{type(self.value).__name__}()"

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.source is not None:
            if name not in self.value.__dict__:
                return None
            return LazyVariable(tx.attempt, self.value.__dict__[name], self.source.instance_item(name))
        if class_lookup(type(self.value), name) is MISSING:  # `__enter__` may set it
            unsupported(UnsupportedAttribute(self.describe(), name))
        return None

    def enter(self, tx: Translator) -> None:
        raise NotImplementedError

    def exit(self, tx: Translator) -> None:
        raise NotImplementedError

    def entered_value(self) -> VariableTracker:
        """The result of ``__enter__``."""
        return ConstantVariable(None)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Decorate a function."""
        return tx.call(tx.generic_getattr(self, "__call__"), args, kwargs)

    def construct(self, plan: Planner) -> Value:
        return plan.call(type(self.value), *map(plan.constant, self.arguments))

    def enter_in_plan(self, plan: Planner) -> Value:
        """Plan that the context is entered. The value is its bound ``__exit__``."""
        context = plan.value(self)
        leave = plan.keep(Attribute(context, "__exit__"))
        plan.do(Attribute(context, "__enter__"))
        return leave


class GradModeVariable(ContextVariable):
    """``no_grad``, ``enable_grad``, ``set_grad_enabled``. The graph builder follows the thread's grad mode.

    ``value`` is an object of tracing's own, with the attributes ``prev`` and ``mode`` of the program's.
    """

    __slots__ = ()

    @property
    def mode(self) -> bool:
        cls = type(self.value)
        return self.value.mode if cls is torch.set_grad_enabled else cls is torch.enable_grad

    def enter(self, tx: Translator) -> None:
        if type(self.value) is not torch.set_grad_enabled:  # its constructor has saved the mode
            self.value.prev = torch.is_grad_enabled()
        _set_grad_mode(tx, self.mode)

    def exit(self, tx: Translator) -> None:
        _set_grad_mode(tx, self.value.prev)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in ("prev", "mode") and name in vars(self.value):
            return ConstantVariable(vars(self.value)[name])
        return super().instance_get(tx, name)

    def enter_by_call(self, tx: Translator) -> VariableTracker:
        if self.source is not None:
            unsupported(ContextByCall(self.describe(), "entered"))
        self.enter(tx)
        return ConstantVariable(None)

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        if "prev" not in vars(self.value):
            unsupported(ContextByCall(self.describe(), "left"))
        self.exit(tx)
        return ConstantVariable(None)

    def enter_in_plan(self, plan: Planner) -> Value:
        plan.expect_grad_mode(self.value.prev, self.mode)
        return super().enter_in_plan(plan)

    def construct(self, plan: Planner) -> Value:
        def fill(context: Value) -> None:
            for name, value in vars(self.value).items():
                plan.set_attribute(context, name, ConstantVariable(value))

        new = plan.call(object.__new__, plan.constant(type(self.value)))  # its constructor may set the mode
        return plan.create(self, new, fill)


def _set_grad_mode(tx: Translator, mode: bool) -> None:
    tx.call(tx.make(torch._C._set_grad_enabled), [ConstantVariable(mode)], {})


def _call_method(method: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """An explicit call of ``__enter__`` or ``__exit__``, which other kinds of contexts may inherit."""
    manager = args[0].realize() if args else None
    if isinstance(manager, (GradModeVariable, GraphContextVariable)):
        return manager.enter_by_call(tx) if method.__name__ == "__enter__" else manager.exit_by_call(tx)
    return tx.inline(FunctionVariable(method, None), args, kwargs)


_GRAD_CLASSES = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled)
_OTHERS = (torch.inference_mode, torch.autocast, record_function, contextlib._GeneratorContextManager)

for _cls in (*_GRAD_CLASSES, *_OTHERS):
    for _method in (_cls.__enter__, _cls.__exit__):
        models_raw(_method, partial(_call_method, _method))


class GraphContextVariable(ContextVariable):
    """A context recorded as two nodes of the graph (enter and exit), and really entered while tracing.

    A graph break exits it after its instruction, and the resume function enters it again. If the resume function began
    inside of the context, it couldn't know the state from before it. And backends expect that a graph begins and ends
    in one state.
    """

    __slots__ = ("node", "entered", "before", "is_reentered")
    make: Callable[..., Any]
    """Creates such a context from its arguments."""
    read_state: Callable[[], object]
    """Reads the state that such contexts set."""

    def nodes(self) -> Nodes:
        raise NotImplementedError

    def enter(self, tx: Translator) -> None:
        self.before, self.is_reentered = torch.is_grad_enabled(), False
        function, arguments, _ = self.nodes()
        self.node = tx.graph.call("call_function", function, arguments, {}, None)
        self.entered = self.really_enter()
        tx.attempt.torch_state.contexts.append(self)

    def exit(self, tx: Translator) -> None:
        if self.is_reentered:  # a resume function entered it again, perhaps for no operator
            self.leave_graph(tx.graph)
        else:
            self.record_end(tx.graph)
        self.leave()
        tx.attempt.torch_state.contexts.remove(self)

    def really_enter(self) -> Any:
        """Enter while tracing. Returns the argument of the function that exits."""
        function, arguments, _ = self.nodes()
        return function(*arguments)

    def leave(self) -> None:
        """Really exit."""
        self.nodes()[2](self.entered)

    def leave_graph(self, graph: GraphBuilder) -> None:
        """Record the exit, for a graph that ends inside the context."""
        if not graph.drop_last(self.node):
            self.record_end(graph)

    def record_end(self, graph: GraphBuilder) -> None:
        graph.call("call_function", self.nodes()[2], (self.node,), {}, None)

    def enter_by_call(self, tx: Translator) -> VariableTracker:
        """Trace an explicit call of ``__enter__``, as `contextlib.ExitStack` does."""
        if self.source is not None or tx.graph.scope.is_nested or self in tx.attempt.torch_state.contexts:
            unsupported(ContextByCall(self.describe(), "entered"))
        tx.attempt.provenance.created(self)
        self.enter(tx)
        return self.entered_value()

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        if tx.attempt.torch_state.contexts[-1:] != [self] or not tx.attempt.provenance.discard(self):
            unsupported(ContextByCall(self.describe(), "left"))
        self.exit(tx)
        return ConstantVariable(self.exit_result)

    @property
    def reenter(self) -> ReenterContext:
        return ReenterContext(type(self), self.arguments, self.before)

    def enter_in_plan(self, plan: Planner) -> Value:
        return plan.keep(plan.call(self.reenter))


class ReenteredContext:
    """Exits a context that `ReenterContext` entered."""

    def __init__(self, context: GraphContextVariable) -> None:
        function, arguments, self.leave = context.nodes()
        self.read_state = context.read_state
        self.state_outside = self.read_state()
        self.entered = function(*arguments)
        self.state_inside = self.read_state()

    def __call__(self, *error: object) -> None:
        self.leave(self.entered)

    def suspend(self) -> None:
        """Exit without changing the grad mode: contexts nested in this one stay entered."""
        now = torch.is_grad_enabled()
        self()
        torch._C._set_grad_enabled(now)


_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "xla", "ipu", "privateuseone")
AUTOCAST_DEVICES = tuple(filter(torch.amp.is_autocast_available, _DEVICES))


@dataclass(frozen=True)
class ReenterContext:
    """Enters a context that a graph breaks in: for the instruction that breaks, and again in the resume function.

    Entering doesn't change the current grad mode; exiting restores the one from before the context.
    """

    kind: type[GraphContextVariable]
    arguments: tuple[Any, ...]
    grad_mode: bool

    def __call__(self) -> ReenteredContext:
        with self.outer_grad_mode():
            return ReenteredContext(self.context())

    def context(self) -> GraphContextVariable:
        return self.kind(self.kind.make(*self.arguments), self.arguments)

    @contextlib.contextmanager
    def outer_grad_mode(self) -> Iterator[None]:
        """Switch to the grad mode in which the program entered the context."""
        now = torch.is_grad_enabled()
        torch._C._set_grad_enabled(self.grad_mode)
        try:
            yield
        finally:
            torch._C._set_grad_enabled(now)


def can_be_left(*exits: ReenteredContext) -> bool:
    """Whether these contexts (the innermost last) can be exited for a while: no others of their kinds are entered."""
    states: dict[Callable[[], object], object] = {}
    for each in reversed(exits):
        if states.get(each.read_state, each.read_state()) != each.state_inside:
            return False
        states[each.read_state] = each.state_outside
    return True


class ReenterContextVariable(InvariantVariable):
    """A `ReenterContext` constant, which a resume function calls at its beginning."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        with self.value.outer_grad_mode():
            context = self.value.context()
            context.enter(tx)
        context.is_reentered = True
        return ExitVariable(context)


wraps_type(ReenterContext)(ReenterContextVariable.by_identity)


class InferenceVariable(GraphContextVariable):
    """``torch.inference_mode``, which sets the grad mode too."""

    __slots__ = ()
    make = torch.inference_mode
    read_state = torch.is_inference_mode_enabled

    def nodes(self) -> Nodes:
        return graph_functions.enter_inference_mode, self.arguments, graph_functions.exit_inference_mode

    def really_enter(self) -> Any:
        return _C.InferenceBlock(*self.arguments)

    def enter(self, tx: Translator) -> None:
        super().enter(tx)
        tx.graph.note_grad_mode(torch.is_grad_enabled())

    def exit(self, tx: Translator) -> None:
        super().exit(tx)
        tx.graph.note_grad_mode(self.before)

    def leave_graph(self, graph: GraphBuilder) -> None:
        super().leave_graph(graph)
        graph.note_grad_mode(self.before)


class AutocastVariable(GraphContextVariable):
    """``torch.autocast``."""

    __slots__ = ()
    exit_result = False
    make = torch.autocast

    @staticmethod
    def read_state() -> tuple[object, ...]:
        devices = [(torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in AUTOCAST_DEVICES]
        return torch.is_autocast_cache_enabled(), *devices

    def nodes(self) -> Nodes:
        return autocast_mode._enter_autocast, self.arguments, autocast_mode._exit_autocast

    def enter(self, tx: Translator) -> None:
        if [type(each) for each in self.arguments] != _AUTOCAST_TYPES:
            unsupported(FailsInPython("entering autocast", "torch refuses its arguments"))
        super().enter(tx)

    def entered_value(self) -> VariableTracker:
        return self

    def construct(self, plan: Planner) -> Value:
        """A copy of the real one, since classes derived from ``torch.autocast`` take other arguments."""
        return plan.call(copy.copy, plan.constant(self.value))


_AUTOCAST_TYPES = [str, torch.dtype, bool, bool]


class RecordVariable(GraphContextVariable):
    """``torch.profiler.record_function``."""

    __slots__ = ()
    make = record_function
    read_state = staticmethod(lambda: None)

    def nodes(self) -> Nodes:
        return graph_functions.enter_record_function, self.arguments, graph_functions.exit_record_function

    def entered_value(self) -> VariableTracker:
        return self


def _attention(numbers: tuple[int, ...], set_priority: bool) -> contextlib.AbstractContextManager[object]:
    return sdpa_kernel([SDPBackend(number) for number in numbers], set_priority)


class AttentionVariable(GraphContextVariable):
    """``torch.nn.attention.sdpa_kernel``."""

    __slots__ = ()
    exit_result = False
    make = staticmethod(_attention)
    read_state = staticmethod(partial(attention._cur_sdpa_kernel_backends, with_priority=True))

    def nodes(self) -> Nodes:
        return graph_functions.enter_sdpa_kernel, self.arguments, graph_functions.exit_sdpa_kernel

    def entered_value(self) -> VariableTracker:
        return DictVariable({})

    def construct(self, plan: Planner) -> Value:
        return plan.call(_attention, *map(plan.constant, self.arguments))


def _leave_device(device: torch.device) -> None:
    device.__exit__(None, None, None)


class DeviceVariable(GraphContextVariable):
    """``with torch.device(...)``. It leaves no node: `record` passes its device to factory functions."""

    __slots__ = ()
    make = torch.device
    read_state = torch._C._len_torch_function_stack

    def nodes(self) -> Nodes:
        return torch.device.__enter__, self.arguments, _leave_device

    def enter(self, tx: Translator) -> None:
        self.before, self.is_reentered = torch.is_grad_enabled(), False
        self.entered = DeviceContext(self.value)
        self.entered.__enter__()
        tx.attempt.torch_state.contexts.append(self)

    def leave(self) -> None:
        self.entered.__exit__(None, None, None)

    def leave_graph(self, graph: GraphBuilder) -> None:
        pass

    record_end = leave_graph

    def entered_value(self) -> VariableTracker:
        return ConstantVariable(self.value)

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.value)


def as_context(manager: VariableTracker) -> VariableTracker:
    """The context that a ``with`` statement enters. (Elsewhere, a device is a constant.)"""
    if isinstance(manager, ConstantVariable) and type(manager.value) is torch.device:
        return DeviceVariable(manager.value, (manager.value,))
    return manager


class ExitVariable(VariableTracker):
    """The bound ``__exit__`` that ``with`` keeps on the stack. Generated code that has it enters the context."""

    __slots__ = ("context", "called")
    is_created_per_load = True

    def __init__(self, context: ContextVariable) -> None:
        self.source = None
        self.context = context
        self.called = False
        """Whether it was called: it stays on the stack while an exception propagates."""

    def python_type(self) -> type:
        return type(self.context.value.__exit__)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        self.context.exit(tx)
        self.called = True
        return ConstantVariable(None)

    @property
    def suspended(self) -> ReenterContext | None:
        """What re-enters the context after a graph break, if the break exits it."""
        if self.called or not isinstance(self.context, GraphContextVariable):
            return None
        return self.context.reenter

    def construct(self, plan: Planner) -> Value:
        return plan.constant(None) if self.called else self.context.enter_in_plan(plan)


_AUTOCAST = AutocastVariable, ("device", "fast_dtype", "_enabled", "_cache_enabled")
_GRAPH_CONTEXTS: dict[type, tuple[type[GraphContextVariable], tuple[str, ...]]] = {
    torch.inference_mode: (InferenceVariable, ("mode",)),
    record_function: (RecordVariable, ("name", "args")),
    **dict.fromkeys((torch.autocast, torch.cpu.amp.autocast, torch.cuda.amp.autocast), _AUTOCAST),
}
"""Classes of contexts, their trackers, and the attributes that are the arguments of an equal context."""


def _create(cls: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    if cls in _DECORATORS and len(args) == 1 and not isinstance(args[0], ConstantVariable) and not kwargs:
        return tx.call(_create(cls, tx, [], {}), args, {})
    with CAPTURED_WARNINGS as captured:
        created = tx.fold(cls, *tx.python_values(args, kwargs))
    if not isinstance(created, cls):
        unsupported(FailsInPython(f"{cls.__name__}() as a decorator", "it decorates what is no function"))
    for each in captured:
        warn_after_graph(tx, str(each.message), type(each.message))
    if cls is torch.set_grad_enabled:
        _set_grad_mode(tx, created.mode)
    return GradModeVariable(created, ()) if cls in _GRAD_CLASSES else _graph_context(created)


def _graph_context(value: object, source: Source | None = None) -> GraphContextVariable:
    kind, names = _GRAPH_CONTEXTS[type(value)]
    return kind(value, tuple(getattr(value, name) for name in names), source)


_DECORATORS = (torch.no_grad, torch.enable_grad, torch.inference_mode)
"""Context managers that may be called with the function that they decorate."""

for _context in (*_GRAD_CLASSES, *_GRAPH_CONTEXTS):
    models_raw(_context, partial(_create, _context))


@models(sdpa_kernel)
def _sdpa_kernel(
    tx: Translator, backends: VariableTracker, set_priority: VariableTracker | None = None
) -> VariableTracker:
    given, has_priority = tx.python_value(backends), set_priority is not None and tx.truth(set_priority)
    chosen = [given] if isinstance(given, SDPBackend) else list(dict.fromkeys(given))
    if not all(isinstance(each, SDPBackend) for each in chosen):
        unsupported(FailsInPython("sdpa_kernel()", "an argument is no SDPBackend"))
    arguments = (tuple(each.value for each in chosen), has_priority)
    return AttentionVariable(tx.evaluate(sdpa_kernel, (given, has_priority)), arguments)


wraps_type(SDPBackend)(BuiltinVariable.by_identity)


@wraps_type(*_GRAD_CLASSES)
def _wrap_grad_mode(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check("type", type(value))
    for name in ("prev", "mode"):
        if name in vars(value):
            source.instance_item(name).check("equals", vars(value)[name])
    return GradModeVariable(copy.copy(value), (), source)


@wraps_type(*_GRAPH_CONTEXTS)
def _wrap_graph_context(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check("type", type(value))
    for name in _GRAPH_CONTEXTS[type(value)][1]:
        source.instance_item(name).check("equals", getattr(value, name))
    return _graph_context(value, source)
