"""Warnings of kernels that the program records: from the graph's line, and only if the kernel runs."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch

import dynamo_lite as dl
from programs import tensor


def of(caught):
    return [(each.category, str(each.message).partition(" (")[0]) for each in caught]


def recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = (x + 1).std()
    return y * 2, of(caught)


def an_error(x):
    log = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            y = x.var()
        except UserWarning as error:
            log.append(str(error))
            y = x
    return y * 2, log


def in_a_callee(x):
    def spread(x):
        return torch.std_mean(x, dim=0)[0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = spread(x)
    return y * 2, of(caught)


def after_a_break(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = x + 1
        dl.graph_break()
        y = x.std()
    return y * 2, of(caught)


def in_two_places(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            x = x + torch.nan_to_num(x.std())
        y = x.var()
    return x, y, of(caught)


PROGRAMS = (recorded, an_error, in_a_callee, after_a_break, in_two_places)


@pytest.mark.parametrize(("fn", "backend"), [*itertools.product(PROGRAMS, ("eager",)), (recorded, "aot_eager")])
def test_a_warning_of_each_call_is_seen(fn, backend):
    compiled = dl.compile(fn, backend=backend)
    for seed in range(3):
        x = tensor(1, seed=seed)
        *tensors, seen = compiled(x)
        *expected, heard = fn(x)
        assert heard
        if backend == "eager":
            assert seen == heard
        for one, other in zip(tensors, expected, strict=True):
            torch.testing.assert_close(one, other, equal_nan=True)


def test_kernels_that_do_not_warn_record_nothing():
    def fn(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = torch.relu(x @ x) + x.std(dim=0)
        return y * 2, of(caught)

    x = tensor(4, 4)
    explained = dl.explain(fn)(x)
    assert explained.result[1] == []
    assert torch.equal(explained.result[0], fn(x)[0])


def test_random_numbers():
    def fn(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = torch.nn.functional.dropout(x, 0.5)
        return y, of(caught)

    x = tensor(50)
    torch.manual_seed(0)
    expected, _ = fn(x)
    torch.manual_seed(0)
    found, _ = dl.compile(fn, backend="eager")(x)
    assert torch.equal(expected, found)
