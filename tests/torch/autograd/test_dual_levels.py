"""Functions called inside and outside of ``torch.autograd.forward_ad.dual_level``, in each order."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import forward_ad

import dynamo_lite as dl
from programs import tensor
from small_functions import Doubled


class WithJvp(Doubled):
    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 7


def computes(x):
    return (x * 2).sin()


def reads_the_tangent(x):
    primal, tangent = forward_ad.unpack_dual(x * 3)
    return primal if tangent is None else primal * tangent


def reads_the_level(x):
    return x * (forward_ad._current_level + 3)


def applies(x):
    return Doubled.apply(x * 1)


def applies_with_jvp(x):
    return WithJvp.apply(x * 1)


def outside(fn):
    return fn(tensor(3)).tolist(), None


def inside(fn):
    with forward_ad.dual_level():
        return fn(tensor(3)).tolist(), None


def of_a_dual_tensor(fn):
    with forward_ad.dual_level():
        try:
            primal, tangent = forward_ad.unpack_dual(fn(forward_ad.make_dual(tensor(3), torch.ones(3))))
        except NotImplementedError as error:
            return str(error), None
        return primal.tolist(), None if tangent is None else tangent.tolist()


@pytest.mark.parametrize("fn", [computes, reads_the_tangent, reads_the_level, applies, applies_with_jvp])
@pytest.mark.parametrize("order", [*itertools.permutations([outside, inside, of_a_dual_tensor])])
def test_call_inside_and_outside_of_a_level(fn, order):
    compiled = dl.compile(fn, backend="eager")
    for call in order * 2:
        assert call(compiled) == call(fn)
