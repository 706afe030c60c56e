"""Loops with a break whose iterations differ in what guards can't make symbolic: a few versions, then eager."""

from __future__ import annotations

import warnings

import pytest
import torch

import dynamo_lite as dl


@dl.disable
def note(value):
    return value


def growing_list(x):
    found = []
    for step in range(20):
        found.append(x + step)
        note(step)
        x = x + len(found)
    return x, found


def list_that_is_iterated(x):
    found = [x]
    for each in found:
        if len(found) < 20:
            found.append(each + 1)
        note(each)
    return found


def counter(x):
    for step in range(20):
        x = x * step + 1
        note(step)
    return x


def rows_of_a_tensor(x):
    for row in torch.arange(20.0):
        x = x + row
        note(row)
    return x


def collect(x, found):
    x = x + 1
    note(found)
    return x * 2 + len(found)


def growing_list_in_a_callee(x):
    found = []
    for step in range(20):
        found.append(step)
        x = collect(x, found)
    return x


FUNCTIONS = (growing_list_in_a_callee, growing_list, list_that_is_iterated, counter, rows_of_a_tensor)


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_few_versions_and_no_warning(fn):
    compiled = dl.compile(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            torch.testing.assert_close(compiled(torch.ones(4)), fn(torch.ones(4)), rtol=0, atol=0)
    codes = [code for code in compiled.owner.codes() if code.co_name == fn.__name__]
    assert codes and all(len(compiled.owner.entries(code)) <= 3 for code in codes)


def test_other_dtypes_in_other_calls_are_versions_as_before():
    def fn(x):
        for step in range(3):
            x = x + 1
            note(step)
        return x

    compiled = dl.compile(fn, backend="eager")
    dtypes = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    for dtype in dtypes:
        assert torch.equal(compiled(torch.ones(4, dtype=dtype)), torch.ones(4, dtype=dtype) + 3)
    graphs = dl.counters.graphs
    for dtype in dtypes:
        compiled(torch.ones(4, dtype=dtype))
    assert dl.counters.graphs == graphs >= 2 * len(dtypes)


class Experts(torch.nn.Module):
    """Calls one of its experts at each turn of a loop."""

    def __init__(self, chosen):
        super().__init__()
        self.experts = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(12)])
        self.chosen = chosen

    def forward(self, x):
        out = torch.zeros_like(x)
        for expert in self.chosen():
            rows = torch.nonzero(x[:, 0] > -100)[:, 0]
            out[rows] += self.experts[expert](x[rows])
        return out


CHOSEN = {
    "tensors": lambda: torch.ones(12).nonzero(),
    "items": lambda: (each.item() for each in torch.ones(12).nonzero()),
    "list": lambda: torch.ones(12).nonzero().flatten().tolist(),
    "counter": lambda: range(12),
}


def check_recompiles_at_most_twice(model):
    """Compare three calls with eager; warnings, as of the limit, are errors."""
    compiled = dl.compile(model, backend="eager")
    recompiles = dl.counters.recompiles
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        for _ in range(3):
            x = torch.randn(4, 4)
            torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    assert dl.counters.recompiles <= recompiles + 2


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_experts_picked_by_index_recompile_at_most_twice(chosen):
    check_recompiles_at_most_twice(Experts(chosen).eval())


def test_experts_appended_to_a_list_recompile_at_most_twice():
    class Collecting(Experts):
        def forward(self, x):
            found = []
            for expert in self.chosen():
                found.append(self.experts[expert](x))
                x = x + len(found)
            return x, found

    check_recompiles_at_most_twice(Collecting(CHOSEN["tensors"]).eval())


def doubled(x):
    return growing_list(x * 2)[0]


def halved(x):
    return growing_list(x / 2)[0]


def two_callers(x):
    y = doubled(x)
    note(y)
    return y + halved(y)


def test_a_loop_that_differs_is_left_to_eager_for_all_its_callers():
    """In one call: another caller doesn't make versions of it, too."""
    compiled = dl.compile(two_callers, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(torch.ones(2)), two_callers(torch.ones(2)))
    found = dl.counters.graphs, dl.counters.broken_translations
    assert torch.equal(compiled(torch.ones(2)), two_callers(torch.ones(2)))
    assert found == (dl.counters.graphs, dl.counters.broken_translations) == (5, 5)
