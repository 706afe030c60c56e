"""Parameters whose data is replaced inside (``.data =``, ``to``, ``half``), which breaks, or that are frozen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import built, check, checked, ints, recompiling, repeated, tensor, with_gradients, without_breaks
from training_checks import check_training, mlp
from weights import seeded

# -- .data = -----------------------------------------------------------------------------------------------------------


@checked(mlp(), tensor(2, 3))
@with_gradients
@without_breaks
def test_data_are_changed_in_their_place_and_put_back(m, x):
    """``x.data -= y`` writes to ``.data``, and then to the attribute."""
    for p in m.parameters():
        p.data -= 0.1 * p.data.sign()
    y = m(x)
    for p in m.parameters():
        p.data *= 2
    return y, m(x), [p.data.sum() for p in m.parameters()]


@pytest.mark.parametrize("other", [torch.t, torch.conj, torch.Tensor.flatten, torch.clone, lambda x: x[:1], torch.imag])
def test_data_that_are_not_quite_its_own(other):
    def fn(x):
        y = x * 2
        x.data = other(x.data)
        return x + 1, y

    check(fn, tensor(2, 2).to(torch.complex64), graphs=None, breaks=None)


@checked(tensor(3, grad=True), tensor(3), graphs=None)
@with_gradients
def test_data_are_replaced_twice(p, x):
    before = p.data
    p.data = x * 2
    p.data = p.data + 1
    p.data.add_(before)
    return (p * x).sum(), before, p.data


@checked(tensor(3, grad=True), tensor(3), graphs=2, breaks=1)
@with_gradients
def test_the_graph_of_what_came_before_needs_the_old_data(p, x):
    y = (p * x).sum()
    p.data = p.data * 2
    return y + (p * x).sum()


def test_writes_before_are_told_to_autograd():
    def fn(p, x):
        with torch.no_grad():
            p[0] = 3
        p.data = x * 2

    for call in (fn, dl.compile(fn, backend="eager")):
        p = tensor(3, grad=True)
        y = (p * p).sum()
        call(p, tensor(3))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_data_of_another_owner():
    def fn(p, q, x):
        p.data = q.data
        p.data.add_(1)
        return (p * x).sum(), q + 0

    check(with_gradients(fn), tensor(3, grad=True), tensor(3, seed=1), tensor(3), graphs=None)

    def part(p, x):
        y = x * 2
        p.data = y[:2]
        y.add_(1)
        return (p * 2).sum(), y

    check(with_gradients(recompiling(part)), tensor(3, grad=True), tensor(3), graphs=None)


@checked(tensor(2, 3, grad=True), tensor(2, 3), graphs=None)
@with_gradients
def test_data_that_are_written_to_after(p, x):
    data = x * 2
    p.data = data
    data.add_(1)
    row = data[0]
    return (p * x).sum(), row, data


def test_data_of_a_buffer_and_of_a_gradient():
    def fn(m, x):
        m.running_mean.data = m.running_mean.data * 2 + 1
        m.weight.grad.data = m.weight.grad.data * 3
        return m(x)

    def program():
        m = nn.BatchNorm1d(3)
        m(tensor(4, 3)).square().sum().backward()
        return lambda x: (fn(m, x), m.running_mean, m.weight.grad)

    check(built(with_gradients(program)), tensor(4, 3), graphs=3, breaks=2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_step_of_training_with_data_replaced(backend):
    def step(m, x, shrink):
        for p in m.parameters():
            p.data = p.data * shrink
        return m(x).square().sum()

    def body(wrap):
        m = mlp()
        before, run = [*m.parameters()], wrap(step)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            run(m, tensor(2, 3), 0.9).backward()
            optimizer.step()
        return [p.detach() for p in before], [one is other for one, other in zip(m.parameters(), before, strict=True)]

    check_training(body, backend=backend, graphs=None, breaks=None)


@pytest.mark.parametrize("handled", [False, True])
def test_data_are_put_back_where_the_graph_fails(handled):
    def fn(p, x, table, at):
        y = table[at]
        p.data = x * 2
        return (p * y).sum()

    def careful(*args):
        try:
            return fn(*args)
        except IndexError:
            return args[0] + 1

    program = careful if handled else fn
    for call in (program, dl.compile(program, backend="eager")):
        p, x = tensor(3, grad=True), tensor(3, seed=1)
        memory = p.data_ptr()
        if handled:
            assert torch.equal(call(p, x, tensor(4), torch.tensor([9])), tensor(3) + 1)
        else:
            with pytest.raises(IndexError):
                call(p, x, tensor(4), torch.tensor([9]))
        assert torch.equal(p, tensor(3)) and p.data_ptr() == memory
        call(p, x, tensor(4), torch.tensor([1])).backward()
        assert torch.equal(p, x * 2) and p.data_ptr() != memory
        assert torch.equal(p.grad, tensor(4)[1].expand(3))


def test_the_old_data_are_written_to():
    def fn(p, other, x, at):
        before = p.data
        p.data = x * 2
        before.add_(1)
        try:
            return (p * other[at]).sum()
        except IndexError:
            return x + 1

    def program():
        p = tensor(3).requires_grad_()
        return lambda other, x, at: (fn(p, other, x, at), p)

    inside, outside = torch.tensor([1]), torch.tensor([9])
    check(built(program), tensor(4), tensor(3), inside, graphs=None, others=[(tensor(4), tensor(3), outside)])

    def shared():
        p = tensor(3).requires_grad_()
        view = p.detach()
        return lambda x: (fn(p, view, x, inside), p, view)

    check(built(repeated(1)(shared)), tensor(3), graphs=None)


def test_data_that_do_not_fit():
    def fn(p, x):
        try:
            p.data = torch.arange(3)
        except RuntimeError as error:
            return str(error)[:20], x + 1

    check(fn, tensor(3, grad=True), tensor(3), graphs=None)
    check(lambda p, x: (setattr(p, "data", torch.arange(3)), p + x), tensor(3), tensor(3), graphs=None)


def test_a_gradient_of_another_type():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.sum().backward()
    parameter.data = parameter.data.double()
    check(lambda p: (p.grad + 1, p * 2), parameter, graphs=None)


def test_what_others_have_of_the_old_data():
    def fn(p, view, x):
        p.data = x + 1
        view.add_(1)
        return (p * x).sum(), view + 0

    def program():
        p = tensor(3).requires_grad_()
        view = p.data[:2]
        return lambda x: (*fn(p, view, x), p, view)

    check(built(with_gradients(program)), tensor(3), graphs=None)


@checked(tensor(3, grad=True), graphs=None)
@with_gradients
def test_a_leaf_of_data_that_were_replaced(p):
    p.data = p.data.clamp(-0.5, 0.5)
    leaf = p.detach().requires_grad_()
    return leaf, leaf.sum(), p


# -- module.to ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["double", "half", "bfloat16"])
def test_retyped(method):
    def fn(m, x):
        getattr(m, method)()
        return m(getattr(x, method)()), [p.dtype for p in m.parameters()]

    check(recompiling(fn), seeded(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))), tensor(2, 3), graphs=None)


@checked(tensor(2, 3), graphs=None)
@with_gradients
def test_retyped_and_made_inside(x):
    m = nn.Linear(3, 4).double()
    return m(x.double()), m, nn.Linear(3, 3, dtype=torch.float64).float()(x)


# -- requires_grad_ ----------------------------------------------------------------------------------------------------


@checked(mlp(), tensor(2, 3))
@with_gradients
@recompiling
@without_breaks
def test_frozen_inside(m, x):
    m[0].requires_grad_(False)
    return m(x), [(p.requires_grad, p.is_leaf, p.grad) for p in m.parameters()]


@checked(mlp(), tensor(2, 3))
@with_gradients
@without_breaks
def test_frozen_for_a_while(m, x):
    for p in m.parameters():
        p.requires_grad_(False)
    without = m(x)
    for p in m.parameters():
        p.requires_grad = True
    return without, m(x * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_frozen_is_written_to(backend):
    def fn(w, x):
        y = (w + x).sum()
        w.requires_grad_(False)
        w.mul_(0.5)
        return y, (w * x).sum()

    found = []
    for call in (fn, dl.compile(fn, backend=backend)):
        w, x = tensor(3, grad=True), tensor(3, grad=True, seed=1)
        y, z = call(w, x)
        z.backward()
        found.append((y.detach(), z.detach(), w.detach(), x.grad, w.requires_grad))
    assert found[0][4] is found[1][4] is False
    assert all(torch.equal(one, other) for one, other in zip(found[0][:4], found[1][:4]))


def test_what_can_not_be_frozen():
    def fn(w, x):
        y = w * x
        try:
            y.requires_grad_(False)
        except RuntimeError as error:
            return str(error)[:20], y

    check(with_gradients(fn), tensor(3, grad=True), tensor(3), graphs=None)
    check(lambda x: (x.requires_grad_(), x * 2), ints(3), graphs=None)


# -- __class__ ---------------------------------------------------------------------------------------------------------


class Twice(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


@checked(seeded(nn.Linear(3, 3)), tensor(2, 3), graphs=2)
@recompiling
@with_gradients
def test_a_module_becomes_another(m, x):
    before = m(x)
    m.__class__ = Twice
    m.note = "changed"
    return before, m(x), type(m) is Twice, isinstance(m, Twice)


class Plain:
    def value(self):
        return 1


class Other(Plain):
    def value(self):
        return 2

    def __setattr__(self, name, value):
        raise AttributeError(name)


class Slotted:
    __slots__ = ("a",)


@checked(Plain(), tensor(2), graphs=None)
@recompiling
def test_an_object_becomes_another(obj, x):
    obj.a = x + 1
    obj.__class__ = Other
    return obj.value() * x, obj.__class__ is Other, vars(obj)


def test_what_does_not_become_another():
    def fn(obj, cls, x):
        try:
            obj.__class__ = cls
        except TypeError as error:
            return str(error)[:20], x + 1
        return x * 2

    for cls in (Slotted, int, dict, 3):
        check(fn, Plain(), cls, tensor(2), graphs=None)
    check(fn, Plain(), Plain, tensor(2), graphs=None, breaks=1)


# -- hooks' handles ----------------------------------------------------------------------------------------------------


@checked(tensor(2, 3))
@built
@repeated(3)
@recompiling
@with_gradients
def test_a_hook_removes_itself():
    m = seeded(nn.Linear(3, 3))
    seen = []

    def once(module, args, kwargs):
        seen.append(1)
        handle.remove()

    handle = m.register_forward_pre_hook(once, with_kwargs=True)
    m.register_forward_hook(lambda module, args, out: out * 2)
    return lambda x: (m(x), len(seen), len(m._forward_pre_hooks), len(m._forward_pre_hooks_with_kwargs))


@checked(tensor(3))
@built
def test_a_hook_of_what_has_died():
    m = nn.Linear(3, 3)
    handle = m.register_forward_hook(lambda module, args, out: out * 2)
    del m

    def fn(x):
        handle.remove()
        return x + 1

    return fn
