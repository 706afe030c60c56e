"""Numbers that vary from call to call are symbolic in the first version of what follows a break."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, tensor


@checked(tensor(4), graphs=2, breaks=2)
def test_an_iteration_until_a_number_is_small(x):
    z, seen = torch.zeros_like(x), []
    for _ in range(30):
        new = torch.tanh(0.3 * z + x)
        change = (new - z).abs().max().item()
        seen.append(change)
        z = new
        if change < 1e-4:
            break
    return z, seen


@checked(tensor(4), graphs=3, breaks=3)
def test_steps_of_which_some_are_rejected(x):
    """The root, a version for each outcome, and an end without operators."""
    t, h, steps = 0.0, 0.5, 0
    while t < 1.0 and steps < 50:
        middle = x + h / 2 * torch.cos(x)
        new = x + h * torch.cos(middle)
        if (new - middle).abs().max().item() < 0.05:
            t, x = t + h, new
            h *= 1.5
        else:
            h *= 0.5
        steps += 1
    return x, steps


@checked(tensor(3), graphs=2, breaks=1)
def test_the_branch_breaks_and_not_the_number(x):
    y = x.sin()
    total = y.sum().item()
    y = y * 2
    if total > 100:
        return y
    return y.cos(), total


@checked(tensor(3), graphs=2, breaks=1)
def test_a_truth_that_a_callee_returns(x):
    def is_small(y):
        return bool(y.abs().max() < 100)

    y = x * 2
    small = is_small(y)
    if small:
        y = y + 1
    return y, small


@pytest.mark.parametrize(
    "read", ["y.sum().item() > n", "n < y.sum().item()", "float(y.sum()) <= n + 0.5", "y[0].item()"]
)
def test_comparisons_of_numbers_that_are_read(read):
    names = {"torch": torch}
    exec(f"def fn(x, n):\n    y = x.sin()\n    if {read}:\n        return y + 1\n    return y - n", names)
    check(names["fn"], tensor(3), 1, graphs=2, breaks=1, others=[(tensor(3), 7)])


def test_a_number_of_an_item_is_not_compiled_for_its_value():
    def fn(x):
        n = x.sum().item()
        return torch.full((2,), 1.0) * n

    compiled = dl.compile(fn, backend="eager")
    dl.counters.reset()
    for value in (2.0, 3.5, 7.25):
        assert torch.equal(compiled(torch.tensor([value])), fn(torch.tensor([value])))
    assert dl.counters.recompiles == 0


def test_a_size_of_data_is_symbolic_behind_the_break():
    def fn(x):
        rows = x[x[:, 0] > 0]
        return rows.sin() + rows.sum(0)

    compiled = dl.compile(fn, backend="eager")
    dl.counters.reset()
    for count in (3, 2, 5):
        x = torch.cat([torch.ones(count, 2), -torch.ones(6 - count, 2)])
        assert torch.equal(compiled(x), fn(x))
    assert dl.counters.recompiles == 0


def test_a_loop_in_a_callee():
    def scaled(x):
        n = 1.5
        for _ in range(6):
            x = x * n
            print(end="")
            n = n + 0.25
        return x

    def fn(x):
        return scaled(x + 1) * 2

    check(fn, tensor(3), graphs=3, breaks=2)


def test_numbers_of_one_name_are_remembered_apart():
    """Behind the break ``n`` is a variable of either function, with another number. Neither has changed in the call of
    another dtype, so both are constants of its graphs, and the last call has graphs of its own."""

    def scaled(x, n):
        y = x * n
        dl.graph_break()
        return y * n

    def fn(x, n):
        return scaled(x, n + 1) + n

    doubles = tensor(3, dtype=torch.float64)
    check(fn, tensor(3), 3, graphs=2, others=[(doubles, 3), (doubles, 5)], all_graphs=6)
