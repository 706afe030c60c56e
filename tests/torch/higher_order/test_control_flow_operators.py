"""``torch.cond``, ``while_loop``, ``map`` and ``scan``: their carried values, results and refusals."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops import map as torch_map
from torch._higher_order_ops import scan
from torch.func import vmap

import dynamo_lite as dl
from programs import check, check_refused, checked, tensor


def summed(fn):
    """Returns the function's result, and the gradient of its sum."""

    def run(x):
        results = fn(x)
        leaves = torch.utils._pytree.tree_leaves(results)
        (found,) = torch.autograd.grad(sum(each.sum() for each in leaves if each.requires_grad), x)
        return results, found

    return run


# -- while_loop --------------------------------------------------------------------------------------------------------


@checked(2, others=[(3,), (5,), (2,)], graphs=None, operators=None)
def test_loop_of_integers_alone(n):
    return torch.while_loop(lambda i, j: i < 10, lambda i, j: (i + n, j + i), (n, 0))


@checked(torch.ones(3), others=[(-torch.ones(3),)], operators=None)
def test_branch_inside_of_a_loop(x):
    def step(i, a):
        return i + 1, torch.cond(a.sum() > 2, lambda a: a + i, lambda a: a - 1, (a,))

    return torch.while_loop(lambda i, a: i < 3, step, (torch.tensor(0), x))


@checked(torch.ones(3), others=[(torch.ones(3) * 10,)], operators=None)
def test_loop_that_carries_structures(x):
    def step(state, pair):
        return {"k": state["k"] + pair[0]}, [pair[1] * 1, pair[0] + 1]

    return torch.while_loop(lambda state, pair: state["k"].sum() < 20, step, ({"k": x}, [x + 1, x + 2]))


@checked(torch.ones(3), operators=None)
def test_loop_of_no_round_returns_copies(x):
    (y,) = torch.while_loop(lambda a: a.sum() < -100, lambda a: (a + 1,), (x,))
    y.add_(1)
    return x, y


@pytest.mark.parametrize("rounds", [0, 3])
def test_loop_with_gradients(rounds):
    def fn(x):
        return torch.while_loop(
            lambda i, a, b: i < rounds,
            lambda i, a, b: (i + 1, a.sin() + x, b + 1),
            (torch.tensor(0), x, torch.ones(3)),
        )

    check(fn, tensor(3, grad=True), operators=None)
    check(summed(fn), tensor(3, grad=True), graphs=None, breaks=None, operators=None)


# What torch's compiler, which eager calls asks, refuses of a loop.
REFUSED_LOOPS = {
    "writes into what it carries": lambda x: torch.while_loop(lambda a: a.sum() < 10, lambda a: (a.add_(1),), (x,)),
    "returns what it carries": lambda x: torch.while_loop(
        lambda a, b: a.sum() < 10, lambda a, b: (b, a + 1), (x, x + 1)
    ),
    "carries floats": lambda x: torch.while_loop(lambda i, a: a.sum() < 10, lambda i, a: (i + 1.0, a + 1), (0.0, x)),
    "asks a number": lambda x: torch.while_loop(lambda a: a.sum(), lambda a: (a + 1,), (x,)),
    "changes the shape": lambda x: torch.while_loop(lambda a: a.sum() < 10, lambda a: (torch.cat([a, a]),), (x,)),
}
REFUSED_BRANCHES = {
    "returns what it is given": lambda x: torch.cond(x.sum() > 0, lambda a: a, lambda a: a * 1, (x,)),
    "uses two views": lambda x: torch.cond(x.sum() > 0, lambda a: a + x.view(-1), lambda a: a - 1, (x.view(3),)),
    "returns one twice": lambda x: torch.cond(x.sum() > 0, lambda a: (a + 1,) * 2, lambda a: (a + 1, a), (x,)),
}
REFUSED_MAPS = {
    "returns what it is given": lambda x: torch_map(lambda a: a, x),
    "returns a number": lambda x: torch_map(lambda a: (a * 2, 3), x),
    "takes one twice": lambda x: torch_map(lambda pair: pair[0] + pair[1], (x, x)),
    "writes": lambda x: torch_map(lambda a: a.add_(1) * 1, x),
    "takes no rows": lambda x: torch_map(lambda a: a * 1, x[:0]),
    "takes other numbers of rows": lambda x: torch_map(lambda pair: pair[0] + pair[1], (x, x[:2])),
}
REFUSED_SCANS = {
    "returns what it is given": lambda x: scan(lambda c, a: (c + a, a), x[0] * 1, x),
    "carries another type": lambda x: scan(lambda c, a: (c.double() + a, a * 1), x[0] * 1, x),
    "returns one": lambda x: scan(lambda c, a: c + a, x[0] * 1, x),
    "takes no rows": lambda x: scan(lambda c, a: (c + a, a * 1), x[0] * 1, x[:0]),
}
if torch.__version__ >= "2.14":
    del REFUSED_SCANS["takes no rows"]

REFUSED = {
    f"{kind}: {name}": (fn, given)
    for kind, given, group in (
        ("while_loop", torch.ones(3), REFUSED_LOOPS),
        ("cond", torch.ones(3), REFUSED_BRANCHES),
        ("map", torch.ones(3, 2), REFUSED_MAPS),
        ("scan", torch.ones(3, 2), REFUSED_SCANS),
    )
    for name, fn in group.items()
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses(name):
    check_refused(*REFUSED[name])


@pytest.mark.skipif(torch.__version__ < "2.14", reason="torch refuses it")
def test_scan_of_no_rows():
    check(lambda x: scan(lambda c, a: (c + a, a * 1), x[0] * 1, x[:0]), torch.ones(3, 2))


# -- cond --------------------------------------------------------------------------------------------------------------


@checked(torch.ones(3), others=[(-torch.ones(3),)], graphs=None, breaks=None, operators=None)
def test_cond_that_gives_back_what_it_is_given_without_gradients(x):
    with torch.no_grad():
        found = torch.cond(x.sum() > 0, lambda a: a, lambda a: a, (x,))
    found.add_(1)
    return found is x, found, x * 1


@checked(torch.ones(3), others=[(-torch.ones(4),), (torch.ones(6),), (-torch.ones(7),)], operators=None)
def test_cond_on_a_size_in_its_closure(x):
    n = x.shape[0]
    return torch.cond(x.sum() > 0, lambda a: a * n, lambda a: a - n, (x,))


@checked(tensor(4, 3), operators=None)
def test_cond_of_each_row(x):
    return vmap(lambda row: torch.cond(row.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (row,)))(x)


# -- switch ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(torch._higher_order_ops, "switch"), reason="torch 2.15 added it")
@pytest.mark.parametrize("number", [1, torch.tensor(1)], ids=["an int", "a tensor"])
def test_switch_breaks_by_its_name(number):
    def fn(x):
        return torch._higher_order_ops.switch(number, (torch.sin, torch.cos, torch.tan), (x * 2,)) + 1

    check(fn, tensor(3), graphs=2, breaks=1, operators=2)
    assert any("torch._higher_order_ops.switch()" in str(reason) for reason in dl.counters.break_reasons)


# -- map ---------------------------------------------------------------------------------------------------------------


@checked(
    tensor(3, 4),
    tensor(4),
    others=[(tensor(5, 4), tensor(4)), (tensor(6, 4), tensor(4))],
    graphs=None,
    operators=None,
)
def test_map(x, y):
    scale = y * 3
    rows = torch_map(lambda d, b, n: {"o": d["x"] + b * n, "p": (d["y"] * scale,)}, {"x": x, "y": x * 2}, y, 4)
    return rows["o"] + 1, rows["p"][0]


# -- scan --------------------------------------------------------------------------------------------------------------


@checked(tensor(3, 4), tensor(3), others=[(tensor(3, 5), tensor(3)), (tensor(3, 6), tensor(3))], operators=None)
def test_scan(x, i):
    carry, rows = scan(lambda c, a: (c + a, (c * a, a * 1)), i, x, dim=1, reverse=True)
    return carry * 2, rows


@checked(tensor(3, 4), tensor(4), operators=None)
def test_scan_of_structures(x, i):
    def step(c, a):
        return [c[0] + a["u"], c[1] * 1], {"z": c[1] * a["v"] + x.sum()}

    return scan(step, [i, i + 1], {"u": x, "v": x * 2})


def test_scan_with_gradients():
    def fn(x):
        weight = x.mean(0)
        return scan(lambda c, a: ((c * a * weight).sin(), (c + a, a.detach() * 2)), torch.ones(4), x)

    check(fn, tensor(3, 4, grad=True), operators=None)
    check(summed(fn), tensor(3, 4, grad=True), graphs=None, breaks=None, operators=None)


def looped(x):
    return torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.sin() + x), (torch.tensor(0), x))[1]


def scanned(x):
    return scan(lambda c, a: (c + a, c * a), x[0] * 1, x)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("fn", [looped, scanned])
def test_loops_under_a_compiler_that_traces_them(fn, gradients):
    run = dl.compile(fn, backend="aot_eager")
    results = [summed(each)(tensor(3, 3, grad=True)) if gradients else each(tensor(3, 3)) for each in (fn, run)]
    assert dl.counters.graph_breaks == 0
    torch.testing.assert_close(*results)


def test_torch_compile_replaced_by_ours(monkeypatch):
    """Eager calls of these operators need torch's compiler."""
    monkeypatch.setattr(torch, "compile", dl.compile)
    x = torch.arange(6.0).view(3, 2)
    assert torch.equal(torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)), x + 1)
    assert torch.equal(scan(lambda c, a: (c + a, c * 1), x[0] * 0, x)[0], x.sum(0))
    i, y = torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + i), (torch.tensor(0), x))
    assert i == 3 and torch.equal(y, x + 3)
