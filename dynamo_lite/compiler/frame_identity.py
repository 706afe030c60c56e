"""What a frame that missed is to the program: its code, its place, its names, and the module it is called with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType
from typing import NamedTuple

import torch

from dynamo_lite import _C
from dynamo_lite.insight.program_files import line_place
from dynamo_lite.records.code_origin import calls_module, is_module_call
from dynamo_lite.resume.graph_break import continued_in_loop
from dynamo_lite.resume.resume_code import RESUME_CODES, original_position


class FramePlace(NamedTuple):
    """The function of the program that a frame runs: for the call of a module, its ``forward``."""

    function: str
    filename: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({line_place(self.filename, self.line)})"


@dataclass(frozen=True, eq=False)
class FrameIdentity:
    """A frame for which no entry holds. It is created once in a miss and handed down; what few steps need is computed
    when one of them reads it."""

    view: _C.FrameView

    @cached_property
    def code(self) -> CodeType:
        return self.view.code

    @cached_property
    def owner(self) -> _C.Owner:
        return self.view.owner

    @cached_property
    def arguments(self) -> dict[str, object]:
        """The values of its arguments, by name."""
        return self.view.locals

    @cached_property
    def original(self) -> CodeType:
        """The user's code, of which it may run the rest."""
        return original_position(self.code, 0)[0]

    @cached_property
    def is_rest(self) -> bool:
        """Whether it runs a resume function."""
        return RESUME_CODES.info(self.code) is not None

    @cached_property
    def in_loop(self) -> list[CodeType]:
        """As `continued_in_loop` documents."""
        return continued_in_loop(self.code)

    @cached_property
    def is_module_call(self) -> bool:
        """Whether it runs code that the calls of all modules share."""
        return is_module_call(self.code.co_filename)

    @cached_property
    def module(self) -> torch.nn.Module | None:
        """The first argument that is a module."""
        for value in self.arguments.values():
            if issubclass(type(value), torch.nn.Module):
                return value  # type: ignore[return-value]
        return None

    @cached_property
    def forward(self) -> FunctionType | None:
        """The ``forward`` that a frame of a module's call is for. For other frames it uses no builtins: the program may
        have replaced them."""
        if not calls_module(self.code):
            return None
        forward = getattr(type(self.module), "forward", None)
        return forward if isinstance(forward, FunctionType) else None

    @cached_property
    def parameters(self) -> tuple[str, ...] | None:
        """The positional parameters of `forward`."""
        code = None if self.forward is None else self.forward.__code__
        return None if code is None else code.co_varnames[: code.co_argcount]

    @cached_property
    def place(self) -> FramePlace:
        code = self.original if self.forward is None else self.forward.__code__
        name = code.co_qualname if self.forward is None else f"{type(self.module).__qualname__}.forward"
        return FramePlace(name, code.co_filename, code.co_firstlineno)

    @cached_property
    def misses(self) -> list[_C.Failure]:
        """Why the entries don't hold that existed when this was first read, beginning with the one used last. Read it
        when no other thread can add one."""
        return self.view.misses() if self.view.entries else []

    @cached_property
    def failures(self) -> list[_C.Failure]:
        """`misses` that a user is told of: entries guarded on another class of a called module are ignored."""
        if not self.is_module_call:
            return self.misses
        return [each for each in self.misses if not (each.kind == "type" and each.value is self.module)]
