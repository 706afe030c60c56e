"""The module random: a call breaks the graph, and draws the numbers that eager draws."""

from __future__ import annotations

import contextlib
import random
from unittest import mock

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from collector import Programs
from equality import Pairing
from outcomes import outcome
from programs import checked, recompiling, repeated, tensor

programs = Programs()
FOUND = random.Random(7)


def unaltered(fn, *args, calls=4, backend="eager", **settings):
    """Compares results and states of the generators after several calls, eager and compiled."""
    found = []
    for call in (fn, dl.compile(fn, backend=backend, **settings)):
        random.seed(3)
        FOUND.seed(7)
        torch.manual_seed(0)
        dl.counters.reset()
        seen = []
        for _ in range(calls):
            seen += [outcome(call, *args), random.getstate(), FOUND.getstate()]
        found.append(seen)
    Pairing().compare(*found, "calls")
    return dl.counters


@programs(tensor(4), graphs=None, breaks=None)
@repeated(5)
@recompiling
def floats_in_order(x):
    first = random.random()
    second = random.uniform(-1, 2)
    return x * first + second * random.random(), first, second - first


@programs(tensor(4), graphs=None, breaks=None)
@repeated(5)
@recompiling
def integers(x):
    number = random.randint(1, 10)
    return x + number, x.int() * random.randrange(5, None), number * 2 + 1, random.randrange(start=1, stop=9, step=3)


@programs(tensor(4), graphs=None, breaks=None)
@repeated(4)
@recompiling
def distributions(x):
    share = random.betavariate(0.4, 0.4)
    return share * x + (1 - share) * x.flip(0) + random.gauss(0, 1), random.normalvariate(0, 2), random.expovariate(2)


@programs(tensor(9), graphs=None, breaks=None)
@repeated(4)
@recompiling
def a_crop(x):
    start = random.randint(0, x.shape[0] - 4)
    return x[start : start + 4] * 2, start


@programs(tensor(4), graphs=None, breaks=None)
@repeated(6)
@recompiling
def a_branch(x):
    y = x + 1
    if random.random() < 0.5:
        y = y * 2
    return y * random.random()


@programs(tensor(4), graphs=None, breaks=None)
@repeated(4)
@recompiling
def an_index_of_a_list(x):
    return x * [1.0, 2.0, 3.0, 4.0][random.randint(0, 3)]


@programs(tensor(4), graphs=None, breaks=None)
@repeated(4)
@recompiling
def a_choice_and_a_shuffle(x):
    order = [0, 1, 2]
    random.shuffle(order)
    return x * random.choice([1.0, 2.0]) + order[0], order


@programs(tensor(4), graphs=None, breaks=None)
@recompiling
def one_made_inside(x):
    rng = random.Random(3)
    items = [x, x + 1, x + 2]
    rng.shuffle(items)
    return x * rng.random() + rng.randint(1, 3), rng.choice(items), rng.sample(range(9), 3)[0:0], items, rng.gauss(0, 1)


def draws_from_a_helper(x):
    return x * random.random()


@programs(tensor(4), graphs=None, breaks=None)
@repeated(3)
@recompiling
def breaks_between(x):
    y = draws_from_a_helper(x)
    dl.graph_break()
    return y * random.random()


@programs(tensor(4), graphs=None, breaks=None)
@repeated(3)
@recompiling
def arguments_that_are_refused(x):
    with contextlib.suppress(ValueError):
        x = x * random.random()
        x = x * random.randint(5, 1)
    return x * random.random()


@programs(tensor(4), graphs=None, breaks=None)
@repeated(3)
@recompiling
def state_that_is_read_and_set(x):
    state = random.getstate()
    first = random.random()
    random.setstate(state)
    return x * first * random.random()


test = programs.test()


def test_pre_existing_generator_is_advanced_as_in_eager():
    def program(x):
        return x * FOUND.random() + FOUND.randint(1, 4) * random.random(), FOUND.uniform(0, 1)

    unaltered(program, tensor(4))


def test_generator_held_by_a_module_is_advanced():
    class Noise(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rng = random.Random(1)

        def forward(self, x):
            return x * self.rng.uniform(1, 2)

    eager, compiled = Noise(), Noise()
    call = dl.compile(compiled, backend="eager")
    dl.counters.reset()
    for _ in range(3):
        torch.testing.assert_close(call(torch.ones(3)), eager(torch.ones(3)))
    compiled.rng = random.Random(9)
    torch.testing.assert_close(call(torch.ones(3)), torch.ones(3) * random.Random(9).uniform(1, 2))


@pytest.mark.parametrize("kind", [random.SystemRandom, type("Own", (random.Random,), {"random": lambda self: 0.5})])
def test_classes_of_their_own(kind):
    rng = kind()

    def program(x):
        return x * 2, rng.random()

    compiled = dl.compile(program, backend="eager")
    assert [0 <= compiled(torch.ones(2))[1] < 1 for _ in range(3)] == [True] * 3


def test_another_function_in_its_place():
    def program(x):
        return x * random.random()

    compiled = dl.compile(program, backend="eager")
    compiled(torch.ones(2))
    with mock.patch.object(random, "random", lambda: 0.25):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 0.25))
    one = random.Random(1)
    one.random = lambda: 0.125
    with mock.patch.object(random, "uniform", one.uniform):
        drawn = dl.compile(lambda x: x * random.uniform(0, 1), backend="eager")
        torch.testing.assert_close(drawn(torch.ones(2)), torch.full((2,), 0.125))


@pytest.mark.fails_on_data
def test_graphs_that_fail_on_the_data_draw_what_eager_drew():
    def handled(x, at):
        try:
            y = x * random.random()
            y = y[at] * FOUND.random()
            return y + random.random()
        except IndexError:
            return x - random.random()

    def not_handled(x, at):
        y = (x * random.random())[at]
        return y + random.random()

    for program in (handled, not_handled):
        for at in (torch.tensor([1]), torch.tensor([9])):
            unaltered(program, tensor(4), at)


def test_operators_that_run_a_function_twice():
    def program(x):
        return checkpoint(lambda y: (y * random.random()).sin(), x, use_reentrant=False).sum()

    states = []
    for call in (program, dl.compile(program, backend="aot_eager")):
        random.seed(3)
        x = tensor(4, grad=True)
        call(x).backward()
        states.append((random.getstate(), x.grad))
    torch.testing.assert_close(*states)


def test_exported_programs_refuse_random_draws():
    with pytest.raises(dl.exc.Unsupported, match=r"random"):
        dl.export(lambda x: x * random.random(), tensor(3))


@checked(tensor(3), [1.0, 2.0, 3.0], graphs=None)
def test_shuffle_of_a_pre_existing_list(x, items):
    random.Random(4).shuffle(items)
    return x * items[0]
