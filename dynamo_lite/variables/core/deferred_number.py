"""Deferred numbers: what ``item()``, ``tolist()``, ``float()``, ``int()`` or ``bool()`` of a tensor returned, as long
as the program only passes it on, adds, subtracts, multiplies, compares or takes the least or greatest. (The result of
``bool()`` may also become a runtime assertion.)

Most such numbers are returned, stored or put into a text (losses that are logged). Generated code reads them after the
graph. Where the program branches on one, the graph breaks at the branch: no guard depends on the number then. Where an
operator takes one, the graph breaks where it was read from the tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo_lite.bytecode import roles
from dynamo_lite.insight.site import Site
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.restart import NumbersRead, Restart

from .base import TEXTS, Planner, Translator, VariableTracker
from .constant import ConstantVariable
from .deferred_text import text_of_number
from .operator_symbols import BINARY, COMPARE

_KINDS: dict[torch.dtype, type] = {
    **dict.fromkeys((torch.float64, torch.float32, torch.float16, torch.bfloat16), float),
    **dict.fromkeys((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), int),
    torch.bool: bool,
}
"""The types of the numbers."""
_READERS: dict[str, Callable[[Any], Any]] = {
    "item": torch.Tensor.item,
    "tolist": torch.Tensor.tolist,
    "__float__": float,
    "__int__": int,
    "__bool__": bool,
}
"""Methods that read numbers, and what generated code calls for each."""
_ARITHMETIC = frozenset("+-*")
_UNARY = frozenset({operator.neg, operator.pos, operator.abs, abs})
_LARGEST = 2**63


class DeferredNumberVariable(VariableTracker):
    """The result of ``function(*operands)``: a number, or a list of numbers. ``kind``: its type; ``operands``: a
    tensor, or deferred numbers and other ones; ``sites``: where the program read numbers from tensors."""

    __slots__ = ("kind", "function", "operands", "sites", "writes")
    is_symbolic = True

    def __init__(
        self,
        tx: Translator,
        kind: type,
        function: Callable[..., Any],
        operands: Sequence[VariableTracker],
        sites: frozenset[Site],
    ) -> None:
        self.source = None
        self.kind = kind
        self.function = function
        self.operands = operands
        self.sites = sites
        self.writes = tx.graph.writes
        """How many writes into tensors the graph had: a later one may change the tensor."""
        tx.attempt.deferred_reads.update(sites)

    def _restart(self, *_: object, **__: object) -> Any:
        """The program needs the number: in the next attempt, the graph breaks where it was read from a tensor."""
        raise Restart(NumbersRead(self.sites))

    as_constant = cache_key = index = truth = length = _restart
    getattr = call_method = iterate = getitem = contains = _restart

    def can_be_tested_later(self, tx: Translator) -> bool:
        """Whether CPython may test its truth after the graph. Where data are captured, the truth may be known."""
        return self.kind is not list and tx.graph.writes == self.writes and not tx.graph.captures_data

    def tested_tensor(self, tx: Translator) -> VariableTracker | None:
        """The tensor whose truth this is, and that hasn't been mutated since; None for other numbers."""
        return self.operands[0] if self.function is bool and tx.graph.writes == self.writes else None

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return "numbers read from a tensor" if self.kind is list else "a number read from a tensor"

    def is_constant(self) -> bool:
        return False

    def identity(self) -> Any:
        return self if self.kind in (float, list) else self._restart()  # small integers are one object

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if not _is_small_number(other) or self.kind is list:
            self._restart()
        divides = symbol == "/" and not reflected and other.deferred_truth(tx) is None and tx.truth(other)
        if symbol not in _ARITHMETIC and not divides:
            self._restart()
        kind = type(BINARY[symbol](self.kind(1), other.python_type()(1)))
        operands = [other, self] if reflected else [self, other]
        if kind is float and any(_may_be_large(each) for each in operands):
            self._restart()
        return self._derived(tx, kind, BINARY[symbol], *operands)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        other = other.realize()
        if not self.can_be_tested_later(tx) or not _is_small_number(other):
            self._restart()
        return self._derived(tx, bool, COMPARE[symbol], self, other)

    def unary(self, tx: Translator, function: Callable[[Any], Any]) -> VariableTracker | None:
        if function not in _UNARY or self.kind is list:
            self._restart()
        return self._derived(tx, type(function(self.kind(1))), function, self)

    def converted(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        if self.kind is list or function is not float and (function is not int or self.kind is float):
            self._restart()  # `int` raises for infinities
        if function is float and _may_be_large(self):
            self._restart()
        return self._derived(tx, float if function is float else int, function, self)

    def rounded(self, tx: Translator, digits: VariableTracker | None = None) -> VariableTracker:
        """``round``. Without digits it raises for infinities; with them it raises nothing."""
        if self.kind is not float or not isinstance(digits, ConstantVariable) or type(digits.value) is not int:
            return self._restart()
        return self._derived(tx, float, round, self, digits)

    def extremum(
        self, tx: Translator, function: Callable[..., Any], numbers: Sequence[VariableTracker]
    ) -> VariableTracker | None:
        """``min`` or ``max`` of this and other numbers of its kind; None if not all of them are small."""
        others = [each for each in numbers if not isinstance(each, DeferredNumberVariable)]
        return self._derived(tx, self.kind, function, *numbers) if all(map(_is_small_number, others)) else None

    def _derived(
        self, tx: Translator, kind: type, function: Callable[..., Any], *operands: VariableTracker
    ) -> VariableTracker:
        if tx.graph.writes != self.writes:
            self._restart()
        sites = self.sites.union(*(each.sites for each in operands if isinstance(each, DeferredNumberVariable)))
        return DeferredNumberVariable(tx, kind, function, operands, sites)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return self._restart() if self.kind is list else text_of_number(tx, self, TEXTS[name])

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return self._restart() if self.kind is list else text_of_number(tx, self, format, tx.python_value(spec))

    def construct(self, plan: Planner) -> Value:
        if plan.attempt.graph.writes != self.writes:
            self._restart()
        return plan.call(self.function, *self.operands)


def _may_be_large(value: VariableTracker) -> bool:
    """Whether it is an integer that was computed: it may be larger than those of tensors, and too large for a float."""
    return isinstance(value, DeferredNumberVariable) and value.kind is int and value.function not in _READERS.values()


def _is_small_number(value: VariableTracker) -> bool:
    """Whether arithmetic with it raises nothing."""
    if isinstance(value, ConstantVariable):
        return type(value.value) is float or type(value.value) in (int, bool) and abs(value.value) < _LARGEST
    return value.is_symbolic and value.python_type() in (int, float, bool)


def deferred_read(tx: Translator, tensor: Any, name: str) -> DeferredNumberVariable | None:
    """The result of a method of a tensor that reads numbers. None if the graph has to break there instead: the next
    instruction needs the number, an earlier attempt found that the program does, or reading it may raise."""
    fake, read = tensor.fake, _READERS.get(name)
    if read is None or roles.needs_number(tx.instructions[tx.pc]):
        return None
    is_plain = tensor.cls in (torch.Tensor, torch.nn.Parameter) and fake.layout is torch.strided
    is_single = all(type(size) is int and size == 1 for size in fake.shape)
    is_known = fake.dtype in _KINDS and fake.device.type != "meta" and (is_single or name == "tolist")
    site = tx.site()
    if not is_plain or not is_known or fake.is_inference() or tx.graph.scope.is_nested:
        return None
    kind = _KINDS[fake.dtype]
    if name == "__int__" and kind is float or site in tx.attempt.restart_facts.remembered.numbers_read:
        return None
    kinds = {"__float__": float, "__int__": int, "__bool__": bool, "tolist": list if fake.ndim else kind}
    return DeferredNumberVariable(tx, kinds.get(name, kind), read, [tensor], frozenset({site}))
