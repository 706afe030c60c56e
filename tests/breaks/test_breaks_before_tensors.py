"""Frames that break before they have come to any tensor: what comes after the break is captured whole."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import nn

import dynamo_lite as dl
from programs import Recorder, check, tensor
from weights import seeded

MODEL = seeded(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
DATA, TARGET = tensor(5, 3), tensor(5, 2, seed=1)


def test_globals_come_after():
    def fn():
        time.time()
        y = MODEL(DATA * 2)
        return F.mse_loss(y.sin(), TARGET) + 1

    check(fn, graphs=1, operators=7, breaks=1)


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


def test_nothing_comes_after():
    def fn(count):
        time.time()
        return [each * 2 for each in range(count)]

    check(fn, 3, graphs=0, breaks=0)


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
