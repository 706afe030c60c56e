"""Compares exported programs with the original programs."""

from __future__ import annotations

import copy
import pickle
import random

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import compare, decorator_for, observe, tensor


def seeded(fn, args, kwargs, backward):
    torch.manual_seed(0)
    random.seed(0)
    return observe(fn, args, kwargs, lambda: None, backward)


def check_export(fn, *args, kwargs=None, backward=False, aten=True, pickled=True, copied=True):
    """Export, and hold what the graph module does against what the program does; so for copies, and for ATen."""
    kwargs = kwargs or {}
    start = copy.deepcopy((fn, args, kwargs))

    def run(make):
        fn, args, kwargs = copy.deepcopy(start)
        return seeded(make(fn, args, kwargs), args, kwargs, backward)

    gm, guards = dl.export(fn, *args, **kwargs)
    gm.graph.lint()
    assert isinstance(gm, torch.fx.GraphModule) and all(isinstance(each, str) for each in guards)
    eager = run(lambda fn, args, kwargs: fn)
    makers = [lambda fn, args, kwargs: dl.export(fn, *args, **kwargs)[0]]
    if aten:
        makers.append(lambda fn, args, kwargs: dl.export(fn, *args, aten_graph=True, **kwargs)[0])
    if copied:
        makers.append(lambda fn, args, kwargs: copy.deepcopy(dl.export(fn, *args, **kwargs)[0]))
    if pickled:
        makers.append(lambda fn, args, kwargs: pickle.loads(pickle.dumps(dl.export(fn, *args, **kwargs)[0])))
    for make in makers:
        compare(eager, run(make))
    return gm


exported = decorator_for(check_export)


def refusal(reason, fn, *args, **kwargs):
    """Returns the error for a program that can't be exported."""
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.export(fn, *args, **kwargs)
    assert isinstance(caught.value.reason, reason), caught.value
    return str(caught.value)


class Affine(nn.Module):
    """A module with a parameter, a saved and an unsaved buffer, and an unused one of each."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensor(3))
        self.unused = nn.Parameter(tensor(2))
        self.register_buffer("shift", tensor(3, seed=1))
        self.register_buffer("secret", tensor(3, seed=2), persistent=False)
        self.register_buffer("spare", tensor(1))
        self.plain = tensor(3, seed=3)

    def forward(self, x, scale=1.0):
        return x * self.weight * scale + self.shift - self.secret + self.plain

    def only_shift(self, x):
        return x + self.shift

    @staticmethod
    def twice(x):
        return x * 2

    @classmethod
    def of(cls, x):
        return cls.twice(x) + 1
