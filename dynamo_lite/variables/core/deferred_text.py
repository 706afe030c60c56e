"""Deferred texts: strings of tensors' values and of symbolic numbers, which generated code creates after the graph.

The text of a tensor isn't known while tracing, and often no one reads it (the message of an error that isn't raised).
The text of a symbolic number is deferred because knowing it would specialize the number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import DataDependentValue

from .base import Args, Kwargs, NotConstant, VariableTracker, unsupported
from .constant import ConstantVariable
from .protocols import Codegen, Translator

_SAMPLES = {torch.bool: True, **dict.fromkeys((torch.complex64, torch.complex128), 1j)}


_Part = str | tuple[Callable[..., str], VariableTracker, tuple[str, ...]]


class DeferredTextVariable(VariableTracker):
    """A concatenation of constant strings and of texts of tensors or symbols. ``parts``: a string each, or ``(function,
    value, arguments)``. `as_constant` specializes the symbols; it raises `NotConstant` if there is a tensor."""

    __slots__ = ("parts", "writes")

    def __init__(self, tx: Translator, parts: list[_Part], writes: int | None) -> None:
        self.source = None
        self.parts = parts
        self.writes = writes
        """How many writes into tensors the graph had when a tensor's text was taken; None without tensors. A later
        write would change the text."""
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return str

    def describe(self) -> str:
        return "the text of a tensor's value"

    def as_constant(self) -> str:
        return "".join(part if isinstance(part, str) else _constant_text(*part) for part in self.parts)

    def is_constant(self) -> bool:
        return False

    def _constant(self, operation: str) -> ConstantVariable:
        try:
            return ConstantVariable(self.as_constant())
        except NotConstant:
            unsupported(DataDependentValue(f"{operation} of {self.describe()}"))

    def truth(self, tx: Translator) -> bool:
        return True  # the text of a value is never empty

    def identity(self) -> Any:
        return self if self.writes is not None else ConstantVariable(self.as_constant())

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return self._constant(f"`{name}`").getattr(tx, name)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self._constant(f"{name}()").call_method(tx, name, args, kwargs)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if symbol == "+" and other.python_type() is str:
            found = joined(tx, [other, self] if reflected else [self, other])
            if found is not None:
                return found
        known = self._constant(f"`{symbol}`")
        return tx.binary(symbol, other, known) if reflected else tx.binary(symbol, known, other)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker:
        return tx.compare(symbol, self._constant(f"`{symbol}`"), other)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return self if name == "__str__" else super().text(tx, name)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return self._constant("format()").format(tx, spec) if tx.truth(spec) else self

    def reconstruct(self, cg: Codegen) -> None:
        if self.writes is not None and cg.attempt.graph.writes != self.writes:
            raise NotConstant(self.describe())
        for part in self.parts:
            if isinstance(part, str):
                cg.load_const(part)
            else:
                function, value, rest = part
                cg.call(function, [partial(cg.load, value), *(partial(cg.load_const, each) for each in rest)])
        cg.op("BUILD_STRING", len(self.parts))


def _constant_text(function: Callable[..., str], value: VariableTracker, rest: tuple[str, ...]) -> str:
    return function(value.as_constant(), *rest)


def text_of_number(
    tx: Translator, number: VariableTracker, function: Callable[..., str], *rest: str
) -> VariableTracker:
    """``str``, ``repr`` or ``format`` of a symbol. ``rest``: the format specification. A specification that some
    numbers would refuse specializes the symbol."""
    if any(rest) and not _formats_numbers(number.python_type(), rest[0]):
        return tx.make(tx.fold(function, (number.as_constant(), *rest)))
    return DeferredTextVariable(tx, [(function, number, rest)], None)


def _formats_numbers(kind: type, spec: str) -> bool:
    """Whether every number of this type can be formatted by this specification."""
    try:
        format(kind(1), spec)
    except ValueError:
        return False
    return "c" not in spec


def text_of_tensor(tx: Translator, tensor: Any, function: Callable[..., str], *rest: str) -> VariableTracker | None:
    """``str``, ``repr`` or ``format`` of a tensor; None if that may raise or run user code."""
    if tensor.cls not in (torch.Tensor, torch.nn.Parameter) or tx.graph.bodies or tensor.fake.is_inference():
        return None
    if any(rest) and not _formats_tensors(tensor, rest[0]):
        return None
    return DeferredTextVariable(tx, [(function, tensor, rest)], tx.graph.writes)


def _formats_tensors(tensor: Any, spec: str) -> bool:
    """Whether every value of a tensor like this can be formatted by this specification."""
    if tensor.fake.ndim or tensor.cls is not torch.Tensor or "c" in spec:
        return False
    dtype = tensor.fake.dtype
    sample = _SAMPLES.get(dtype, 1.5 if dtype.is_floating_point else 1)
    try:
        format(sample, spec)
    except ValueError:
        return False
    return True


def joined(tx: Translator, parts: list[VariableTracker]) -> VariableTracker | None:
    """Texts concatenated; None if one is neither a constant nor deferred."""
    if all(part.is_constant() for part in parts):
        return ConstantVariable("".join(part.as_constant() for part in parts))
    found: list[_Part] = []
    writes: int | None = None
    for part in parts:
        if isinstance(part, DeferredTextVariable) and part.writes in (None, tx.graph.writes):
            found.extend(part.parts)
            writes = part.writes if writes is None else writes
        elif part.is_constant():
            found.append(part.as_constant())
        else:
            return None
    return DeferredTextVariable(tx, found, writes)
