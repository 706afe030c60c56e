"""What code refers to: the variables, globals and imports that it loads, with the attributes that it reads of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import NamedTuple

from .decode import PerCode, decode
from .instructions import CALLABLE_FIRST, FREE, KIND, LOCAL, Instruction
from .stack_depth import reachable_after

_OPERATORS = frozenset({"BINARY_OP", "UNARY_NEGATIVE", "UNARY_INVERT"})
_READS = ("LOAD_ATTR", "LOAD_METHOD")
_COMPUTES = ("BINARY_", "COMPARE_", "UNARY_", "CALL", "STORE_SUBSCR")
"""Prefixes of the names of instructions that may compute with tensors."""


class Path(NamedTuple):
    """A name and the attributes that are read of it: ``torch.nn.functional.relu``."""

    names: tuple[str, ...]
    called: bool
    """Whether the code calls what is there."""


@dataclass
class References:
    """What some instructions refer to."""

    variables: set[Path] = field(default_factory=set)
    globals: set[Path] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    """The names of all attributes, those of results of calls too."""
    computes: bool = False
    operates: bool = False
    """Whether there is an arithmetic operator."""

    def include(self, inner: CodeType) -> None:
        """Add what a function inside refers to."""
        found = references(inner)
        self.variables.update(path for path in found.variables if path.names[0] in inner.co_freevars)
        self.globals |= found.globals
        self.imports |= found.imports
        self.attributes |= found.attributes
        self.computes = self.computes or found.computes
        self.operates = self.operates or found.operates


def references_after(instructions: Sequence[Instruction], index: int) -> References:
    """What instructions after the one at ``index`` refer to."""
    return _collect(reachable_after(instructions, index))


def _collect(instructions: Iterable[Instruction]) -> References:
    found, used = References(), [*instructions]
    for at, each in enumerate(used):
        found.computes = found.computes or each.opname.startswith(_COMPUTES)
        found.operates = found.operates or each.opname in _OPERATORS
        if KIND[each.opcode] in (LOCAL, FREE):
            found.variables.add(_path(used, at))
        elif each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.globals.add(_path(used, at))
        elif each.opname == "IMPORT_NAME":
            found.imports.add(each.argval)
        elif each.opname in _READS:
            found.attributes.add(each.argval)
        elif isinstance(each.argval, CodeType):
            found.include(each.argval)
    return found


def _path(instructions: Sequence[Instruction], at: int) -> Path:
    """The path that begins with the load at an index."""
    end = at + 1
    while end < len(instructions) and instructions[end].opname in _READS:
        end += 1
    last = instructions[end - 1]
    if KIND[last.opcode] in (LOCAL, FREE):
        beside = end if CALLABLE_FIRST else at - 1
        is_called = 0 <= beside < len(instructions) and instructions[beside].opname == "PUSH_NULL"
    else:
        is_called = last.opname == "LOAD_METHOD" or last.flag
    return Path(tuple(each.argval for each in instructions[at:end]), is_called)


references = PerCode(lambda code: _collect(decode(code)))
"""What a function refers to, with the functions inside of it. All callers share the result."""
