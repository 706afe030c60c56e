"""Distinguishes errors of a backend from ours."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from backend_reference import same_as_backend


def doubled(gm, example_inputs):
    """Returns a backend whose kernels are wrong."""
    return lambda *args: [each * 2 for each in gm.forward(*args)]


def fn(x):
    return x + 1, x * 3


def test_the_backends_error():
    compiled = dl.compile(fn, backend=doubled)
    assert torch.equal(compiled(torch.ones(2))[1], torch.full((2,), 6.0))
    same_as_backend(lambda wrap: wrap(fn)(torch.ones(2)), doubled)


def test_our_error():
    def program(wrap):
        compiled = wrap(fn)
        error = type(compiled) is type(dl.compile(fn, backend="eager"))
        return [each + error for each in compiled(torch.ones(2))]

    with pytest.raises(AssertionError, match="not close"):
        same_as_backend(program, "aot_eager")
    with pytest.raises(AssertionError, match="not close"):
        same_as_backend(program, doubled)
