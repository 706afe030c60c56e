"""Tells a backend's error from ours: where what we give differs from eager, ``torch.compile`` with the same backend is
the reference. Inductor's kernels depend on the processor, and some are wrong on some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import dynamo_lite as dl

Wrap = Callable[[Any], Any]
Compare = Callable[[Any, Any], None]


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def same_as_backend(program: Callable[[Wrap], Any], backend: str, compare: Compare = close, **settings: Any) -> None:
    """Assert that ``program(wrap)`` returns eager's result when ``wrap`` is `dl.compile` with ``backend``.

    The program runs what ``wrap`` returns and gives all that can be seen of it, from the same state each time.
    ``compare(found, expected)`` raises an AssertionError. Where it does, ``torch.compile`` with the same backend must
    give what we give: then the error is the backend's.
    """
    expected = program(lambda fn: fn)
    dl.reset()
    found = program(lambda fn: dl.compile(fn, backend=backend, **settings))
    assert_backends_result(found, expected, program, backend, compare, **settings)


def assert_backends_result(
    found: Any, expected: Any, program: Callable[[Wrap], Any], backend: str, compare: Compare, **settings: Any
) -> None:
    """Assert that what a program gave is eager's result, or else the result of the backend under ``torch.compile``."""
    try:
        compare(found, expected)
    except AssertionError:
        if backend == "eager":
            raise
        torch.compiler.reset()
        reference = program(lambda fn: torch.compile(fn, backend=backend, **settings))
        torch.compiler.reset()
        if not _holds(compare, found, reference):
            raise


def _holds(compare: Compare, found: Any, expected: Any) -> bool:
    try:
        compare(found, expected)
    except AssertionError:
        return False
    return True
