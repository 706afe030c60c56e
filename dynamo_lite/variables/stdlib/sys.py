"""The module ``sys``: its struct sequences (``version_info``, ``flags``, …)."""

from __future__ import annotations

import sys
from typing import Any

from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import VariableTracker, wraps_if
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.sequences import SequenceVariable, TupleVariable


class StructSequenceVariable(TupleVariable):
    """``sys.version_info`` or the like: a tuple with named fields that is constant in a process."""

    __slots__ = ("value",)
    is_loaded_as_constant = True

    def __init__(self, items: list[VariableTracker], value: Any, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def as_constant(self) -> Any:
        return self.value

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        return TupleVariable(items)

    def like(self, items: list[VariableTracker]) -> SequenceVariable:
        return self

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in type(self.value).__match_args__:
            return tx.make(getattr(self.value, name))
        return super().getattr(tx, name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


_NAMES = ("version_info", "flags", "float_info", "int_info", "hash_info")


# Not by their types: CPython deallocates these at exit, but torch keeps references to our tables until the end.
@wraps_if(lambda value: issubclass(type(value), tuple) and any(value is getattr(sys, name) for name in _NAMES), order=9)
def _wrap_struct_sequence(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("id", value)
    return StructSequenceVariable([attempt.values.make(each) for each in value], value, source)
