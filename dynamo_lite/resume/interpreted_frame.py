"""The frames of translators, as a graph break reads them. `translator`, which is above, has the classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.variables.core.base import Translator
from dynamo_lite.variables.python.functions.function import CellVariable


class InterpretedFrame(Translator, Protocol):
    """The frame of a translator."""

    started: bool
    """For a generator: whether it has run up to a ``yield``."""

    @property
    def attempt(self) -> Attempt: ...
    @property
    def cells(self) -> Mapping[str, CellVariable]: ...


class StoppedFrame(InterpretedFrame, Protocol):
    """A frame that stopped where the graph breaks, or whose callee did."""

    kw_names: tuple[str, ...]
    """Of the next call."""

    @property
    def callee(self) -> StoppedFrame | None: ...


class StoppedRoot(StoppedFrame, Protocol):
    """The frame that is compiled."""

    argument_names: list[str]

    def stopped(self) -> Iterator[StoppedFrame]:
        """The frames that stopped, outermost first."""
        ...
