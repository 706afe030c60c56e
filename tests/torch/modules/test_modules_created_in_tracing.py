"""Modules, parameters and leaves that the compiled function creates: one graph where they stay inside. Where they leave
the graph, CPython creates them, and they are ordinary objects."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Program, built, check, checked, recompiling, tensor, with_gradients, without_breaks
from weights import seeded


class Own(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.register_buffer("shift", torch.zeros(size))
        self.register_parameter("nothing", None)
        self.inner = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.scale = 3

    def forward(self, x):
        return self.inner(x * self.weight) * self.scale + self.shift


LAYERS = {
    "linear": lambda: nn.Linear(3, 4),
    "layer_norm": lambda: nn.LayerNorm(3),
    "sequential": lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 3)),
    "batch_norm": lambda: nn.BatchNorm1d(3),
    "own": lambda: Own(3),
    "gru_cell": lambda: nn.GRUCell(3, 4),
    "prelu": lambda: nn.PReLU(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("leaves", [False, True])
def test_a_module_made_inside(make, leaves, backend):
    def fn(x):
        before = torch.rand(2)  # the draws of the initialisation come in the program's order
        m = make()
        y = m(x)
        return (before, y, torch.rand(2), m) if leaves else (before, y, torch.rand(2))

    program = Program(fn, has_gradients=True, backend=backend, is_exact=backend == "eager", fullgraph=not leaves)
    check(program, tensor(2, 3, grad=True), graphs=None if leaves else 1)


def test_each_call_makes_another_module():
    def fn(x):
        m = nn.Linear(3, 3)
        return m(x), m

    compiled = dl.compile(fn, backend="aot_eager")
    (_, one), (_, other) = compiled(tensor(2, 3)), compiled(tensor(2, 3))
    assert one is not other and one.weight is not other.weight
    assert one.weight.data_ptr() != other.weight.data_ptr()
    kept = one.weight.detach().clone()
    with torch.no_grad():
        other.weight.zero_()
    assert torch.equal(one.weight, kept)


def test_a_layer_is_made_in_the_first_forward():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = None

        def forward(self, x):
            if self.layer is None:
                self.layer = nn.Linear(x.shape[-1], 2)
            return self.layer(x)

    check(Program(Late(), calls=3, recompiles=True, has_gradients=True), tensor(2, 3), graphs=None)


@checked(seeded(nn.Linear(3, 3)), tensor(2, 3), graphs=None)
@recompiling
@with_gradients
def test_a_parameter_is_replaced(m, x):
    m.weight = nn.Parameter(m.weight.detach() * 2)
    m.register_parameter("scale", nn.Parameter(torch.ones(3)))
    return m(x) * m.scale, m.weight


@checked(tensor(2, 3), others=[(tensor(4, size),) for size in (3, 5, 6)], graphs=None)
@with_gradients
def test_sizes_that_differ(x):
    m = nn.Linear(x.shape[-1], 2)
    return m(x), m


@checked(tensor(2, 3), graphs=None)
@with_gradients
def test_parameters_in_containers(x):
    some = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
    named = nn.ParameterDict({"a": torch.ones(3), "b": nn.Parameter(torch.zeros(3), requires_grad=False)})
    return sum((x * p).sum() for p in some) + (x * named["a"]).sum(), some, named, [*named]


def test_what_shares_memory_with_a_parameter():
    def fn(x):
        data = torch.zeros(4, 3)
        row = data[0]
        p = nn.Parameter(data)
        data[1] = 5
        data[0].add_(2)
        with torch.no_grad():
            p[2] = 7
        return (x * p[0]).sum() + row.sum(), p, row, data, data[2] + 0

    check(with_gradients(fn), tensor(2, 3), graphs=None)
    p, row, data = dl.compile(fn, backend="aot_eager")(tensor(2, 3))[1:4]
    assert p.data_ptr() == row.data_ptr() == data.data_ptr()


def test_a_view_that_is_older_than_the_parameter_is_written_to():
    def fn(x):
        data = torch.zeros(4, 3)
        row = data[0]
        p = nn.Parameter(data)
        row[:2].add_(1)
        return (x * p[0]).sum() + row.sum(), p, row

    check(with_gradients(fn), tensor(2, 3), graphs=None)
    dl.compile(fn, backend="aot_eager")(tensor(2, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: nn.Parameter(torch.randn(10)[:3]),
        lambda x: nn.Parameter(torch.ones(1).expand(3)),
        lambda x: nn.Parameter(x),
        lambda x: nn.Parameter(x[0]),
        lambda x: nn.Parameter(torch.view_as_complex(torch.ones(3, 2)).conj()).real,
    ],
    ids=["part", "expanded", "argument", "row", "conjugate"],
)
def test_parameters_of_memory_that_is_not_theirs_alone(make):
    def fn(x):
        p = make(x)
        return (p * 2).sum(), p, p.untyped_storage().nbytes(), x

    check(with_gradients(fn), tensor(2, 3), graphs=None)


def test_a_parameter_of_an_argument():
    def fn(m, x):
        p, q = nn.Parameter(x), nn.Parameter(m.weight.data)
        return (p @ q).sum(), p, q, m.weight + 0, p is x

    check(with_gradients(fn), seeded(nn.Linear(3, 3)), tensor(2, 3), graphs=None)
    m, x = nn.Linear(3, 3), tensor(2, 3)
    for backend in ("eager", "aot_eager"):
        _, p, q, _, _ = dl.compile(fn, backend=backend)(m, x)
        assert p.data_ptr() == x.data_ptr() and q.data_ptr() == m.weight.data_ptr()
        (p @ q).sum().backward()
        assert m.weight.grad is None and q.grad is not None and type(q) is nn.Parameter


@checked(tensor(2, 3, grad=True), graphs=None)
@checked(tensor(2, 3), graphs=None, others=[(tensor(4, 3),), (tensor(2, 5),)])
@with_gradients
def test_a_leaf_of_an_argument(x):
    given = x.detach().requires_grad_()
    return (given * given).sum(), given


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_of_a_leaf_of_an_argument(backend):
    def fn(x):
        plain = x.data
        leaf = plain.detach().requires_grad_()
        return leaf.t(), plain, leaf, (leaf * 2).sum()

    view, plain, leaf, _ = dl.compile(fn, backend=backend)(tensor(2, 3))
    assert view.requires_grad and not view.is_leaf and leaf.is_leaf and not plain.requires_grad
    view.sum().backward()
    assert torch.equal(leaf.grad, torch.ones(2, 3))


def test_what_an_argument_shares_with_a_leaf_is_written_to():
    def before(x):
        x.add_(1)
        given = x.detach().requires_grad_()
        return (given * 2).sum(), given

    def after(x):
        given = nn.Parameter(x)
        x.add_(1)
        return (given * 2).sum(), given

    def by_the_leaf(x):
        given = x.detach().requires_grad_()
        with torch.no_grad():
            given.mul_(2)
        return (given * 2).sum(), given, x + 0

    def by_a_view(x, view):
        given = x.detach().requires_grad_()
        view.mul_(2)
        return (given * 2).sum(), given, x + 0

    for fn in (before, after, by_the_leaf):
        check(with_gradients(fn), tensor(2, 3), graphs=None)

    def program():
        x = tensor(2, 3)
        return lambda at: by_a_view(x, x[at])

    check(built(program), 0, graphs=None, others=[(1,)])

    def apart():
        x = tensor(2, 3)
        others = [tensor(3), tensor(3), x[0], tensor(3)]
        return lambda at: by_a_view(x, others[at])

    check(built(apart), 0, graphs=None, others=[(1,), (2,), (3,)])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_parameter_that_requires_gradients_later(backend):
    def fn(x):
        p, q = nn.Parameter(x, requires_grad=False), nn.Parameter(torch.ones(3), requires_grad=False)
        y = p * q
        p.requires_grad_(True)
        q.requires_grad = True
        return (p * q).sum() + y.sum(), p, q

    y, p, q = dl.compile(fn, backend=backend)(tensor(2, 3))
    y.backward()
    assert (
        p.is_leaf and q.is_leaf and torch.equal(p.grad, torch.ones(2, 3)) and torch.equal(q.grad, tensor(2, 3).sum(0))
    )


def test_a_result_that_is_seen_to_share_memory_with_a_parameter():
    def leaves(m, x):
        weight = m.weight * 2
        p = nn.Parameter(weight)
        return (x @ p).sum(), p, weight

    def written(m, x):
        weight = m.weight * 2
        p = nn.Parameter(weight)
        with torch.no_grad():
            p.add_(1)
        return (x @ weight).sum(), p

    def of_a_view(m, x):
        weight = m.weight * 2
        row = weight[0]
        p = nn.Parameter(weight)
        torch._dynamo.graph_break()
        with torch.no_grad():
            p.add_(1)
        return (x @ p).sum(), row

    for fn in (leaves, written, of_a_view):
        check(with_gradients(fn), seeded(nn.Linear(3, 3)), tensor(2, 3), graphs=None)


def test_a_parameter_of_the_programs_own_class():
    class Named(nn.Parameter):
        pass

    def fn(x):
        p = Named(torch.ones(3))
        return x * p, type(p) is Named, isinstance(p, nn.Parameter)

    check(with_gradients(fn), tensor(3), graphs=None)


@checked(tensor(3), graphs=None)
def test_integers_can_not_be_trained(x):
    try:
        return nn.Parameter(torch.arange(3))
    except RuntimeError as error:
        return x + 1, str(error).partition("\n")[0], nn.Parameter(torch.arange(3), False)


@checked(tensor(2, 3), graphs=None)
@with_gradients
def test_leaves_that_leave(x):
    a = torch.zeros(3, requires_grad=True)
    b = (x * 2).requires_grad_()
    return ((x * a).sum() + b.sum()), a, b, a.grad, a.is_leaf, b.is_leaf


@checked(tensor(2, 3), graphs=None)
def test_a_leaf_over_a_break(x):
    m = nn.Linear(3, 1)
    w = torch.ones(3, requires_grad=True)
    loss = m(x * w).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return m, w, m.weight.grad is not None


def test_a_module_over_a_break_inside_of_a_call():
    def inner(x):
        m = nn.Linear(3, 3)
        w = torch.ones(3, requires_grad=True)
        y = m(x * w)
        torch._dynamo.graph_break()
        return m(y), m, w

    def fn(x):
        y, m, w = inner(x + 1)
        return y.sum(), m, w

    check(with_gradients(fn), tensor(2, 3), graphs=None)


@checked(tensor(3), graphs=None)
def test_a_parameter_made_in_inference_mode(x):
    with torch.inference_mode():
        p = nn.Parameter(torch.ones(3))
    return x * 2, p.is_inference(), p.requires_grad


def test_a_parameter_that_stays_inside():
    def fn(x):
        weight = nn.Parameter(x.detach() * 2)
        with torch.no_grad():
            weight.clamp_(max=1)
        y = (weight * x).sum()
        return torch.autograd.grad(y, weight)[0], weight.requires_grad, isinstance(weight, nn.Parameter)

    check(without_breaks(fn), tensor(2, 3))


def test_an_exported_program_makes_its_own():
    def fn(x):
        return nn.Linear(3, 4)(x)

    gm, _ = dl.export(fn, tensor(2, 3, grad=True))
    found = []
    for program in (fn, gm):
        torch.manual_seed(3)
        found.append(program(tensor(2, 3, grad=True)))
    assert torch.equal(*found)


def test_break_at_a_leaf_is_told_where_the_leaf_is_created():
    def fn(x):
        weight = nn.Parameter(x.detach() * 2)
        y = x * weight
        return y, weight

    (found,) = dl.explain(fn)(tensor(3)).breaks
    assert (found.reason.code, found.lineno) == ("DL0772", fn.__code__.co_firstlineno + 1)
