"""Deferred texts: strings of tensors' values and of symbolic numbers, which generated code creates after the graph.

The text of a tensor isn't known while tracing, and often no one reads it (the message of an error that isn't raised).
The text of a symbolic number is deferred because knowing it would specialize the number.

Programs that need it: ``print(f"loss {loss:.3f}")`` in a training loop, whose graph breaks once, at the call;
``logger.debug(f"{hidden}")`` and messages of checks, which are never read, in models under ``fullgraph=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import DataDependentValue
from dynamo_lite.plan.rows import Value

from .base import Args, Kwargs, NotConstant, Planner, Translator, VariableTracker, unsupported
from .constant import ConstantVariable

_SAMPLES = {torch.bool: True, **dict.fromkeys((torch.complex64, torch.complex128), 1j)}
"""Values of the dtypes that hold neither floats nor integers."""
_Call = tuple[Callable[..., str], list[VariableTracker]]
"""A function that returns a string, never an empty one, and its operands."""


def _of_constant(operation: str, method: str) -> Callable[..., Any]:
    """A method that calls the same method of the text's constant, for ``operation``."""

    def call(self: DeferredTextVariable, *args: object) -> Any:
        return getattr(self._constant(operation), method)(*args)

    return call


class DeferredTextVariable(VariableTracker):
    """A concatenation of constant strings and of texts of tensors or symbols. An operation that needs its characters
    specializes the symbols, by `as_constant`, which raises `NotConstant` if there is a text of a tensor."""

    __slots__ = ("parts", "writes")
    exact_type = str

    def __init__(self, tx: Translator, parts: list[str | _Call], writes: int | None) -> None:
        self.source = None
        self.parts = parts
        self.writes = writes
        """How many writes into tensors the graph had when a tensor's text was taken; None without tensors. A later
        write would change the text."""
        tx.attempt.provenance.created(self)

    def describe(self) -> str:
        return "the text of a symbolic number" if self.writes is None else "the text of a tensor's value"

    def as_constant(self) -> str:
        return "".join(part if isinstance(part, str) else _known_text(*part) for part in self.parts)

    def is_constant(self) -> bool:
        return False

    def operands(self) -> list[VariableTracker]:
        """The tensors and symbols whose texts it contains."""
        return [each.realize() for part in self.parts if not isinstance(part, str) for each in part[1]]

    def realize(self) -> VariableTracker:
        is_known = self.writes is None and all(each.is_constant() for each in self.operands())
        return ConstantVariable(self.as_constant()) if is_known else self

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

    length = _of_constant("len()", "length")
    getitem = _of_constant("an item", "getitem")
    contains = _of_constant("`in`", "contains")
    iterate = _of_constant("iteration", "iterate")
    reverse = _of_constant("reversed()", "reverse")
    cache_key = _of_constant("the hash", "cache_key")
    key = _of_constant("the hash", "key")

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if symbol == "+" and other.python_type() is str:
            return concatenated(tx, [other, self] if reflected else [self, other])
        known = self._constant(f"`{symbol}`")
        return tx.binary(symbol, other, known) if reflected else tx.binary(symbol, known, other)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker:
        return tx.compare(symbol, self._constant(f"`{symbol}`"), other)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return self if name == "__str__" else DeferredTextVariable(tx, [(repr, [self])], self.writes)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        if not tx.truth(spec):
            return self
        return self.converted_by(tx, format, [self, spec], str(tx.python_value(spec)))

    def converted_by(
        self, tx: Translator, function: Callable[..., str], operands: list[VariableTracker], spec: str
    ) -> VariableTracker:
        """``function(*operands)``, which formats this text by ``spec``."""
        if "." in spec or function is format and not _formats("1", spec):  # the first ".0" characters are none
            return tx.make(tx.fold(function, [tx.python_value(each) for each in operands]))
        return DeferredTextVariable(tx, [(function, operands)], self.writes)

    def construct(self, plan: Planner) -> Value:
        if self.writes is not None and plan.attempt.graph.writes != self.writes:
            raise NotConstant(self.describe())
        parts = [plan.constant(part) if isinstance(part, str) else plan.call(part[0], *part[1]) for part in self.parts]
        return plan.build("STRING", parts)


def _known_text(function: Callable[..., str], operands: list[VariableTracker]) -> str:
    return function(*[each.as_constant() for each in operands])


def text_of_number(
    tx: Translator, number: VariableTracker, function: Callable[..., str], *rest: str
) -> VariableTracker:
    """``str``, ``repr`` or ``format`` of a symbol. ``rest``: the format specification. A specification that some
    numbers would refuse specializes the symbol."""
    if any(rest) and ("c" in rest[0] or not _formats(number.python_type()(1), rest[0])):
        return tx.make(tx.fold(function, (number.as_constant(), *rest)))
    return DeferredTextVariable(tx, [(function, [number, *map(ConstantVariable, rest)])], None)


def _formats(sample: object, spec: str) -> bool:
    """Whether values like this one can be formatted by this specification."""
    try:
        format(sample, spec)
    except ValueError:
        return False
    return True


def text_of_tensor(tx: Translator, tensor: Any, function: Callable[..., str], *rest: str) -> VariableTracker | None:
    """``str``, ``repr`` or ``format`` of a tensor; None if that may raise or run user code."""
    if tensor.cls not in (torch.Tensor, torch.nn.Parameter) or tx.graph.scope.is_nested or tensor.fake.is_inference():
        return None
    if any(rest) and not _formats_tensors(tensor, rest[0]):
        return None
    return DeferredTextVariable(tx, [(function, [tensor, *map(ConstantVariable, rest)])], tx.graph.writes)


def _formats_tensors(tensor: Any, spec: str) -> bool:
    """Whether every value of a tensor like this can be formatted by this specification."""
    if tensor.fake.ndim or tensor.cls is not torch.Tensor or "c" in spec:
        return False
    dtype = tensor.fake.dtype
    return _formats(_SAMPLES.get(dtype, 1.5 if dtype.is_floating_point else 1), spec)


_OF_INTS = frozenset("diouxXeEfFgG")
_OF_FLOATS = frozenset("eEfFgG")  # an infinite number has no integer


def text_by_percent(tx: Translator, spec: str, value: VariableTracker) -> VariableTracker:
    """``spec % (value,)`` of a number, or of a text that a conversion ``%s`` of a value gave."""
    operands: list[VariableTracker] = [ConstantVariable(spec), value]
    if isinstance(value, DeferredTextVariable):
        return value.converted_by(tx, str.__mod__, operands, spec)
    if value.is_symbolic and spec[-1] in (_OF_FLOATS if value.python_type() is float else _OF_INTS):
        return DeferredTextVariable(tx, [(str.__mod__, operands)], None)
    return tx.make(tx.fold(str.__mod__, (spec, (tx.python_value(value),))))


def concatenated(tx: Translator, parts: Iterable[str | VariableTracker]) -> VariableTracker:
    """The concatenation of texts. Breaks the graph if one is neither a constant nor deferred."""
    found: list[str | _Call] = []
    writes: int | None = None
    for part in parts:
        text = part if isinstance(part, str) else part.realize()
        if isinstance(text, DeferredTextVariable) and text.writes in (None, tx.graph.writes):
            found.extend(text.parts)
            writes = text.writes if writes is None else writes
        else:
            found.append(text if isinstance(text, str) else tx.python_value(text))
    known = [each for each in found if isinstance(each, str)]
    return ConstantVariable("".join(known)) if len(known) == len(found) else DeferredTextVariable(tx, found, writes)
