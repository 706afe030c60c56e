"""A place in the program: the instruction that each frame is executing, outermost first.

A site consists of text and numbers. So it keeps no code object alive, and two translations of a frame have equal sites
for one place.
"""

from __future__ import annotations

from traceback import FrameSummary
from types import BuiltinFunctionType, CodeType, MethodType
from typing import Any, NamedTuple

import torch

from .program_files import line_place


class SiteFrame(NamedTuple):
    """One frame of a site."""

    filename: str
    function: str
    """Its qualified name."""
    line: int | None
    instruction: int
    """Its index in the code."""
    end_line: int | None = None
    column: int | None = None
    """The first byte of the expression in its line."""
    end_column: int | None = None

    def summary(self) -> FrameSummary:
        """The frame as errors show it to the user."""
        ends: dict[str, Any] = {"end_lineno": self.end_line, "colno": self.column, "end_colno": self.end_column}
        return FrameSummary(self.filename, self.line, self.function, lookup_line=False, **ends)


Site = tuple[SiteFrame, ...]


def code_place(code: CodeType) -> str:
    """A function's name with its file and first line, for messages."""
    return f"{code.co_qualname} ({line_place(code.co_filename, code.co_firstlineno)})"


def public_name(value: object) -> str | None:
    """The name of a function in C: ``torch.sin``, not ``_VariableFunctionsClass.sin``; without what pybind11 binds its
    functions to. None of another object."""
    if type(value) is not BuiltinFunctionType:
        return None
    name: str = value.__name__
    if getattr(torch, name, None) is value:
        return f"torch.{name}"
    return name if value.__qualname__.startswith("pybind11_") else value.__qualname__


def qualified_name(value: object) -> str:
    """A function's or class's qualified name, for messages; of another object, its class's."""
    if isinstance(value, MethodType):
        return f"{type(value.__self__).__name__}.{value.__name__}"
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__qualname__
