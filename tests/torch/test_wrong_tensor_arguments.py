"""Arguments that torch refuses in contexts, flags and indices: the same error, in the same place and handler."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import sdpa_kernel

from programs import check, checked, tensor

CONTEXTS = {
    "a type of an autocast": lambda: torch.autocast("cpu", dtype="a"),
    "whether an autocast is on": lambda: torch.autocast("cpu", enabled="x"),
    "whether an autocast caches": lambda: torch.autocast("cpu", cache_enabled=3),
    "a device of an autocast": lambda: torch.autocast(CONTEXTS),
    "a grad mode": lambda: torch.set_grad_enabled(1),
    "a grad mode that is none": lambda: torch.set_grad_enabled(None),
    "an inference mode": lambda: torch.inference_mode(5),
    "no_grad of a number": lambda: torch.no_grad(1),
    "enable_grad of a number": lambda: torch.enable_grad(5),
    "a backend of attention": lambda: sdpa_kernel("x"),
}


@pytest.fixture(autouse=True)
def autocast_as_it_was():
    """Restores autocast, because a failing context of torch's leaves parts of it set."""
    enabled, caches, depth = torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled(), _depth()
    yield
    torch.set_autocast_enabled("cpu", enabled)
    torch.set_autocast_cache_enabled(caches)
    while _depth() > depth:
        torch.autocast_decrement_nesting()


def _depth():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@pytest.mark.parametrize("make", CONTEXTS.values(), ids=CONTEXTS)
def test_contexts(make):
    def fn(x):
        y = x + 1
        try:
            with make():
                y = y @ y
        except (TypeError, ValueError, AssertionError) as error:
            return y, type(error), str(error)
        finally:
            torch.set_autocast_enabled("cpu", False)
            torch.set_autocast_cache_enabled(True)
        return y

    check(fn, tensor(2, 2), graphs=None)


@pytest.mark.parametrize("wanted", ["cpu", 1, 2.5, None, ()])
def test_requires_grad(wanted):
    def fn(x):
        y = x * 2
        try:
            y.requires_grad_(wanted)
        except TypeError as error:
            y = y + len(str(error))
        try:
            x.requires_grad = wanted
        except RuntimeError as error:
            return y, str(error)
        return y

    check(fn, tensor(3), graphs=None)


@checked(tensor(3), (tensor(3), None), graphs=None)
@checked(tensor(3), tensor(3), graphs=None)
def test_indices_of_an_assignment(x, at):
    y = x + 1
    try:
        x[at] = 1.0
    except IndexError as error:
        return y, str(error)
    return y


@checked(tensor(2, 3), graphs=None)
def test_dims_of_vmap(x):
    y = x + 1
    try:
        return torch.vmap(torch.sin, in_dims=[1])(y)
    except ValueError as error:
        return y, str(error)


@checked(tensor(2, 2), graphs=None)
def test_an_autocast_that_warns(x):
    with torch.autocast("cpu", torch.float64):
        return x @ x
