"""Runtime assertions on tensor data. Where one fails, the frame runs again in eager."""

from __future__ import annotations

from typing import Any, NamedTuple


class RuntimeAssertion(NamedTuple):
    """The condition, and the truth value with which tracing continued."""

    tensor: Any
    truth: bool
