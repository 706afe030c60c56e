"""torch's context managers: their effect is recorded in the graph and made real while tracing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.amp import autocast_mode
from torch.autograd import grad_mode
from torch.autograd.profiler import record_function
from torch.nn import attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._device import DeviceContext

from dynamo_lite.insight.break_reasons import (
    OperatorWarns,
    UnsupportedAttribute,
    UnsupportedContext,
    UnsupportedOperation,
)
from dynamo_lite.records.captured_warnings import CapturedWarnings
from dynamo_lite.records.source import Source
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    InvariantVariable,
    Kwargs,
    LazyVariable,
    VariableTracker,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable

GRAD_CLASSES = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled)


class ContextVariable(VariableTracker):
    """A context manager of torch's that can be entered in a graph."""

    __slots__ = ("value", "arguments")

    def __init__(self, value: Any, arguments: tuple[Any, ...], source: Source | None = None) -> None:
        self.source = source
        self.value = value
        self.arguments = arguments
        """What its class is called with to make another one like it."""

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"{type(self.value).__name__}()"

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.source is not None:
            if name not in self.value.__dict__:
                return None
            return LazyVariable(tx.attempt, self.value.__dict__[name], self.source.instance_item(name))
        if class_lookup(type(self.value), name) is MISSING:  # it may be there once it is entered
            unsupported(UnsupportedAttribute(self.describe(), name))
        return None

    def enter(self, tx: Translator) -> None:
        raise NotImplementedError

    def exit(self, tx: Translator) -> None:
        raise NotImplementedError

    def entered_value(self) -> VariableTracker:
        """What ``__enter__`` returns."""
        return ConstantVariable(None)

    def left_value(self) -> VariableTracker:
        """What ``__exit__`` returns."""
        return ConstantVariable(None)

    def enter_by_call(self, tx: Translator) -> VariableTracker:
        """By its method called by hand, as `contextlib.ExitStack` does."""
        unsupported(UnsupportedContext(f"{self.describe()} (entered by an explicit call)"))

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        unsupported(UnsupportedContext(f"{self.describe()} (left by an explicit call)"))

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "clone":
            return ContextClone(self)
        return tx.generic_getattr(self, name)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        """As a decorator."""
        return tx.call(tx.generic_getattr(self, "__call__"), args, kwargs)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(type(self.value), [lambda each=each: cg.load_const(each) for each in self.arguments])

    def load_exit(self, cg: Codegen) -> None:
        """Enter it in the new code, and leave what leaves it on the stack."""
        cg.load(self)
        cg.copy_top()
        cg.load_attr("__exit__")
        cg.swap()
        cg.call_method_of_top("__enter__")
        cg.pop_top()


class ContextClone(VariableTracker):
    """``context.clone``."""

    __slots__ = ("of",)

    def __init__(self, of: ContextVariable) -> None:
        self.source = None
        self.of = of

    def python_type(self) -> type:
        return type(self.of.value.clone)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(self.of, GradModeVariable) and type(self.of.value) is torch.set_grad_enabled:
            return make_context(tx, type(self.of.value), self.of.arguments)
        return type(self.of)(self.of.value, self.of.arguments)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.of)
        cg.load_attr("clone")


class GradModeVariable(ContextVariable):
    """``no_grad``, ``enable_grad``, ``set_grad_enabled``: the graph builder follows the thread's grad mode.

    Called by hand its methods say whether they could: what is known of one from outside is in its ``prev``.
    """

    __slots__ = ("previous",)

    @property
    def mode(self) -> bool:
        return {torch.no_grad: False, torch.enable_grad: True}.get(
            type(self.value), self.arguments and self.arguments[0]
        )

    def enter(self, tx: Translator) -> None:
        if not (type(self.value) is torch.set_grad_enabled and hasattr(self, "previous")):
            self.previous = torch.is_grad_enabled()
        _set_grad_mode(tx, self.mode)

    def exit(self, tx: Translator) -> None:
        _set_grad_mode(tx, self.previous)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.source is None and name in self._attributes():
            return ConstantVariable(self._attributes()[name])
        return super().instance_get(tx, name)

    def _attributes(self) -> dict[str, bool]:
        """Of one made inside, as they are now."""
        found = dict(vars(self.value))
        if type(self.value) is torch.set_grad_enabled:
            found["mode"] = self.mode
        if hasattr(self, "previous"):
            found["prev"] = self.previous
        return found

    def enter_by_call(self, tx: Translator) -> VariableTracker:
        if self.source is not None:
            return super().enter_by_call(tx)
        self.enter(tx)
        return ConstantVariable(None)

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        if self.source is not None:
            _set_grad_mode(tx, tx.python_value(self.getattr(tx, "prev")))
        elif hasattr(self, "previous"):
            self.exit(tx)
        else:
            return super().exit_by_call(tx)
        return ConstantVariable(None)

    def load_exit(self, cg: Codegen) -> None:
        cg.expect_grad_mode(self.previous, self.mode)
        super().load_exit(cg)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(object.__new__, [lambda: cg.load_const(type(self.value))])  # to make one may set the mode
        for name, value in self._attributes().items():
            cg.copy_top()
            cg.load_const(value)
            cg.swap()
            cg.store_attr(name)


def _set_grad_mode(tx: Translator, mode: bool) -> None:
    """As torch does."""
    tx.call(tx.make(torch._C._set_grad_enabled), [ConstantVariable(mode)], {})


def _by_call(cls: type) -> None:
    """Model the methods of a class, called with a context. (A class may have them for other contexts as well.)"""

    def model(method: Any, known: Callable[[ContextVariable, Any], VariableTracker]) -> None:
        def call(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
            manager = args[0].realize() if args else None
            if isinstance(manager, ContextVariable):
                return known(manager, tx)
            return tx.inline(FunctionVariable(method, None), args, kwargs)  # type: ignore[no-any-return]

        models_raw(method, call)

    model(cls.__enter__, lambda manager, tx: manager.enter_by_call(tx))  # type: ignore[attr-defined]
    model(cls.__exit__, lambda manager, tx: manager.exit_by_call(tx))  # type: ignore[attr-defined]


for _cls in (*GRAD_CLASSES, torch.inference_mode, torch.autocast, record_function, type(sdpa_kernel([]))):
    _by_call(_cls)


class GraphContextVariable(ContextVariable):
    """A context that is a pair of nodes in the graph, and entered for real while tracing."""

    __slots__ = ("node", "entered")
    ends_with_graph = False
    """Whether it goes on to the end of the graph, wherever that is."""

    def nodes(self) -> tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]:
        """The function that enters, its arguments, and the one that leaves with what that returned."""
        raise NotImplementedError

    def enter(self, tx: Translator) -> None:
        function, arguments, _ = self.nodes()
        self.node = tx.graph.call("call_function", function, arguments, {}, None)
        self.entered = function(*arguments)
        tx.attempt.torch_state.contexts.append(self)

    def exit(self, tx: Translator) -> None:
        self.record_end(tx.graph)
        self.leave()
        tx.attempt.torch_state.contexts.remove(self)

    def leave(self) -> None:
        """For real."""
        self.nodes()[2](self.entered)

    def leave_graph(self, graph: Any) -> None:
        """Record the end alone: for a graph that ends while the context goes on."""
        if not graph.drop_last(self.node):
            self.record_end(graph)

    def record_end(self, graph: Any) -> None:
        graph.call("call_function", self.nodes()[2], (self.node,), {}, None)

    def enter_by_call(self, tx: Translator) -> VariableTracker:
        if self.source is not None or tx.graph.bodies or self in tx.attempt.torch_state.contexts:
            return super().enter_by_call(tx)
        tx.attempt.provenance.created(self)
        self.enter(tx)
        return self.entered_value()

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        if tx.attempt.torch_state.contexts[-1:] != [self] or not tx.attempt.provenance.discard(self):
            return super().exit_by_call(tx)
        self.exit(tx)
        return self.left_value()

    def exit_found(self, cg: Codegen, method: Any) -> None:
        """Leave for real, after the graph, one that was entered outside."""
        cg.call(method, [lambda: cg.load_source(self.source), *[lambda: cg.load_const(None)] * 3])
        cg.pop_top()


class Exit:
    """What leaves a context that `Entering` entered."""

    def __init__(self, context: SuspendedVariable) -> None:
        function, arguments, self.leave = context.nodes()
        self.watch = context.watch
        self.outside = self.watch()
        self.entered = function(*arguments)
        self.inside = self.watch()

    def __call__(self, *error: Any) -> None:
        """Autocast stays as it is: one that began before this was entered again may have ended since."""
        casts = [(device, torch.is_autocast_enabled(device)) for device in AUTOCAST_DEVICES]
        self.leave(self.entered)
        for device, enabled in casts:
            if torch.is_autocast_enabled(device) is not enabled:
                torch.set_autocast_enabled(device, enabled)

    def suspend(self) -> None:
        """Leave it with the grad mode as it is: what is deeper goes on."""
        now = torch.is_grad_enabled()
        self()
        torch._C._set_grad_enabled(now)


_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "xla", "ipu", "privateuseone")
AUTOCAST_DEVICES = tuple(filter(torch.amp.is_autocast_available, _DEVICES))


@dataclass(frozen=True)
class Entering:
    """Enters a context that a break is in: for the instruction that breaks, and again where the program goes on. The
    grad mode stays as it is; after the context it is what it was before."""

    kind: type[SuspendedVariable]
    arguments: tuple[Any, ...]
    grad_mode: bool

    def __call__(self) -> Exit:
        with self.outside():
            return Exit(self.context())

    def context(self) -> SuspendedVariable:
        return self.kind(self.kind.make(*self.arguments), self.arguments)

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """In the grad mode of before, as it is entered."""
        now = torch.is_grad_enabled()
        torch._C._set_grad_enabled(self.grad_mode)
        try:
            yield
        finally:
            torch._C._set_grad_enabled(now)


class SuspendedVariable(GraphContextVariable):
    """One that a break leaves once its instruction is done, and enters where the program goes on: what was there before
    can't be seen from it, and a graph that ends outside of it is to begin there, for the sake of who compiles it."""

    __slots__ = ("before",)
    make: Callable[..., Any]
    """Makes such a context of its arguments."""
    watch: Callable[[], Any]
    """What such contexts set."""

    def enter(self, tx: Translator) -> None:
        self.before = torch.is_grad_enabled()
        super().enter(tx)

    @property
    def entering(self) -> Entering:
        return Entering(type(self), self.arguments, self.before)

    def load_exit(self, cg: Codegen) -> None:
        cg.call(self.entering, [])


def can_be_left(*exits: Exit) -> bool:
    """Whether these, the innermost last, are all that goes on of their kinds: so they may be left for a while."""
    now: dict[Any, Any] = {}
    for each in reversed(exits):
        if now.get(each.watch, each.watch()) != each.inside:
            return False
        now[each.watch] = each.outside
    return True


class EnteringVariable(InvariantVariable):
    """It is called where a resume function begins."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        with self.value.outside():
            context = self.value.context()
            context.enter(tx)
        return ExitVariable(context)


wraps_type(Entering)(EnteringVariable.by_identity)


class InferenceVariable(SuspendedVariable):
    """``torch.inference_mode``. It sets the grad mode as well."""

    __slots__ = ()
    make = torch.inference_mode
    watch = torch.is_inference_mode_enabled

    def nodes(self) -> Any:
        return grad_mode._enter_inference_mode, self.arguments, grad_mode._exit_inference_mode

    def enter(self, tx: Translator) -> None:
        super().enter(tx)
        tx.graph.note_grad_mode(torch.is_grad_enabled())

    def exit(self, tx: Translator) -> None:
        super().exit(tx)
        tx.graph.note_grad_mode(self.before)

    def leave_graph(self, graph: Any) -> None:
        super().leave_graph(graph)
        graph.note_grad_mode(self.before)


class AutocastVariable(GraphContextVariable):
    """``torch.autocast``."""

    __slots__ = ()

    def nodes(self) -> Any:
        value = self.value
        arguments = (value.device, value.fast_dtype, value._enabled, value._cache_enabled)
        return autocast_mode._enter_autocast, arguments, autocast_mode._exit_autocast

    def enter(self, tx: Translator) -> None:
        if [type(each) for each in self.nodes()[1]] != _OF_AUTOCAST:
            unsupported(UnsupportedOperation("entering", "an autocast of what torch refuses when it is entered"))
        super().enter(tx)

    def entered_value(self) -> VariableTracker:
        return self

    def left_value(self) -> VariableTracker:
        return ConstantVariable(False)

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        return super().exit_by_call(tx) if self.source is None else _leave_found(tx, self)


_OF_AUTOCAST = [str, torch.dtype, bool, bool]


class RecordVariable(GraphContextVariable):
    """``torch.profiler.record_function``."""

    __slots__ = ()

    def nodes(self) -> Any:
        return graph_functions.enter_record_function, self.arguments, graph_functions.exit_record_function

    def entered_value(self) -> VariableTracker:
        return self

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.source is None and name in ("name", "args"):
            return tx.make(getattr(self.value, name))  # type: ignore[no-any-return]
        return super().instance_get(tx, name)

    def exit_by_call(self, tx: Translator) -> VariableTracker:
        """Also of one that was entered before a break. What a profiler is told of it lasts until after the graph."""
        if self.source is None or tx.graph.bodies:
            return super().exit_by_call(tx)
        tx.effects.note(self)
        return ConstantVariable(None)

    def replay(self, cg: Codegen) -> None:
        self.exit_found(cg, record_function.__exit__)


_BEFORE = ("prev", "prev_fastdtype", "prev_cache_enabled")


class LeftAutocast(AutocastVariable):
    """An autocast that was entered outside, and that the program has left: for the rest of the graph, which goes back
    to it at its end. The real exit comes after the graph."""

    __slots__ = ()
    ends_with_graph = True

    def nodes(self) -> Any:
        value = self.value
        arguments = (value.device, value.prev_fastdtype, value.prev, value.prev_cache_enabled)
        return graph_functions.leave_autocast, arguments, graph_functions.return_to_autocast

    def replay(self, cg: Codegen) -> None:
        self.exit_found(cg, torch.autocast.__exit__)


def _leave_found(tx: Translator, manager: AutocastVariable) -> VariableTracker:
    """One that a ``with`` entered before a break."""
    assert manager.source is not None
    inside = (each for each in tx.attempt.torch_state.contexts if not each.ends_with_graph)
    if any(isinstance(each, (InferenceVariable, AutocastVariable)) for each in inside) or tx.graph.bodies:
        unsupported(UnsupportedContext(f"{manager.describe()} (left by an explicit call)"))
    for name in _BEFORE:
        if name not in manager.value.__dict__:
            unsupported(UnsupportedContext(f"{manager.describe()} (left before it is entered)"))
        manager.source.instance_item(name).check("equals" if name != _BEFORE[1] else "id", manager.value.__dict__[name])
    left = LeftAutocast(manager.value, manager.arguments, manager.source)
    tx.effects.note(left)
    left.enter(tx)
    return ConstantVariable(False)


def _attention(numbers: tuple[int, ...], set_priority: bool) -> Any:
    return sdpa_kernel([SDPBackend(number) for number in numbers], set_priority)


class AttentionVariable(SuspendedVariable):
    """``torch.nn.attention.sdpa_kernel``."""

    __slots__ = ()
    make = staticmethod(_attention)
    watch = staticmethod(partial(attention._cur_sdpa_kernel_backends, with_priority=True))

    def nodes(self) -> Any:
        return graph_functions.enter_sdpa_kernel, self.arguments, graph_functions.exit_sdpa_kernel

    def entered_value(self) -> VariableTracker:
        return DictVariable({})

    def left_value(self) -> VariableTracker:
        return ConstantVariable(False)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_attention, [lambda each=each: cg.load_const(each) for each in self.arguments])


def _leave_device(device: torch.device) -> None:
    device.__exit__(None, None, None)


class DeviceVariable(SuspendedVariable):
    """``with torch.device(...)``. It leaves no node: `record` gives its device to what makes tensors."""

    __slots__ = ()
    make = torch.device
    watch = torch._C._len_torch_function_stack

    def nodes(self) -> Any:
        return torch.device.__enter__, self.arguments, _leave_device

    def enter(self, tx: Translator) -> None:
        self.before = torch.is_grad_enabled()
        self.entered = DeviceContext(self.value)
        self.entered.__enter__()
        tx.attempt.torch_state.contexts.append(self)

    def leave(self) -> None:
        self.entered.__exit__(None, None, None)

    def leave_graph(self, graph: Any) -> None:
        pass

    record_end = leave_graph

    def entered_value(self) -> VariableTracker:
        return ConstantVariable(self.value)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


def as_context(manager: VariableTracker) -> VariableTracker:
    """What a ``with`` statement enters: a device is a constant otherwise."""
    if isinstance(manager, ConstantVariable) and type(manager.value) is torch.device:
        return DeviceVariable(manager.value, (manager.value,))
    return manager


class ExitVariable(VariableTracker):
    """The bound ``__exit__`` that ``with`` keeps on the stack. Loading it in new code enters the context there."""

    __slots__ = ("of", "called")
    is_loaded_anew = True

    def __init__(self, of: ContextVariable) -> None:
        self.source = None
        self.of = of
        self.called = False
        """It is on the stack still while an exception goes through, but does nothing more."""

    def python_type(self) -> type:
        return type(self.of.value.__exit__)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        self.of.exit(tx)
        self.called = True
        return ConstantVariable(None)

    @property
    def suspended(self) -> Entering | None:
        """What enters it again, where a break leaves it for a while."""
        return self.of.entering if isinstance(self.of, SuspendedVariable) and not self.called else None

    def reconstruct(self, cg: Codegen) -> None:
        if self.called:
            cg.load_const(None)
        else:
            self.of.load_exit(cg)


def make_context(
    tx: Translator, cls: type, values: tuple[Any, ...], named: dict[str, Any] | None = None
) -> VariableTracker:
    """Construct one as the program does."""
    if cls in GRAD_CLASSES:
        if cls is not torch.set_grad_enabled:
            return GradModeVariable(_made(tx, cls, values, named or {}), ())
        mode = tx.fold(_mode, values, named or {})
        found = GradModeVariable(torch.set_grad_enabled.__new__(torch.set_grad_enabled), (mode,))
        found.previous = torch.is_grad_enabled()
        _set_grad_mode(tx, mode)
        return found
    return _graph_context(_made(tx, cls, values, named or {}))


def _made(tx: Translator, cls: type, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """One of that class: some are decorators as well, and give a function for what is no argument of theirs."""
    with CapturedWarnings() as listening:
        made = tx.fold(cls, values, named)
    if listening.heard:
        unsupported(OperatorWarns(cls.__name__, str(listening.heard[0].message)))
    if not isinstance(made, cls):
        unsupported(UnsupportedOperation(f"the call of {cls.__name__}", "what it takes for a function"))
    return made


def attention_context(tx: Translator, backends: Any, set_priority: bool) -> VariableTracker:
    """``sdpa_kernel(backends, set_priority)``."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    if not all(isinstance(each, SDPBackend) for each in chosen):
        unsupported(UnsupportedOperation("sdpa_kernel", "what is no backend"))
    arguments = (tuple(int(each) for each in chosen), set_priority)
    return AttentionVariable(tx.fold(sdpa_kernel, (backends, set_priority)), arguments)


def record_context(tx: Translator, name: str, args: str | None) -> VariableTracker:
    """``record_function(name, args)``."""
    return RecordVariable(tx.fold(record_function, (name, args)), (name, args))


@wraps_type(record_function)
def _wrap_record_function(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("type", type(value))
    for name in ("name", "args"):
        source.instance_item(name).check("equals", getattr(value, name))
    return RecordVariable(value, (value.name, value.args), source)


def _graph_context(value: Any, source: Source | None = None) -> GraphContextVariable:
    kind = InferenceVariable if isinstance(value, torch.inference_mode) else AutocastVariable
    return kind(value, _arguments(value), source)


def _mode(mode: bool) -> bool:
    return mode


def _arguments(value: Any) -> tuple[Any, ...]:
    if isinstance(value, torch.inference_mode):
        return (value.mode,)
    if type(value) is torch.autocast:
        return (value.device, value.fast_dtype, value._enabled, value._cache_enabled)
    return (value._enabled, value.fast_dtype, value._cache_enabled)


@wraps_type(torch.no_grad, torch.enable_grad)
def _wrap_grad(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("type", type(value))
    return GradModeVariable(value, (), source)


@wraps_type(torch.set_grad_enabled)
def _wrap_set_grad(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("type", type(value))
    own = source.child("instance_dict")
    own.child("dict_item", "mode").check("equals", value.mode)
    found = GradModeVariable(value, (value.mode,), source)
    found.previous = value.prev
    own.child("dict_item", "prev").check("equals", value.prev)
    return found


@wraps_type(torch.inference_mode, torch.autocast, torch.cpu.amp.autocast, torch.cuda.amp.autocast)
def _wrap_graph_context(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("type", type(value))
    own = source.child("instance_dict")
    for name in ("mode",) if isinstance(value, torch.inference_mode) else ("device", "_enabled", "_cache_enabled"):
        own.child("dict_item", name).check("equals", getattr(value, name))
    if not isinstance(value, torch.inference_mode):
        own.child("dict_item", "fast_dtype").check("id", value.fast_dtype)
    return _graph_context(value, source)
