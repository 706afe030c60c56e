"""What this room uses of objects that upper rooms hand to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dynamo_lite.records.source import Source


class Emitter(Protocol):
    """Emits bytecode; `codegen` has it. A callable among the arguments emits what leaves one value on the stack."""

    def load_source(self, source: Source, /) -> None: ...
    def load_fast(self, name: str, /) -> None: ...
    def store_fast(self, name: str, /) -> None: ...
    def pop_top(self) -> None: ...
    def call(self, function: Callable[..., Any], loads: Sequence[Callable[[], None]], /) -> None: ...
    def call_named(
        self,
        function: Callable[..., Any],
        loads: Sequence[Callable[[], None]],
        named: dict[str, Callable[[], None]],
        /,
    ) -> None: ...


class UserFrames(Protocol):
    """Knows which of the user's frames are being translated; `translator` has it."""

    def places(self) -> tuple[FrameSummary, ...]:
        """The user's frames, outermost first."""
        ...
