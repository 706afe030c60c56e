"""Frames that break before they have reached a tensor: the code after the break is captured whole."""

from __future__ import annotations

import random
import sys
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo_lite as dl
from collector import Programs
from programs import Recorder, approximate, check, checked, tensor
from weights import seeded

MODEL = seeded(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
DATA, TARGET = tensor(5, 3), tensor(5, 2, seed=1)


@checked(graphs=1, operators=7, breaks=1)
def test_globals_come_after():
    time.time()
    y = MODEL(DATA * 2)
    return F.mse_loss(y.sin(), TARGET) + 1


class Trainer:
    def __init__(self):
        self.model = seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, _):
        time.time()
        y = self.model(DATA * 2)
        return F.mse_loss(y.sin(), TARGET) + 1

    def train(self, _):
        self.optimizer.zero_grad()
        y = self.model(DATA * 2)
        loss = F.mse_loss(y.sin(), TARGET) + 1
        loss.backward()
        return loss


def test_an_object_with_a_model():
    check(Trainer().step, 0, graphs=1, operators=7, breaks=1)


def test_a_step_of_training():
    gradients = []
    for compiled in (False, True):
        trainer, recorder = Trainer(), Recorder()
        train = dl.compile(trainer.train, backend=recorder) if compiled else trainer.train
        for _ in range(3):
            train(0)
        gradients.append([each.grad for each in trainer.model.parameters()])
    assert all(map(torch.equal, *gradients))
    assert len(recorder.graphs) == 1 and recorder.operators == 7


@checked(3, graphs=0, breaks=0)
def test_nothing_comes_after(count):
    time.time()
    return [each * 2 for each in range(count)]


class Asked:
    """Whoever asks it for anything is told."""

    def __init__(self):
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "data", DATA)

    def __getattribute__(self, name):
        object.__getattribute__(self, "asked").append(name)
        return object.__getattribute__(self, name)


def test_objects_are_not_asked():
    def fn(found):
        time.time()
        return len(found.asked)

    assert dl.compile(fn, backend=Recorder())(Asked()) == fn(Asked()) == 1


programs = Programs()
WEIGHTS = {"first": 2.0}


class Constants:
    SCALE = tensor(3)

    def __init__(self, count):
        self.count = count

    @classmethod
    def scaled(cls):
        return cls.SCALE * 2

    def create(self):
        return torch.ones(self.count)


def create(n):
    return torch.full((n,), 0.5)


def create_by_another(n):
    return [create(n)]


class Scaled(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


@programs(3, graphs=1, operators=2, breaks=1)
def by_an_operator(n):
    torch.initial_seed()
    return torch.full((3,), n) * 2


@programs(graphs=1, operators=1, breaks=1)
def an_attribute_of_a_class():
    print("here")
    return Constants.SCALE * 2


@programs(3, graphs=1, operators=3, breaks=1)
def of_a_function_of_a_function(n):
    print("here")
    return create_by_another(n)[0].exp().sum()


@programs(Constants(3), graphs=1, operators=2, breaks=1)
def of_a_method(constants):
    print("here")
    return -constants.create()


@programs(graphs=1, operators=2, breaks=1)
def of_a_class_method():
    print("here")
    return Constants.scaled() + 1


@programs(3, graphs=1, operators=2, breaks=1)
def of_an_imported_module(n):
    print("here")
    import torch as imported

    return imported.ones(n) * 2


@programs(3, graphs=1, operators=2, breaks=1)
def of_an_imported_function(n):
    print("here")
    from torch import zeros

    return zeros(n) + 1


@programs(3, graphs=1, operators=2, breaks=1)
def in_a_function_inside(n):
    print("here")
    return [torch.ones(n) * 2 for _ in range(1)]


@programs(3, graphs=2, operators=3, breaks=2)
def of_a_function_inside_that_breaks(n):
    def create():
        print("here")
        return torch.ones(n)

    return create() * 2 + 1


@programs(3, graphs=1, operators=3, breaks=1)
def in_a_module_that_it_creates(n):
    print("here")
    return Scaled(n)(torch.ones(2)) + 1


@programs([1.0, 2.0], graphs=1, operators=3, breaks=1)
def of_a_list(values):
    print("here")
    return torch.tensor(values).sum() + 1


@programs(3, graphs=1, operators=1, breaks=1)
def in_one_branch(n):
    print("here")
    if n > 2:
        return torch.zeros(n)
    return None


@programs(graphs=1, operators=2, breaks=1)
def of_what_breaks():
    return torch.get_rng_state()[:8] * 2


@programs(3, graphs=2, operators=4, breaks=2)
def in_a_loop(n):
    found = []
    for _ in range(n):
        print("here")
        found.append(torch.ones(n) * 2)
    return found


test_program = programs.test()


def seed_all(n):
    random.seed(n)
    torch.manual_seed(n)
    return n + 1


def check_kind(value):
    print("here")
    return isinstance(value, torch.Tensor) or isinstance(value, (nn.Module, torch.dtype)), torch.float32


def count_words(text):
    print("here")
    return len(text.split()) * 2 + WEIGHTS["first"]


def pass_on(value):
    print("here")
    return create_nothing(value)


def create_nothing(value):
    return value


@pytest.mark.parametrize("fn", [seed_all, check_kind, count_words, pass_on])
def test_frames_without_tensors_are_left_alone(fn):
    value = "a b" if fn is count_words else 3
    check(fn, value, graphs=0, breaks=0)
    assert dl.counters.frames == 0


def test_frames_of_libraries_are_left_alone():
    def parse():
        import argparse
        import json

        parser = argparse.ArgumentParser()
        parser.add_argument("--rate", type=float)
        given = parser.parse_args(["--rate", "0.5"])
        return json.dumps(vars(given)), parser.format_usage(), sys.getrecursionlimit() > 0

    dl.counters.reset()
    expected = parse()
    with dl.enable(backend=Recorder()):
        assert parse() == expected
    assert dl.counters.graphs == 0 and dl.counters.frames == 0


ROW = np.linspace(0.0, 1.0, 3)


class Grid:
    rows = np.ones((2, 3))


def zeros(n):
    return np.zeros(n) + 1


ARRAYS = {
    "created": lambda n: (time.time(), np.zeros(n) * 2)[1],
    "by a ufunc": lambda n: (time.time(), np.exp(np.arange(n) * 0.5))[1],
    "joined": lambda n: (time.time(), np.concatenate([ROW, np.full(n, 2.0)]))[1],
    "a global": lambda n: (time.time(), ROW * n)[1],
    "of a class": lambda n: (time.time(), Grid.rows * n)[1],
    "in a helper": lambda n: (time.time(), zeros(n) * 2)[1],
    "a norm": lambda n: (time.time(), np.linalg.norm(ROW * n))[1],
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.on_cpu
def test_arrays_come_after(name):
    check(approximate(ARRAYS[name]), 3, graphs=1, breaks=1, others=[(4,), (5,)], all_graphs=(1, 3))


@checked(3, graphs=0, breaks=0)
def test_numbers_of_numpy_come_after(n):
    time.time()
    return np.float32(n), np.pi * n
