"""A place in the program: the instruction that each frame is executing, outermost first.

A site consists of text and numbers. So it keeps no code object alive, and two translations of a frame have equal sites
for one place.
"""

from __future__ import annotations

from traceback import FrameSummary
from types import CodeType
from typing import NamedTuple


class SiteFrame(NamedTuple):
    """One frame of a site."""

    filename: str
    function: str
    """Its qualified name."""
    line: int | None
    instruction: int = -1
    """Its index in the code; -1: any on that line."""

    def summary(self) -> FrameSummary:
        """The frame as errors show it to the user."""
        return FrameSummary(self.filename, self.line, self.function, lookup_line=False)


Site = tuple[SiteFrame, ...]


def code_place(code: CodeType) -> str:
    """A function's name with its file and first line, for messages."""
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
