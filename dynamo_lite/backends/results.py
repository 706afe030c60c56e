"""What a backend's code may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo_lite.exc import WrongBackendResult


def wrong_results_handler(name: str, outputs: int) -> Callable[[Any], Any]:
    """What a graph's call does with results that are no tuple or list of so many."""

    def wrong(results: Any) -> Any:
        if results is None and outputs == 0:
            return ()
        plural = "" if outputs == 1 else "s"
        what = f"compiled a graph of {outputs} result{plural} to code that returned {described(results)}"
        raise WrongBackendResult(name, what)

    return wrong


def described(value: Any) -> str:
    """A value in few words."""
    kind = type(value)
    if issubclass(kind, (tuple, list)):
        return f"a {kind.__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {kind.__name__}"
