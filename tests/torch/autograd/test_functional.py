"""``torch.autograd.functional``: derivatives of a user's function."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import functional

from programs import approximate, check, compiled_by, tensor, without_breaks


def cubes(x):
    return (x**3).sum()


def both(x, y):
    return x.sum() * y, y.sin()


PROGRAMS = {
    "hessian": lambda x: functional.hessian(cubes, x),
    "hessian of two": lambda x: functional.hessian(lambda one, other: (one * other).pow(2).sum(), (x, x + 1)),
    "jacobian": lambda x: functional.jacobian(torch.sin, x),
    "jacobian of two": lambda x: functional.jacobian(both, (x, x * 2)),
    "jacobian of what is constant": lambda x: functional.jacobian(lambda one: torch.ones(2), x),
    "vjp": lambda x: functional.vjp(torch.sin, x, torch.ones(3)),
    "jvp": lambda x: functional.jvp(torch.sin, x, torch.ones(3)),
    "vhp": lambda x: functional.vhp(cubes, x, torch.ones(3)),
    "jacobian, vectorised": lambda x: functional.jacobian(torch.sin, x, vectorize=True),
    "hessian, vectorised": lambda x: functional.hessian(cubes, x, vectorize=True),
    "hvp": lambda x: functional.hvp(cubes, x, torch.ones(3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("grad", [False, True])
def test_captured(name, grad):
    check(without_breaks(lambda x: (PROGRAMS[name](x), x * 2)), tensor(3, grad=grad))


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_a_compiler(name):
    """Compiled alone, the function would have no second derivative, and autograd take that for zeros."""
    check(compiled_by("aot_eager")(approximate(PROGRAMS[name])), tensor(3, grad=True))


def test_errors():
    def fn(x):
        return functional.jacobian(lambda y: torch.ones(2), x, strict=True)

    check(fn, tensor(3), graphs=(0, 1), breaks=(1, 2))

    check(lambda x: functional.jacobian(lambda y: 3, x), tensor(3), graphs=(0, 1), breaks=(1, 2))
