"""Streams and events of an accelerator: ``torch.cuda.Stream``, ``torch.Stream``, their contexts and events.

They leave no nodes: see `StreamUses` for how their order is kept. Whether work is done and how long it took are known
only at run time, so reading them breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch

from dynamo_lite.insight.break_reasons import DeviceNotCaptured
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.calls_before_graph import CallBeforeGraph
from dynamo_lite.records.guards import Guards
from dynamo_lite.runtime import streams as at_run_time
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.functions.builtin_callable import BuiltinMethodVariable

from .torch_contexts import ContextVariable


def _refuse(operation: str, why: str) -> NoReturn:
    unsupported(DeviceNotCaptured(operation, why))


class _DeviceObject(VariableTracker):
    """A stream or an event. ``device``: None for an event that has none yet."""

    __slots__ = ("kind", "device")

    def __init__(self, kind: type, device: torch.device | None, source: Source | None = None) -> None:
        self.source = source
        self.kind = kind
        self.device = device

    def python_type(self) -> type:
        return self.kind

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if hasattr(self, f"method_{name}"):
            return BuiltinMethodVariable(self, name)
        if name == "__class__":
            return tx.make(self.kind)
        if name == "device" and self.device is not None:
            return ConstantVariable(self.device)
        _refuse(f"{self.kind.__name__}.{name}", "it is known only when the program runs")

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol not in ("==", "!=") or not isinstance(other, _DeviceObject):
            return None
        if other is not self:
            _refuse("comparing streams or events", "it is known only when the program runs which ones are equal")
        return ConstantVariable(symbol == "==")

    def truth(self, tx: Translator) -> bool:
        return True


# -- streams -----------------------------------------------------------------------------------------------------------


class StreamVariable(_DeviceObject):
    """A stream. One without a source was created during tracing with ``arguments``, or, if these are None, is the
    stream that is current when the frame begins."""

    __slots__ = ("arguments",)
    device: torch.device

    def __init__(
        self,
        kind: type,
        device: torch.device,
        source: Source | None = None,
        arguments: tuple[object, ...] | None = None,
    ) -> None:
        super().__init__(kind, device, source)
        self.arguments = arguments

    def use(self, tx: Translator) -> None:
        """Note that the program queues work on the stream, waits for it, or lets it wait."""
        if tx.effects.in_body:
            _refuse("a stream", "a function that an operator runs uses it")
        if torch.cuda.is_initialized() and tx.guards.query(torch._C._cuda_isCurrentStreamCapturing):
            _refuse("a stream", "a CUDA graph is being captured")
        if self.device.index != _current_device(tx.guards, self.device.type):
            _refuse("a stream", "it isn't on the current device")
        if self.source is not None:
            tx.attempt.state(StreamUses).streams[self.source] = None

    def method_wait_stream(self, tx: Translator, stream: VariableTracker) -> VariableTracker:
        self.use(tx)
        _as_stream(stream).use(tx)
        return ConstantVariable(None)

    def method_wait_event(self, tx: Translator, event: VariableTracker) -> VariableTracker:
        return _as_event(event).method_wait(tx, self)

    def method_record_event(self, tx: Translator, event: VariableTracker | None = None) -> VariableTracker:
        if event is None or tx.is_none(event):
            found = EventVariable(torch.cuda.Event if issubclass(self.kind, torch.cuda.Stream) else torch.Event, None)
        else:
            found = _as_event(event)
        found.method_record(tx, self)
        return found

    def method_synchronize(self, tx: Translator) -> VariableTracker:
        self.use(tx)
        return _wait_after_graph(tx, at_run_time.synchronize)

    def method___enter__(self, tx: Translator) -> VariableTracker:
        _refuse("Stream.__enter__()", "it is called outside of a `with` statement")

    def method___exit__(self, tx: Translator, *error: VariableTracker) -> VariableTracker:
        _refuse("Stream.__exit__()", "its context was entered outside of the graph")

    def construct(self, plan: Planner) -> Value:
        if self.arguments is None:
            current = torch.cuda.current_stream if self.kind is torch.cuda.Stream else at_run_time.callers_stream
            return plan.call(current, plan.constant(self.device))
        return plan.call(at_run_time.created_stream, *map(plan.constant, (self.kind, *self.arguments)))


def _current_device(guards: Guards, kind: str) -> int:
    """The index of the current device, guarded."""
    index: int = guards.query(torch._C._cuda_getDevice if kind == "cuda" else torch._C._accelerator_getDeviceIndex)
    return index


def _as_stream(value: VariableTracker) -> StreamVariable:
    found = value.realize()
    return found if isinstance(found, StreamVariable) else _refuse("a stream", f"it is {found.describe()}")


def _as_event(value: VariableTracker) -> EventVariable:
    found = value.realize()
    return found if isinstance(found, EventVariable) else _refuse("an event", f"it is {found.describe()}")


@wraps_type(torch.Stream, torch.cuda.Stream, torch.cuda.ExternalStream)
def _wrap_stream(attempt: Attempt, value: torch.Stream, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("type", type(value))
        source.child("c_attr", "device_index").check("equals", value.device_index)
        source.child("c_attr", "device_type").check("equals", value.device_type)
    return StreamVariable(type(value), value.device, source)


@models(torch.cuda.Stream)
def _new_cuda_stream(
    tx: Translator, device: VariableTracker | None = None, priority: VariableTracker | None = None
) -> VariableTracker:
    given = None if device is None else tx.python_value(device)
    arguments = (given, 0 if priority is None else tx.python_value(priority))
    return StreamVariable(torch.cuda.Stream, device_named(tx, "cuda", device), arguments=arguments)


@models(torch.Stream)
def _new_stream(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    given = None if device is None else tx.python_value(device)
    found = torch.accelerator.current_accelerator() if given is None else torch.device(given)
    if found is None or found.type == "cpu":
        _refuse("a stream", "it is not of an accelerator")
    return StreamVariable(torch.Stream, _indexed(tx.guards, found), arguments=(given,))


def _indexed(guards: Guards, device: torch.device) -> torch.device:
    index = _current_device(guards, device.type) if device.index is None else device.index
    return torch.device(device.type, index)


def _current(tx: Translator, kind: type, device: torch.device) -> VariableTracker:
    found = tx.attempt.state(StreamUses).innermost
    if found is None:
        return StreamVariable(kind, device)
    if found.kind is not kind or found.device != device:
        _refuse("the current stream", "the program has set one of another type or device")
    return found


@models(torch.cuda.current_stream)
def _current_cuda_stream(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    return _current(tx, torch.cuda.Stream, device_named(tx, "cuda", device))


def device_named(tx: Translator, kind: str, device: VariableTracker | None) -> torch.device:
    """The device that an optional argument gives by its index, name or ``torch.device``."""
    given = None if device is None else tx.python_value(device)
    if given is None or isinstance(given, int):
        return _indexed(tx.guards, torch.device(kind) if given is None else torch.device(kind, given))
    return _indexed(tx.guards, torch.device(given))


@models(torch.accelerator.current_stream)
def _current_stream(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        _refuse("the current stream", "there is no accelerator")
    return _current(tx, torch.Stream, device_named(tx, accelerator.type, device))


@models(torch.cuda.default_stream)
def _default_stream(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    return tx.make(tx.fold(torch.cuda.default_stream, (device_named(tx, "cuda", device),)))


@models(torch.cuda.set_stream, torch.accelerator.set_stream)
def _set_stream(tx: Translator, stream: VariableTracker) -> VariableTracker:
    if tx.is_none(stream):
        return ConstantVariable(None)
    uses = tx.attempt.state(StreamUses)
    if uses.entered:
        _refuse("set_stream()", "it is called inside of a stream's context")
    found = _as_stream(stream)
    found.use(tx)
    if uses.current is None:
        tx.effects.note(_CurrentStream())
    uses.current = found
    return ConstantVariable(None)


class _CurrentStream:
    """The effect of ``set_stream``: generated code makes the last stream current after the graph."""

    def replay(self, plan: Planner) -> None:
        stream = plan.attempt.state(StreamUses).current
        assert stream is not None
        if stream.source is not None or stream.arguments is not None:  # otherwise it is current anyway
            plan.do(torch.accelerator.set_stream, stream)


class StreamUses:
    """The streams that a traced program uses. A graph runs on one stream, the one that is current when it is called.

    What the program queues on other streams inside of the graph is queued on that one too, in program order. Before the
    graph, the caller's stream waits for those others; after it, they wait for the caller's. So whatever the program
    orders is ordered. What it leaves unordered is ordered as well: operations of one graph don't overlap each other.
    """

    def __init__(self) -> None:
        self.streams: dict[Source, None] = {}
        """Pre-existing streams that the program queues work on, waits for, or lets wait."""
        self.entered: list[StreamVariable | None] = []
        """Those of the contexts that are entered, outermost first; None: the context changes nothing."""
        self.current: StreamVariable | None = None
        """What ``set_stream`` set; None: the stream that was current before the frame."""

    def clear(self) -> None:
        self.streams.clear()
        self.entered.clear()
        self.current = None

    @property
    def innermost(self) -> StreamVariable | None:
        """The current stream; None: the one that was current before the frame."""
        return next((each for each in reversed(self.entered) if each is not None), self.current)


# -- contexts ----------------------------------------------------------------------------------------------------------


class StreamContextVariable(ContextVariable):
    """``with torch.cuda.stream(stream)``, or ``with stream``. ``stream``: None where it does nothing."""

    __slots__ = ("stream", "manager")

    def __init__(self, stream: StreamVariable | None, manager: VariableTracker | None = None) -> None:
        super().__init__(None, ())
        self.stream = stream
        self.manager = manager
        """The stream that is its own context manager."""

    def python_type(self) -> type:
        return torch.cuda.StreamContext if self.manager is None else self.manager.python_type()

    def describe(self) -> str:
        return "a stream's context"

    def enter(self, tx: Translator) -> None:
        if self.stream is not None:
            self.stream.use(tx)
        tx.attempt.state(StreamUses).entered.append(self.stream)

    def exit(self, tx: Translator) -> None:
        tx.attempt.state(StreamUses).entered.pop()

    def entered_value(self) -> VariableTracker:
        return ConstantVariable(None) if self.manager is None else self.manager

    def construct(self, plan: Planner) -> Value:
        if self.manager is not None:
            return plan.value(self.manager)
        return plan.call(torch.cuda.StreamContext, self.stream or ConstantVariable(None))


def stream_context(manager: VariableTracker) -> VariableTracker:
    """The context that a ``with`` statement enters, given a stream; any other manager as it is."""
    found = manager.realize()
    return StreamContextVariable(found, found) if isinstance(found, StreamVariable) else manager


@models(torch.cuda.StreamContext)
def _new_context(tx: Translator, stream: VariableTracker) -> VariableTracker:
    return StreamContextVariable(None if tx.is_none(stream) else _as_stream(stream))


# -- events ------------------------------------------------------------------------------------------------------------


class EventVariable(_DeviceObject):
    """An event. ``is_recorded``: whether it was created and recorded during tracing."""

    __slots__ = ("is_recorded",)

    def __init__(self, kind: type, device: torch.device | None, source: Source | None = None) -> None:
        super().__init__(kind, device, source)
        self.is_recorded = False

    def _stream(self, tx: Translator, stream: VariableTracker | None) -> StreamVariable:
        if stream is not None and not tx.is_none(stream):
            return _as_stream(stream)
        device = self.device or torch.device("cuda", _current_device(tx.guards, "cuda"))
        return tx.attempt.state(StreamUses).innermost or StreamVariable(torch.Stream, device)

    def method_record(self, tx: Translator, stream: VariableTracker | None = None) -> VariableTracker:
        if self.source is not None:
            _refuse("Event.record()", "the event was created outside of the graph, and may measure time")
        self._stream(tx, stream).use(tx)
        self.is_recorded = True
        return ConstantVariable(None)

    def method_wait(self, tx: Translator, stream: VariableTracker | None = None) -> VariableTracker:
        self._stream(tx, stream).use(tx)
        if self.source is not None:
            tx.attempt.before_graph.calls.append(CallBeforeGraph(at_run_time.wait_for_event, (self.source,)))
        return ConstantVariable(None)

    def method_synchronize(self, tx: Translator) -> VariableTracker:
        if self.source is None:
            return _wait_after_graph(tx, at_run_time.synchronize) if self.is_recorded else ConstantVariable(None)
        tx.attempt.before_graph.calls.append(CallBeforeGraph(at_run_time.synchronize_event, (self.source,)))
        return ConstantVariable(None)

    def construct(self, plan: Planner) -> Value:
        given = (self.kind, self.device, self.is_recorded)
        return plan.call(at_run_time.created_event, *map(plan.constant, given))


@wraps_type(torch.Event, torch.cuda.Event)
def _wrap_event(attempt: Attempt, value: torch.Event, source: Source) -> VariableTracker:
    source.check_type(value)
    return EventVariable(type(value), None, source)


def _new_event(tx: Translator, kind: type, device: torch.device | None, options: Kwargs) -> VariableTracker:
    if any(tx.truth(each) for each in options.values()):
        _refuse("an event", f"it is created with {', '.join(options)}")
    return EventVariable(kind, device)


@models(torch.cuda.Event)
def _new_cuda_event(tx: Translator, **options: VariableTracker) -> VariableTracker:
    return _new_event(tx, torch.cuda.Event, None, options)


@models(torch.Event)
def _new_generic_event(
    tx: Translator, device: VariableTracker | None = None, **options: VariableTracker
) -> VariableTracker:
    given = None if device is None else tx.python_value(device)
    return _new_event(tx, torch.Event, None if given is None else torch.device(given), options)


# -- the host waits; memory --------------------------------------------------------------------------------------------


def _wait_after_graph(tx: Translator, function: Callable[..., object], *args: VariableTracker) -> VariableTracker:
    """Let the host wait by this function, after the graph. So in the graph nothing may depend on the host's waiting."""
    if tx.effects.in_body:
        _refuse("synchronizing", "it is called in a function that an operator runs")
    if any(map(_copies_without_waiting, tx.graph.graph.nodes)):
        _refuse("synchronizing", "the graph copies to or from the host without waiting")
    tx.effects.note_call(function, *args)
    return ConstantVariable(None)


def _copies_without_waiting(node: torch.fx.Node) -> bool:
    """Whether an operator is given ``non_blocking=True``."""
    return bool(node.kwargs.get("non_blocking")) or node.target in _COPIES and any(arg is True for arg in node.args)


_COPIES = ("to", "cuda", "cpu", "copy_")


@models(torch.cuda.synchronize)
def _synchronize(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    return _wait_after_graph(tx, torch.cuda.synchronize, tx.make(None if device is None else tx.python_value(device)))


@models(torch.cuda.empty_cache)
def _empty_cache(tx: Translator) -> VariableTracker:
    """The call moves behind the graph, since it changes nothing that the program computes."""
    tx.effects.note_call(torch.cuda.empty_cache)
    return ConstantVariable(None)


def record_stream(tx: Translator, tensor: VariableTracker, stream: VariableTracker) -> VariableTracker:
    """``tensor.record_stream(stream)``. It isn't needed for a tensor and a stream that were both created during
    tracing: the tensor's memory belongs to the caller's stream, on which the graph runs."""
    found = _as_stream(stream)
    found.use(tx)
    if tensor.source is not None or found.source is not None:
        tx.effects.note_call(torch.Tensor.record_stream, tensor, found)
    return ConstantVariable(None)
