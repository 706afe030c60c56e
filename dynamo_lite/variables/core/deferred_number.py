"""Deferred numbers: what ``item()``, ``tolist()``, ``float()`` or ``int()`` of a tensor returned, as long as the
program only passes it on or adds, subtracts and multiplies.

Most such numbers are returned, stored or put into a text (losses that are logged). Generated code reads them after the
graph. Where the program branches on one, or an operator takes it, the graph breaks where it was read from the tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from dynamo_lite.insight.site import Site
from dynamo_lite.records.restart import NumbersRead, Restart

from .base import TEXTS, VariableTracker
from .constant import ConstantVariable
from .deferred_text import text_of_number
from .operator_symbols import BINARY
from .protocols import Codegen, Translator

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
}
"""Methods that read numbers, and what generated code calls for each."""
_READS = frozenset({"BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "GET_ITER", "IS_OP", "TO_BOOL", "UNARY_NOT"})
_READ_PREFIXES = ("POP_JUMP_", "JUMP_IF_", "UNPACK_")
_ARITHMETIC = frozenset("+-*")
_UNARY = frozenset({operator.neg, operator.pos, operator.abs, abs})
_LARGEST = 2**63


class DeferredNumberVariable(VariableTracker):
    """The result of ``read(*operands)``: a number, or a list of numbers. ``operands``: a tensor, or deferred numbers
    and other ones; ``sites``: where the program read numbers from tensors."""

    __slots__ = ("kind", "read", "operands", "sites", "writes")
    is_symbolic = True

    def __init__(
        self,
        tx: Translator,
        kind: type,
        read: Callable[..., Any],
        operands: Sequence[VariableTracker],
        sites: frozenset[Site],
    ) -> None:
        self.source = None
        self.kind = kind
        self.read = read
        self.operands = operands
        self.sites = sites
        self.writes = tx.graph.writes
        """How many writes into tensors the graph had: a later one may change the tensor."""
        tx.attempt.unread.update(sites)

    def _read(self, *_: Any, **__: Any) -> Any:
        """Break the graph where the numbers were read from the tensors, in the next attempt."""
        raise Restart(NumbersRead(self.sites))

    as_constant = cache_key = index = truth = length = _read
    getattr = call_method = compare = iterate = getitem = contains = _read

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return "numbers read from a tensor" if self.kind is list else "a number read from a tensor"

    def is_constant(self) -> bool:
        return False

    def identity(self) -> Any:
        return self if self.kind in (float, list) else self._read()  # small integers are one object

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        divides = symbol == "/" and not reflected and isinstance(other, ConstantVariable) and bool(other.value)
        if not _is_small_number(other) or self.kind is list or not (symbol in _ARITHMETIC or divides):
            self._read()
        kind = type(BINARY[symbol](self.kind(1), other.python_type()(1)))
        operands = [other, self] if reflected else [self, other]
        if kind is float and any(_may_be_large(each) for each in operands):
            self._read()
        sites = self.sites | (other.sites if isinstance(other, DeferredNumberVariable) else frozenset())
        return self._derived(tx, kind, BINARY[symbol], operands, sites)

    def unary(self, tx: Translator, function: Callable[[Any], Any]) -> VariableTracker | None:
        if function not in _UNARY or self.kind is list:
            self._read()
        return self._derived(tx, type(function(self.kind(1))), function, [self], self.sites)

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Any) -> VariableTracker:
        if self.kind is list or function is not float and (function is not int or self.kind is float):
            self._read()  # `int` raises for infinities
        if function is float and _may_be_large(self):
            self._read()
        return self._derived(tx, float if function is float else int, function, [self], self.sites)

    def _derived(
        self,
        tx: Translator,
        kind: type,
        function: Callable[..., Any],
        operands: Sequence[VariableTracker],
        sites: frozenset[Site],
    ) -> VariableTracker:
        if tx.graph.writes != self.writes:
            self._read()
        return DeferredNumberVariable(tx, kind, function, operands, sites)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return text_of_number(tx, self, TEXTS[name]) if self.kind is not list else self._read()

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return text_of_number(tx, self, format, tx.python_value(spec)) if self.kind is not list else self._read()

    def reconstruct(self, cg: Codegen) -> None:
        if cg.attempt.graph.writes != self.writes:
            self._read()
        cg.call(self.read, [partial(cg.load, each) for each in self.operands])


def _may_be_large(value: VariableTracker) -> bool:
    """Whether it is an integer that a tensor's would not hold. CPython refuses to make a float of a very large one."""
    return isinstance(value, DeferredNumberVariable) and value.kind is int and value.read not in _READERS.values()


def _is_small_number(value: VariableTracker) -> bool:
    """Whether arithmetic with it raises nothing."""
    if isinstance(value, ConstantVariable):
        return type(value.value) is float or type(value.value) in (int, bool) and abs(value.value) < _LARGEST
    return value.is_symbolic and value.python_type() in (int, float, bool)


def deferred_read(tx: Translator, tensor: Any, name: str) -> DeferredNumberVariable | None:
    """The result of a method of a tensor that reads numbers; None where the graph has to break there instead: the next
    instruction needs it, or an attempt before found that the program does, or reading it may raise."""
    fake, read = tensor.fake, _READERS.get(name)
    following = tx.instructions[tx.pc].opname
    if read is None or following in _READS or following.startswith(_READ_PREFIXES):
        return None
    is_plain = tensor.cls in (torch.Tensor, torch.nn.Parameter) and fake.layout is torch.strided
    is_single = all(size == 1 for size in _known(fake.shape))
    is_known = fake.dtype in _KINDS and fake.device.type != "meta" and (is_single or name == "tolist")
    site = tx.site()
    if not is_plain or not is_known or fake.is_inference() or tx.graph.bodies:
        return None
    kind = _KINDS[fake.dtype]
    if name == "__int__" and kind is float or site in tx.attempt.restart_facts.numbers_read:
        return None
    kinds = {"__float__": float, "__int__": int, "tolist": list if fake.ndim else kind}
    return DeferredNumberVariable(tx, kinds.get(name, kind), read, [tensor], frozenset({site}))


def _known(shape: torch.Size) -> list[int]:
    """The sizes, 0 in the place of symbolic ones."""
    return [size if type(size) is int else 0 for size in shape]
