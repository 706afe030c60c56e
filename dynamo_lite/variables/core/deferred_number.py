"""Deferred numbers: what ``item()`` of a tensor returned, as long as the program only passes it on.

Most such numbers are returned, stored or put into a text (losses that are logged). Generated code reads them after the
graph. Where the program computes with one, or branches on it, the graph breaks where it was read from the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch

from dynamo_lite.insight.site import Site
from dynamo_lite.records.restart import NumbersRead, Restart

from .base import TEXTS, Args, Kwargs, VariableTracker
from .deferred_text import text_of_number
from .protocols import Codegen, Translator

_KINDS: dict[torch.dtype, type] = {
    **dict.fromkeys((torch.float64, torch.float32, torch.float16, torch.bfloat16), float),
    **dict.fromkeys((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), int),
    torch.bool: bool,
}
"""The types of the numbers."""
_READS = frozenset({"BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "GET_ITER", "IS_OP", "TO_BOOL"})
_READ_PREFIXES = ("UNARY_", "POP_JUMP_", "JUMP_IF_")


class DeferredNumberVariable(VariableTracker):
    """The number in a tensor of one item. ``site``: where the program read it."""

    __slots__ = ("tensor", "site", "writes")
    is_symbolic = True

    def __init__(self, tx: Translator, tensor: Any, site: Site) -> None:
        self.source = None
        self.tensor = tensor
        self.site = site
        self.writes = tx.graph.writes
        """How many writes into tensors the graph had: a later one may change the tensor."""
        tx.attempt.unread.add(site)

    def _read(self) -> NoReturn:
        raise Restart(NumbersRead(frozenset({self.site})))

    def python_type(self) -> type:
        return _KINDS[self.tensor.fake.dtype]

    def describe(self) -> str:
        return "a number read from a tensor"

    def as_constant(self) -> Any:
        self._read()

    def is_constant(self) -> bool:
        return False

    def identity(self) -> Any:
        return self if self.python_type() is float else self._read()  # small integers are one object

    def cache_key(self, tx: Translator) -> Any:
        self._read()

    def index(self, tx: Translator, message: str) -> Any:
        self._read()

    def truth(self, tx: Translator) -> bool:
        self._read()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        self._read()

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        self._read()

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        self._read()

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        self._read()

    def unary(self, tx: Translator, function: Callable[[Any], Any]) -> VariableTracker | None:
        self._read()

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return text_of_number(tx, self, TEXTS[name])

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return text_of_number(tx, self, format, tx.python_value(spec))

    def reconstruct(self, cg: Codegen) -> None:
        if cg.attempt.graph.writes != self.writes:
            self._read()
        cg.call(torch.Tensor.item, [partial(cg.load, self.tensor)])


def deferred_item(tx: Translator, tensor: Any) -> DeferredNumberVariable | None:
    """The result of ``tensor.item()``; None where the graph has to break there instead: the next instruction reads it,
    or an attempt before found that the program does, or reading it may raise."""
    fake = tensor.fake
    following = tx.instructions[tx.pc].opname
    if following in _READS or following.startswith(_READ_PREFIXES):
        return None
    is_plain = tensor.cls in (torch.Tensor, torch.nn.Parameter) and fake.layout is torch.strided
    is_known = fake.dtype in _KINDS and fake.device.type != "meta" and all(size == 1 for size in _known(fake.shape))
    site = tx.site()
    if not is_plain or not is_known or fake.is_inference() or tx.graph.bodies:
        return None
    return None if site in tx.attempt.restart_facts.numbers_read else DeferredNumberVariable(tx, tensor, site)


def _known(shape: torch.Size) -> list[int]:
    """The sizes, 0 in the place of symbolic ones."""
    return [size if type(size) is int else 0 for size in shape]
