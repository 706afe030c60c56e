"""Orders a graph, which runs on the caller's stream, with an accelerator's other streams. Called by generated code."""

from __future__ import annotations

import torch

from .inner_tensors import leaves


def callers_stream(device: torch.device) -> torch.Stream:
    """The stream on which a graph runs."""
    return torch.accelerator.current_stream(device)


def wait_for(stream: torch.Stream) -> None:
    """Before the graph: let it wait for what is queued on a stream that the program uses inside."""
    callers_stream(stream.device).wait_stream(stream)


def wait_for_event(event: torch.Event) -> None:
    """Before the graph: let it wait for one of the program's events."""
    event.wait(torch.accelerator.current_stream())


def synchronize_event(event: torch.Event) -> None:
    """Let the host wait for one of the program's events."""
    event.synchronize()


def release(stream: torch.Stream, *results: object) -> None:
    """After the graph: let this stream wait for it. The stream may then use the memory of the graph's results."""
    stream.wait_stream(callers_stream(stream.device))
    for result in results:
        for tensor in leaves(result) if isinstance(result, torch.Tensor) else ():
            if tensor.device.type == stream.device.type:
                tensor.record_stream(stream)


def created_stream(kind: type[torch.Stream], *arguments: int) -> torch.Stream:
    """A stream that the program created inside of the graph."""
    stream = kind(*arguments)
    release(stream)
    return stream


def created_event(kind: type[torch.Event], device: torch.device | None, is_recorded: bool) -> torch.Event:
    """An event that the program created inside of the graph, and recorded there if ``is_recorded``."""
    event = kind() if device is None else kind(device=device)
    if is_recorded:
        event.record(torch.accelerator.current_stream())
    return event


def synchronize() -> None:
    """Let the host wait for the graph, and for what it waited for."""
    torch.accelerator.current_stream().synchronize()
