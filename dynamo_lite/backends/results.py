"""The check of what a compiled graph returns: a tuple or list of the graph's outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo_lite.exc import WrongBackendResult


def wrong_results_handler(name: str, outputs: int) -> Callable[[object], tuple[()]]:
    """The handler of results that are not a tuple or list of ``outputs`` items: it raises `WrongBackendResult`, but
    accepts None from a graph without outputs. ``name``: the backend's."""

    def handle(results: object) -> tuple[()]:
        if results is None and outputs == 0:
            return ()
        plural = "" if outputs == 1 else "s"
        what = f"compiled a graph of {outputs} result{plural} to code that returned {described(results)}"
        raise WrongBackendResult(name, what)

    return handle


def described(value: Any) -> str:
    """The type and length of a value, for messages."""
    kind = type(value)
    if issubclass(kind, (tuple, list)):
        return f"a {kind.__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {kind.__name__}"
