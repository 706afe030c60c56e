"""Hooks on tensors, registered by the program."""

from __future__ import annotations

import functools

import pytest
import torch

import dynamo_lite as dl
from programs import (
    Program,
    approximate,
    built,
    check,
    checked,
    compiled_by,
    leaf,
    recompiling,
    repeated,
    tensor,
    with_gradients,
    without_breaks,
)
from training_checks import trained


@checked(leaf())
@with_gradients
def test_hook_on_an_argument_after_its_use(w):
    y = w.sin()
    w.register_hook(lambda gradient: gradient * 2)
    w.register_hook(lambda gradient: gradient + 1)
    return y * w


def test_hook_with_side_effects():
    class Counter:
        def __init__(self):
            self.calls = 0

        def hook(self, gradient):
            self.calls += 1
            return gradient * self.calls

    def program():
        counter, seen = Counter(), []

        def fn(w):
            w.register_hook(counter.hook)
            y = w * 3
            w.register_hook(lambda gradient: seen.append(gradient.sum()))
            y.sum().backward()
            return counter.calls, len(seen)

        return fn

    check(built(recompiling(program)), leaf(), graphs=(1, 3), breaks=1)


@checked(leaf(), tensor(3))
@with_gradients
def test_closure_over_results(w, x):
    y = x.sin()
    w.register_hook(lambda gradient: gradient * y)
    return w * x, y


def test_handle_of_a_hook_is_kept():
    kept = []

    def fn(w):
        first = w.register_hook(lambda gradient: gradient * 2)
        second = w.register_hook(lambda gradient: gradient + 1)
        kept.append(second)
        return w * 3, first

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for index in range(2):
        w = leaf()
        y, first = compiled(w)
        y.sum().backward()
        assert torch.equal(w.grad, torch.full((3,), 7.0))
        assert first.id < kept[index].id
        first.remove()
        kept[index].remove()
        assert not w._backward_hooks


@checked(leaf())
@with_gradients
def test_removed_at_once(w):
    handle = w.register_hook(lambda gradient: gradient * 2)
    y = w * 3
    handle.remove()
    handle.remove()
    return y


@pytest.mark.parametrize("of", ["argument", "result", "view"])
def test_handle_that_leaves_the_frame_removed(of):
    def fn(w):
        y = w * 2
        handle = (w if of == "argument" else y if of == "result" else y[1:]).register_hook(doubled)
        handle.remove()
        return y * 3, [handle, handle], type(handle)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        w = leaf()
        y, (handle, again), kind = compiled(w)
        y.sum().backward()
        assert torch.equal(w.grad, torch.full((3,), 6.0)) and handle is again and type(handle) is kind
        handle.remove()
        assert handle.hooks_dict_ref() is None


@checked(leaf(), graphs=(1, 2), breaks=(1, 3))
@with_gradients
def test_removed_after_a_break(w):
    handle = w.register_hook(lambda gradient: gradient * 2)
    y = w * 3
    print(handle.id >= 0)
    handle.remove()
    return y


@trained(backend="eager")
def test_hook_on_an_argument_that_is_not_a_leaf(wrap):
    def fn(w):
        w.register_hook(lambda gradient: gradient * 2)
        return w * 3

    w = leaf()
    wrap(fn)(w * 2).sum().backward()
    return w.grad


@trained(backend="eager", graphs=None, breaks=None)
def test_hook_on_a_mutated_argument(wrap):
    def fn(w):
        w.register_hook(lambda gradient: gradient * 2)
        w.mul_(5)
        w.register_hook(lambda gradient: gradient + 1)
        return w * 3

    w = leaf()
    wrap(fn)(w * 2).sum().backward()
    return w.grad


@checked(leaf())
@with_gradients
def test_hook_after_gradient_accumulation(w):
    def step(parameter):
        with torch.no_grad():
            parameter -= parameter.grad

    w.register_post_accumulate_grad_hook(step)
    return w * 3


@checked(tensor(3), graphs=1, breaks=1)
def test_hook_on_a_tensor_without_gradients_raises(x):
    y = x * 2
    try:
        y.register_hook(lambda gradient: gradient)
    except RuntimeError as error:
        return y, str(error)


@checked(leaf())
@with_gradients
def test_on_a_result(w):
    y = w * 2
    z = y.sin()
    y.register_hook(lambda gradient: gradient * 2)
    y.register_hook(lambda gradient: torch.clamp(gradient, -1, 1))
    y.register_hook(lambda gradient: None)
    return y * 3 + z


@checked(leaf(), operators=2)
@with_gradients
def test_on_a_result_and_removed(w):
    y = w * 2
    handle = y.register_hook(lambda gradient: gradient * 2)
    z = y * 3
    handle.remove()
    return z


@checked(leaf())
@with_gradients
def test_on_a_result_of_a_partial(w):
    y = w * 2
    bounds = w.detach().abs().max()
    y.register_hook(functools.partial(scaled, torch.ones(3) * 3))
    y.register_hook(functools.partial(scaled, by=bounds))
    return y * 3


def scaled(gradient, by):
    return gradient * by


BY_FIVE = functools.partial(scaled, by=5)


class Kept:
    def __init__(self):
        self.hook = functools.partial(scaled, by=2.5)


def test_on_a_result_of_an_existing_partial():
    of_a_closure = functools.partial(scaled, torch.ones(3) * 3)

    def fn(w, kept, given):
        y = w * 2
        for hook in (BY_FIVE, of_a_closure, kept.hook, given):
            y.register_hook(hook)
        return y * 3

    others = [(leaf(), Kept(), functools.partial(scaled, by=factor)) for factor in (7, 8)]
    check(with_gradients(without_breaks(fn)), leaf(), Kept(), functools.partial(scaled, by=6), others=others)


def test_on_a_result_of_an_existing_partial_of_what_may_change():
    def fn(w, holder):
        y = w * 2
        y.register_hook(functools.partial(lambda holder, gradient: gradient * holder[0], holder))
        holder[0] = 3
        return y

    check(repeated(1)(with_gradients(fn)), leaf(), [2], graphs=None, breaks=None)


def test_on_a_result_with_effects():
    seen = []

    def fn(w):
        y = w * 2
        y.register_hook(seen.append)
        y.register_hook(print)
        return y * 3

    check(with_gradients(fn), leaf(), graphs=(2, 3), breaks=(1, 2))
    assert len(seen) == 4


def test_on_a_result_whose_handle_is_kept():
    def fn(w):
        y = w * 2
        handle = y.register_hook(lambda gradient: gradient * 2)
        return y * 3, handle

    compiled = dl.compile(fn, backend="eager")
    for index in range(2):
        w = leaf()
        y, handle = compiled(w)
        if index:
            handle.remove()
        y.sum().backward()
        assert torch.equal(w.grad, torch.full((3,), 6.0 if index else 12.0))


def doubled(gradient):
    return gradient * 2


def hooked(tensor):
    tensor.register_hook(doubled)
    return tensor


def written_after(w):
    y = w * 2
    row = hooked(y[0])
    row.mul_(3)
    return y * 1


def base_written_after(w):
    y = w * 2
    row = hooked(y[0])
    y.mul_(3)
    return y + row


def parts(w):
    one, other = (w * 2).split(2, 1)
    return hooked(one).sum() + other.sum() + sum(map(hooked, w.unbind(0)))


VIEWS = {
    "row of an argument": lambda w: hooked(w[0]) * 3 + w.sum(),
    "each row": lambda w: sum([hooked(row).sum() for row in w]),
    "of a result": lambda w: hooked((w * 2).view(-1)) * 3,
    "transposed": lambda w: hooked((w * 2).t()) @ w,
    "expanded": lambda w: hooked(w[:, :1].expand(2, 4)) * 2,
    "view of a view": lambda w: hooked(w[0][:2]) * 3 + hooked(w.view(-1))[:2],
    "parts": parts,
    "written after": written_after,
    "base written after": base_written_after,
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", VIEWS)
def test_on_a_view(name, backend):
    check(
        Program(VIEWS[name], calls=3, has_gradients=True, fullgraph=True, backend=backend, is_exact=False), leaf(2, 4)
    )


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_on_a_view_beside_its_base(backend):
    def fn(w):
        y = w * 2
        return hooked(y.view(-1)) * 3, y, y.view(-1)

    check(Program(fn, has_gradients=True, fullgraph=True, backend=backend, is_exact=False), leaf(2, 4))


LEAVING = {
    "row": lambda w: hooked((w * 2)[0]),
    "row of an argument": lambda w: (hooked(w[0]), w * 2),
    "view of it": lambda w: hooked((w * 2)[0])[1:],
    "part of it": lambda w: hooked((w * 2)[0]).split(1)[1],
    "in a list": lambda w: [hooked((w * 2).view(-1))],
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", LEAVING)
def test_on_a_view_that_leaves_the_graph(name, backend):
    check(
        Program(LEAVING[name], has_gradients=True, backend=backend, is_exact=False), leaf(2, 4), graphs=(1, 2), breaks=1
    )


@checked(leaf(), graphs=2, breaks=1)
def test_of_another_shape(w):
    y = w * 2
    y.register_hook(lambda gradient: gradient.sum())
    return y * 3


@pytest.mark.parametrize("returned", ["used", "returned", "both", "view"])
def test_on_a_result_in_a_compiler(returned):
    def fn(w):
        y = w.sin()
        y.register_hook(lambda gradient: gradient * gradient)
        if returned == "used":
            return (y * 3).exp()
        if returned == "returned":
            return y
        return (y * 3, y) if returned == "both" else (y * 3, y, y.view(3, 1))

    check(Program(fn, has_gradients=True, fullgraph=True, backend="aot_eager", is_exact=False), leaf())


def test_on_a_result_with_a_closure_over_what_stays():
    def fn(w, scale, mask):
        y = w * 2
        limit = scale / 2
        y.register_hook(lambda gradient: (gradient * scale).clamp(-limit, limit))
        y.register_hook(lambda gradient: gradient * mask if mask is not None else gradient)

        def named(gradient, factor=scale, *, shift=mask):
            return gradient * factor + shift

        y.register_hook(named)
        return y * 3

    others = [(leaf(seed=1), 3.0, tensor(3, seed=2)), (leaf(seed=1), 4.0, tensor(3, seed=3))]
    check(with_gradients(fn), leaf(), 2.0, tensor(3, seed=1), others=others)
    assert dl.counters.graph_breaks == 0


@checked(leaf(), 2, others=[(tensor(size, grad=True), n) for size, n in ((4, 3), (5, 4), (6, 5))])
@with_gradients
def test_on_a_result_with_a_closure_over_sizes(w, n):
    y = w * 2
    count = w.shape[0]
    y.register_hook(lambda gradient: gradient / count + n)
    return y.sin()


def test_on_a_result_with_a_closure_that_is_written_to():
    def by_a_function(w):
        factor = 2

        def change():
            nonlocal factor
            factor = 7

        y = w * 2
        y.register_hook(lambda gradient: gradient * factor)
        z = y * 3
        z.register_hook(lambda gradient: change())
        return z

    def in_a_loop(w):
        for factor in (2, 3):
            y = w * 2
            y.register_hook(lambda gradient: gradient * factor)  # noqa: B023
            w = y * 3
        return w

    def in_a_handler(w):
        factor = 2
        try:
            y = w * 2
            y.register_hook(lambda gradient: gradient * factor)
            if y.shape[0] == 3:
                raise ValueError
        except ValueError:
            factor = 4
        return y

    def after_a_break(w):
        factor = 2
        y = w * 2
        y.register_hook(lambda gradient: gradient * factor)
        print("break")
        factor = 3
        return y

    def by_a_function_made_before_a_break(w):
        factor = 2

        def change():
            nonlocal factor
            factor = 7

        print("break")
        y = w * 2
        y.register_hook(lambda gradient: gradient * factor)
        change()
        return y

    for fn in (by_a_function, in_a_loop, in_a_handler, after_a_break, by_a_function_made_before_a_break):
        check(with_gradients(fn), leaf(), graphs=None, breaks=None)


def test_on_a_result_with_a_closure_over_what_may_change():
    class Holder:
        scale = 2

    def program():
        holder, factors, outer = Holder(), [2.0], 3

        def fn(w):
            y = w * 2
            y.register_hook(lambda gradient: gradient * holder.scale)
            y.register_hook(lambda gradient: gradient * factors[0])
            y.register_hook(lambda gradient: gradient * outer)
            z = y * 3
            holder.scale = 5
            factors[0] = 4.0
            return z

        def change():
            nonlocal outer
            outer = 9

        def both(w):
            z = fn(w)
            change()
            return z

        return both

    check(built(with_gradients(program)), leaf(), graphs=None, breaks=None)


@checked(leaf(), tensor(3, seed=1), 2.0)
@with_gradients
@without_breaks
@compiled_by("aot_eager")
@approximate
def test_on_a_result_with_a_closure_in_a_compiler(w, mask, scale):
    y = w.sin()
    copy = mask.exp()
    y.register_hook(lambda gradient: gradient * copy * scale + mask)
    copy.mul_(2)
    return (y * 3).exp()
