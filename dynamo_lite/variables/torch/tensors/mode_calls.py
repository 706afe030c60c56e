"""What a tensor's methods do where one of the program's function modes is on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import VariableTracker, drained, unsupported
from dynamo_lite.variables.core.registry import ask_mode


def by_mode(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """What a method does, the program's function mode does where one is on: it is asked about this function."""

    def decorate(method: Any) -> Any:
        @functools.wraps(method)
        def asked(self: Any, tx: Any, *args: Any) -> Any:
            return ask_mode(tx, function, [self, *args], {}) if tx.graph.modes else method(self, tx, *args)

        return asked

    return decorate


def by_parts(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Of a method for which torch has a function in Python that doesn't ask itself: it is asked about its parts."""

    def decorate(method: Any) -> Any:
        @functools.wraps(method)
        def inlined(self: Any, tx: Any, *args: Any) -> Any:
            modes = tx.graph.modes
            return tx.call(tx.make(function), [self, *args], {}) if modes else method(self, tx, *args)

        return inlined

    return decorate


def without_mode(method: Any) -> Any:
    """Of a method that isn't modelled where one is on."""

    @functools.wraps(method)
    def refused(self: Any, tx: Any, *args: Any) -> Any:
        if tx.graph.modes:
            unsupported(UnsupportedOperation("a function mode", f"{method.__name__} of {self.describe()}"))
        return method(self, tx, *args)

    return refused


class AskedVariable(VariableTracker):
    """Base of tensors."""

    __slots__ = ()

    def listed(self, tx: Any) -> Iterator[VariableTracker]:
        iterator = self.iterate(tx)
        if tx.graph.modes:  # what makes a list asks how long it may be
            self.length(tx)
        return drained(tx, iterator)
