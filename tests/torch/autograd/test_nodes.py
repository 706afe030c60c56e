"""What programs ask of autograd's graph: ``grad_fn`` and what is behind it."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def leaf(*shape, seed=0):
    return tensor(*shape or (3,), grad=True, seed=seed)


def test_whether_there_is_one():
    def fn(x, y):
        z = x * 2
        if z.grad_fn is not None:
            z = z + 1
        if x.grad_fn is None and not y.detach().grad_fn:
            z = z * 2
        if z.grad_fn:
            z = z * 3
        with torch.no_grad():
            return z, (z * 2).grad_fn

    check(fn, leaf(), leaf(), operators=6, backward=True)


@BACKENDS
def test_its_name(backend):
    def fn(x):
        y = (x * 2).sum()
        node = y.grad_fn
        return type(node).__name__, node.__class__.__name__, node.name(), y.grad_fn is node, y.grad_fn == node

    assert dl.compile(fn, backend=backend, fullgraph=True)(leaf()) == fn(leaf())


@BACKENDS
def test_what_is_behind_it(backend):
    def fn(x, z):
        y = ((x * 2).sin() + z.cos()).sum()
        names, leaves, waiting = [], [], [y.grad_fn]
        while waiting:
            node = waiting.pop()
            names.append(node.name())
            if hasattr(node, "variable"):
                leaves.append(node.variable)
            waiting += [before for before, _ in node.next_functions if before is not None]
        return names, [each is x for each in leaves], sum(each.sum() for each in leaves)

    x, z = leaf(), leaf(seed=1)
    found, expected = dl.compile(fn, backend=backend, fullgraph=True)(x, z), fn(x, z)
    assert found[:2] == expected[:2] and torch.equal(found[2], expected[2])


def test_after_a_write():
    def fn(x):
        y = x * 2
        before = y.grad_fn
        y.add_(1)
        after = y.grad_fn
        return before.name(), after.name(), before is after, after.next_functions[0][0] is before, y

    check(fn, leaf(), backward=True)


def test_of_views_that_are_written_to():
    def fn(x):
        y = x * 1
        z = y.view(-1)
        z.add_(1)
        w = z * 2
        return y.grad_fn.name(), z.grad_fn.name(), w.grad_fn.next_functions[0][0].name(), w

    check(fn, leaf(), graphs=(1, 2), breaks=(1, 6), backward=True)


def test_of_several_results():
    def fn(x):
        one, other = x.split(2, 1)
        return one.grad_fn.name(), one.grad_fn is other.grad_fn, one * other

    check(fn, leaf(3, 4), backward=True)


def test_of_an_argument():
    def fn(x):
        node = x.grad_fn
        return x * 3, node.name(), len(node.next_functions), node.next_functions[0][0].variable * 2

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for x in (leaf() * 2, leaf(seed=1) * 3):
        found, expected = compiled(x), fn(x)
        assert found[1:3] == expected[1:3] and torch.equal(found[3], expected[3])
    assert dl.counters.graphs == 1


def test_of_arguments_of_other_operators():
    def fn(x):
        return x * 3, x.grad_fn.name()

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert [compiled(each)[1] for each in (leaf() * 2, leaf().sin())] == ["MulBackward0", "SinBackward0"]


def test_what_is_behind_the_graph():
    def fn(x):
        y = x * 3
        return y, y.grad_fn.next_functions[0][0].name()

    found = dl.compile(fn, backend="eager")(leaf().sin())
    assert found[1] == "SinBackward0"


def test_of_an_argument_that_is_written_to():
    def fn(x):
        x.add_(1)
        return x.grad_fn.name(), x.sin()

    compiled = dl.compile(fn, backend="eager")
    assert compiled(leaf() * 2)[0] == "AddBackward0"


def test_returned():
    def fn(x):
        y = x * 2
        return y, y.grad_fn

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        y, node = compiled(leaf())
        assert node is y.grad_fn and node.name() == "MulBackward0"


def test_returned_after_a_write():
    def fn(x):
        y = x * 2
        node = y.grad_fn
        y.sin_()
        return y, node

    y, node = dl.compile(fn, backend="eager")(leaf())
    assert y.grad_fn.name() == "SinBackward0" and node.name() == "MulBackward0"


def test_with_a_hook():
    def program():
        seen = []

        def fn(x):
            y = x * 2
            y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
            y.sum().backward()
            return seen

        return fn

    check(program, leaf(), graphs=(1, 3), breaks=(1, 4), build=True)


def test_of_sizes_that_differ():
    def fn(x):
        y = (x * x.shape[0]).view(-1)
        return y.grad_fn.name(), y

    check(fn, leaf(), others=[(leaf(5),), (leaf(7),)], backward=True)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


def test_a_function_goes_by_its_name():
    def fn(x):
        y = Square.apply(x)
        return Square.apply(y), y

    y, before = dl.compile(fn, backend="eager", fullgraph=True)(leaf())
    assert y.grad_fn.name() == "SquareBackward"
    assert y.grad_fn.next_functions[0][0].name() == "SquareBackward"
    with pytest.raises(RuntimeError, match="output 0 of Square"):
        before.detach().mul_(2)
        y.sum().backward()


def test_a_function_inside():
    def fn(x):
        y = Square.apply(x)
        return y.grad_fn.name(), y * 2

    check(fn, leaf(), graphs=2, breaks=(1, 3), backward=True)
