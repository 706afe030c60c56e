"""The check of what a compiled graph returns: a tuple or list of the graph's outputs."""

from __future__ import annotations

from collections.abc import Callable

from dynamo_lite.exc import WrongBackendResult
from dynamo_lite.insight.counters import counted


def wrong_results_handler(name: str, outputs: int) -> Callable[[object], tuple[()]]:
    """A function for results that are not a tuple or list of ``outputs`` items. It raises `WrongBackendResult`, except
    for None from a graph without outputs. ``name``: the backend's."""

    def handle(results: object) -> tuple[()]:
        if results is None and outputs == 0:
            return ()
        what = f"compiled a graph of {counted(outputs, 'result')} to code that returned {described(results)}"
        raise WrongBackendResult(name, what)

    return handle


def described(value: object) -> str:
    """The type and length of a value, for messages."""
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"
