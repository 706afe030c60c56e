"""Dicts that a program only looks keys up in may grow without a recompilation."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence

import dynamo_lite as dl
from programs import Recorder, check, checked, recompiling, tensor, watching, with_gradients


def compiled(fn):
    recorder = Recorder()
    return dl.compile(fn, backend=recorder), recorder


def test_a_cache_that_grows():
    cache = {}

    def fn(x, name):
        if name not in cache:
            cache[name] = len(name) + 1
        return x * cache[name]

    run, recorder = compiled(fn)
    for name in ("a", "bb", "ccc", "a", "bb", "ccc"):
        assert torch.equal(run(tensor(3), name), tensor(3) * (len(name) + 1))
    # Each of them was missing once, and there once.
    assert list(cache) == ["a", "bb", "ccc"] and len(recorder.graphs) == 6
    for index in range(20):
        cache[f"other {index}"] = index
        run(tensor(3), "bb")
    assert len(recorder.graphs) == 6


def test_a_cache_of_masks_in_a_module():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.masks = {}

        def forward(self, x):
            key = (x.shape[0], x.dtype is torch.float32)
            if key not in self.masks:
                self.masks[key] = torch.ones(x.shape[0], x.shape[0]).tril()
            return self.masks[key] @ x

    eager, model = Masked(), Masked()
    recorder = Recorder()
    run = dl.compile(model, backend=recorder, dynamic=False)
    for size in (2, 3, 4, 2, 3, 4, 2):
        assert torch.equal(run(tensor(size, 3)), eager(tensor(size, 3)))
    assert list(model.masks) == list(eager.masks) and len(recorder.graphs) == 6


def test_a_key_that_is_taken_out_again():
    table = {"a": 1, "b": 2}

    def fn(x):
        return x * table.get("b", 5), "c" in table

    run, recorder = compiled(fn)
    for change in (lambda: None, lambda: table.pop("a"), lambda: table.pop("b"), lambda: table.update(c=1)):
        change()
        (product, there), (wanted, was_there) = run(tensor(2)), fn(tensor(2))
        assert torch.equal(product, wanted) and there is was_there
    assert len(recorder.graphs) == 3


def test_divergences_of_pairs_of_classes():
    def normal(x):
        return kl_divergence(Normal(x, x.exp()), Normal(x * 2, x.exp()))

    def categorical(x):
        return kl_divergence(Categorical(logits=x), Categorical(logits=x * 2))

    runs = [(fn, *compiled(fn)) for fn in (normal, categorical)]
    for _ in range(3):
        for fn, run, recorder in runs:
            assert torch.equal(run(tensor(3)), fn(tensor(3)))
            assert len(recorder.graphs) <= 2


TABLE = {"a": 1}


def added(x):
    TABLE["b"] = x.shape[0]
    return x + TABLE["b"]


def stored_over(x):
    TABLE["a"] = 7
    TABLE["a"] = [TABLE["a"], x]
    return x * 2


def added_then_counted(x):
    TABLE["b"] = 3
    return x + len(TABLE), list(TABLE)


def counted_then_added(x):
    count = len(TABLE)
    TABLE["b"] = 3
    return x + count, TABLE["b"]


def added_and_taken_out(x):
    TABLE["b"] = 3
    del TABLE["b"]
    return x + 1, "b" in TABLE


def given_by_default(x):
    return x + TABLE.setdefault("b", 4), TABLE.setdefault("a", 9), TABLE.get("c"), TABLE.get("c", 3)


def missing(x):
    try:
        return x + TABLE["b"]
    except KeyError as error:
        return x - 1, error.args


def iterated_objects(x):
    TABLE["b"] = 2
    return x + sum(TABLE.values()), dict(TABLE), {**TABLE}, TABLE == {"a": 1, "b": 2}


def equal_keys(x):
    TABLE[1] = "one"
    return x + 1, TABLE[True], TABLE.get(1.0), 0 in TABLE


def keys_of_other_kinds(x):
    key = frozenset({1})
    TABLE[key] = 2
    TABLE[1, "a"] = 3
    TABLE[int, x.dtype] = 4
    return x + TABLE[key] + TABLE[1, "a"], TABLE[int, torch.float32], len(TABLE)


def before_a_break(x):
    TABLE["b"] = x
    dl.graph_break()
    TABLE["c"] = x + 1
    return TABLE["b"] * 2


PROGRAMS = [added, stored_over, added_then_counted, counted_then_added, added_and_taken_out, given_by_default, missing]
PROGRAMS += [iterated_objects, equal_keys, keys_of_other_kinds, before_a_break]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_writes_to_a_looked_up_dict(program):
    def fn(x):
        found = program(x)
        return found, list(TABLE.items())

    check(watching("TABLE")(recompiling(fn)), tensor(2), graphs=None, breaks=None)


def test_two_names_of_one_dict():
    def fn(x, one, other):
        one["k"] = 1
        other["k"] = 2
        return x * one["k"], one is other

    shared = {}
    check(recompiling(fn), tensor(2), shared, shared, others=[(tensor(2), {}, {})])


@checked(tensor(2, grad=True), {"s": 2.0, "t": 1.0})
@with_gradients
def test_dict_cache_in_a_function_run_by_an_operator(x, scales):
    def body(y):
        before = scales["s"]
        scales["s"] = 5.0
        found = y * scales["s"]
        scales["s"] = before
        return found * scales["s"]

    return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)
