"""The streams of an accelerator that a traced program uses.

A graph runs on one stream, the one that is current when it is called. What the program queues on other streams inside
of the graph is queued on that one too, in program order. Before the graph, the caller's stream waits for those others;
after it, they wait for the caller's. So whatever the program orders is ordered. What it leaves unordered is ordered as
well: operations of one graph don't overlap each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamo_lite.sources.source import Source
    from dynamo_lite.variables.torch.contexts.streams import StreamVariable


class StreamUses:
    """The record of one attempt."""

    def __init__(self) -> None:
        self.streams: dict[Source, None] = {}
        """Pre-existing streams that the program queues work on, waits for, or lets wait."""
        self.entered: list[StreamVariable | None] = []
        """Those of the contexts that are entered, outermost first; None: the context changes nothing."""
        self.current: StreamVariable | None = None
        """What ``set_stream`` set; None: the stream that was current before the frame."""

    def close(self) -> None:
        self.streams.clear()
        self.entered.clear()
        self.current = None

    @property
    def innermost(self) -> StreamVariable | None:
        """The current stream; None: the one that was current before the frame."""
        return next((each for each in reversed(self.entered) if each is not None), self.current)
