"""What a tensor's methods do where one of the program's function modes is on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..reasons import UnsupportedOperation
from .base import unsupported
from .registry import ask_mode


def by_mode(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """What a method does, the program's function mode does where one is on: it is asked about this function."""

    def decorate(method: Any) -> Any:
        @functools.wraps(method)
        def asked(self: Any, tx: Any, *args: Any) -> Any:
            return ask_mode(tx, function, [self, *args], {}) if tx.graph.modes else method(self, tx, *args)

        return asked

    return decorate


def without_mode(method: Any) -> Any:
    """Of a method that isn't modelled where one is on."""

    @functools.wraps(method)
    def refused(self: Any, tx: Any, *args: Any) -> Any:
        if tx.graph.modes:
            unsupported(UnsupportedOperation("a function mode", f"{method.__name__} of {self.describe()}"))
        return method(self, tx, *args)

    return refused
