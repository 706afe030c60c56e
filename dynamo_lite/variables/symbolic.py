"""Numbers that may differ from call to call: sizes of tensors and integers that symbols stand for.

Arithmetic makes new ones; a comparison is decided as it is now, which the guards then demand. What needs to know the
number (an index, a loop, a key) gets it, and with that it is the same in every call of the graph.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..reasons import DataDependentBranch, DataDependentValue
from ..shapes import NoProgram, Operation, compile_expression, symbolic_shapes
from ..source import Source
from .base import Args, Kwargs, VariableTracker, unsupported, wraps_type
from .constant import ConstantVariable
from .symbols import BINARY, COMPARE

_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
_DIVISIONS = frozenset({"/", "//", "%"})


class SymbolicNumber(VariableTracker):
    """An int or float, or a comparison that hangs on data. ``number``: torch's SymInt, SymFloat or SymBool."""

    __slots__ = ("attempt", "number")

    def __init__(self, attempt: Any, number: Any, source: Source | None = None) -> None:
        self.source = source
        self.attempt = attempt
        self.number = number

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self.number)]

    def describe(self) -> str:
        return f"the number {self.number}"

    def as_constant(self) -> Any:
        """The number, which from now on is the same in every call."""
        return self._decide(self.python_type(), self.number)

    def is_constant(self) -> bool:
        return False

    def as_fx(self) -> tuple[Any, Any]:
        if self.number.node.expr.free_symbols:  # nothing has settled it
            with contextlib.suppress(NoProgram):
                return self.attempt.graph.number(self.number), self.number
        value = self.as_constant()
        return value, value

    @property
    def operand(self) -> Any:  # type: ignore[override]
        return self.number

    def index(self, tx: Any, message: str) -> Any:
        return ConstantVariable(self.as_constant()).index(tx, message)

    def identity(self) -> Any:
        return ConstantVariable(self.as_constant())

    def guard_key(self, tx: Any) -> None:
        """Its value is the key."""

    def truth(self, tx: Any) -> bool:
        return self._decide(bool, self.number if self.python_type() is bool else self.number != 0)

    def _decide(self, kind: type, number: Any) -> Any:
        try:
            return kind(number)
        except symbolic_shapes().GuardOnDataDependentSymNode:
            unsupported(DataDependentBranch() if kind is bool else DataDependentValue(self.describe()))
        finally:
            self.attempt.note_guards()

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        return ConstantVariable(self.as_constant()).getattr(tx, name)

    def format(self, tx: Any, spec: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.as_constant()).format(tx, spec)

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return ConstantVariable(self.as_constant()).call_method(tx, name, args, kwargs)

    def binary(self, tx: Any, symbol: str, other: VariableTracker, reflected: bool = False) -> VariableTracker | None:
        number = other.operand
        if number is None:
            return None
        left, right = (number, self.number) if reflected else (self.number, number)
        raises = symbol in _DIVISIONS and self._decide(bool, right == 0)
        if symbol not in _ARITHMETIC or raises:
            known = [ConstantVariable(each.as_constant()) for each in (self, other)]
            return tx.binary(symbol, *(reversed(known) if reflected else known))
        return tx.make(tx.fold(BINARY[symbol], (left, right)))

    def unary(self, tx: Any, function: Any) -> VariableTracker | None:
        try:
            return tx.make(function(self.number))
        except TypeError:
            return tx.make(function(self.as_constant()))

    def converted(self, tx: Any, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        if function in _ROUNDING and self.python_type() is int:
            return self
        symbolic = _FUNCTIONS.get(function)
        if symbolic is None or (function is math.sqrt and self._decide(bool, self.number < 0)):
            return tx.make(tx.fold(function, (self.as_constant(),)))
        return tx.make(symbolic(self.number))

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        number = other.operand
        if number is None:
            return None
        found = COMPARE[symbol](self.number, number)
        if isinstance(found, torch.SymBool) and self.attempt.graph.symbols.hangs_on_data(found):
            return SymbolicNumber(self.attempt, found)
        return ConstantVariable(self._decide(bool, found))

    @property
    def node(self) -> torch.fx.Node:
        """What computes it in the graph."""
        return self.attempt.graph.number(self.number)

    def reconstruct(self, cg: Any) -> None:
        symbols = self.attempt.graph.symbols
        if symbols.hangs_on_data(self.number):
            cg.graph_output(self)
            return
        try:
            program = compile_expression(self.number.node.expr, lambda symbol: ("place", symbols.places[symbol]), False)
        except NoProgram:
            program = []
        if not program or any(isinstance(step, Operation) and step.name not in _EMITTED for step in program):
            cg.load_const(self.as_constant())
            return
        for step in program:
            if isinstance(step, Operation):
                cg.binary_op(_EMITTED[step.name])
            elif step[0] == "const":
                cg.load_const(step[1])
            else:
                _load_place(cg, step[1])


_FUNCTIONS: dict[Any, Any] = {
    int: math.trunc,
    float: torch.sym_float,
    math.trunc: math.trunc,
    math.floor: math.floor,
    math.ceil: math.ceil,
    math.sqrt: torch.sym_sqrt,
}
"""Functions of one number, and what they are of torch's symbolic ones."""
_ROUNDING = frozenset({int, math.trunc, math.floor, math.ceil})

_EMITTED = {"add": "+", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**", "truediv": "/"}


def _load_place(cg: Any, place: Any) -> None:
    if place.kind == "int":
        cg.load_source(place.source)
        return
    dim = [lambda: cg.load_const(place.dim)] if place.kind in ("size", "stride") else []
    method = {"size": torch.Tensor.size, "stride": torch.Tensor.stride, "offset": torch.Tensor.storage_offset}
    cg.call(method[place.kind], [lambda: cg.load_source(place.source), *dim])


_PYTHON_TYPES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def make_number(attempt: Any, number: Any) -> VariableTracker:
    """The tracker of a SymInt or SymFloat, which may be known to have one value."""
    known = number.node.maybe_as_int() if isinstance(number, torch.SymInt) else None
    return SymbolicNumber(attempt, number) if known is None else ConstantVariable(known)


@wraps_type(int)
def _wrap_int(attempt: Any, value: int, source: Source) -> VariableTracker:
    if attempt.shapes.is_symbol(source, value):
        source.check("type", int)
        return SymbolicNumber(attempt, attempt.graph.symbols.number(source, value), source)
    source.check("equals", value)
    return ConstantVariable(value, source)
