"""Gradients inside and around a program: requires_grad, .grad, backward, hooks, checkpoint."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import dynamo_lite as dl
from dynamo_lite.runtime import graph_functions
from programs import approximate, check, checked, leaf, tensor, with_gradients
from small_functions import Doubled


def leaf_with_grad():
    made = leaf(3)
    made.sum().backward()
    return made


# -- requires_grad and .grad -------------------------------------------------------------------------------------------


@checked(leaf(3), others=[(leaf_with_grad(),)], all_graphs=2)
def test_grad_is_read_where_there_is_one_and_where_there_is_none(x):
    if x.grad is None:
        return x * 2
    return x * 2 + x.grad


@checked(leaf_with_grad())
def test_grad_is_written_in_place(x):
    x.grad.mul_(2)
    x.grad += 1
    return x.grad.sum()


@checked(leaf_with_grad())
def test_grad_is_set_to_none(x):
    y = x.grad * 2
    x.grad = None
    return y, x.grad is None


@checked(leaf(3), tensor(3, seed=1))
def test_grad_is_set_to_an_argument(x, g):
    x.grad = g
    g.add_(1)
    return x.grad * 1


@checked(leaf(3), tensor(4), graphs=(1, 2), breaks=None)
def test_grad_of_the_wrong_shape_is_refused(x, g):
    try:
        x.grad = g
    except RuntimeError as error:
        return x * 2, str(error)[:20]
    return x


@checked(tensor(3))
def test_grad_of_a_result_is_none_and_warns(x):
    y = x * 2
    return y.grad is None, y


@checked(leaf_with_grad(), graphs=(1, 2), breaks=None)
def test_grad_deleted(x):
    del x.grad
    return x * 2


@checked(tensor(3), graphs=(1, 2), breaks=None)
def test_requires_grad_set_on_a_clone(x):
    y = x.clone().requires_grad_()
    return (y * 2).sum(), y.requires_grad, y.is_leaf


@checked(leaf(3), tensor(3), graphs=(1, 2), breaks=None)
@with_gradients
def test_requires_grad_set_to_what_it_is(x, y):
    x.requires_grad_(True)
    y.requires_grad_(False)
    return x * y


@checked(leaf(3))
@with_gradients
def test_no_grad_parts_and_enable_grad_parts(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = b * 2
    return a, b, c, a.requires_grad, b.requires_grad, c.requires_grad, torch.is_grad_enabled()


@checked(leaf(3), torch.sin, graphs=2, breaks=1)
@with_gradients
def test_non_leaf_argument(x, make):
    y = make(x)
    print(y.is_leaf)
    return y * 2, y.is_leaf, y.requires_grad


@checked(leaf(3), graphs=(0, 2), breaks=None)
def test_retain_grad_on_a_result(x):
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    return y.grad


@checked(tensor(3), graphs=(1, 2), breaks=None)
def test_buffer_made_inside(x):
    return torch.nn.Buffer(x * 2) + 1


@checked(leaf(3), graphs=(1, 3), breaks=None)
def test_backward_twice_with_retained_graph(x):
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad + 0


@checked(leaf(3), graphs=(0, 3), breaks=None)
@with_gradients
def test_anomaly_mode_and_disabled_saving(x):
    with torch.autograd.set_detect_anomaly(True):
        y = x * x
    return y + 1


# -- checkpoint --------------------------------------------------------------------------------------------------------


def block(x, w):
    return torch.relu(x @ w) * 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    def fn(x, w):
        return checkpoint(block, x + 1, w, use_reentrant=reentrant) * 3

    check(with_gradients(fn), leaf(3, 3), leaf(3, 3, seed=1))


def test_reentrant_checkpoints_of_a_module():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
            self.dropout = torch.nn.Dropout(0.5)

        def block(self, layer, x, factor):
            return self.dropout(torch.tanh(layer(x))) * factor, None, x.argmax()

        def forward(self, x):
            for layer in self.layers:
                x, nothing, at = checkpoint(self.block, layer, x, 2.0, use_reentrant=True)
            return x, nothing, at, x.requires_grad, at.requires_grad

    check(with_gradients(Net()), leaf(3, 4))


@checked(leaf(3, 3), leaf(3, 3, seed=1))
@with_gradients
def test_reentrant_checkpoint_without_gradients(x, w):
    with torch.no_grad():
        y = checkpoint(block, x, w, use_reentrant=True)
    return y, y.requires_grad, x * 2


@checked(tensor(3, 3), tensor(3, 3, seed=1), graphs=(0, 2), breaks=(1, 2))
def test_reentrant_checkpoint_of_what_has_no_gradient(x, w):
    return checkpoint(block, x, w, use_reentrant=True), x + 1


@pytest.mark.parametrize("returned", ["argument", "view", "constant", "list", "part"])
def test_reentrant_checkpoint_that_is_an_operator_in_more_than_its_values(returned):
    def body(x, c):
        y = x * 2
        return {"argument": (y, x), "view": (y, x[0]), "constant": (y, c), "list": [y, y + 1], "part": (y, c + 1)}[
            returned
        ]

    def fn(x, c):
        one, other = checkpoint(body, x, c, use_reentrant=True)
        return one, other, one.requires_grad, other.requires_grad, other is x, other is c

    check(with_gradients(fn), leaf(3), tensor(3), graphs=None)


def test_checkpoint_sequential():
    layers = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(4)))

    def fn(x):
        return checkpoint_sequential(layers, 2, x, use_reentrant=False)

    check(with_gradients(fn), leaf(2, 3), graphs=(1, 3), breaks=None)


def test_checkpoint_whose_function_breaks():
    def noisy(x):
        y = x * 2
        print("inside")
        return y.sin()

    check(with_gradients(lambda x: checkpoint(noisy, x + 1, use_reentrant=False) + 1), leaf(3), graphs=2, breaks=None)


@checked(leaf(3), [], graphs=(0, 2), breaks=None)
@with_gradients
def test_checkpoint_whose_function_has_effects(x, seen):
    def inner(a):
        seen.append("called")
        return a.sin() * 2

    return checkpoint(inner, x, use_reentrant=False)


@checked(leaf(3, 3), leaf(3, 3, seed=1))
@with_gradients
def test_checkpoint_in_a_checkpoint(x, w):
    def inner(a):
        return checkpoint(block, a, w, use_reentrant=False).tanh()

    return checkpoint(inner, x, use_reentrant=False)


def test_an_inner_checkpoint_saves_what_the_program_passes_to_it():
    """What it reads from outside instead is kept from the first run of the outer one. torch 2.11 pairs the tensors that
    it saves wrongly if nothing is passed."""
    graphs = []

    def nested(x, w):
        return checkpoint(lambda a: checkpoint(block, a, w, use_reentrant=False).tanh(), x, use_reentrant=False)

    def keep(gm, example_inputs):
        graphs.extend(each.graph for each in gm.modules() if isinstance(each, torch.fx.GraphModule))
        return gm

    dl.compile(nested, backend=keep, fullgraph=True)(leaf(3, 3), leaf(3, 3, seed=1))
    calls = [node for each in graphs for node in each.nodes if node.target is graph_functions.checkpoint]
    assert [node.args[2] for node in calls] == [(True, False), (True, True)]


@checked(leaf(3, 3), leaf(3, 3, seed=1))
@with_gradients
def test_checkpoint_under_autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        return checkpoint(block, x, w, use_reentrant=False)


@checked(tensor(3, grad=True))
@with_gradients
def test_detached_in_place(x):
    y = x * 2
    z = y * 5
    again = y.detach_()
    return y + 1, z, y.requires_grad, y.is_leaf, y.grad_fn, again is y, y * x


@checked(tensor(3, grad=True))
def test_detached_in_place_with_views(x):
    y = x * 2
    view = y[0]
    y.detach_()
    y.mul_(3)
    return y, view, view.requires_grad, y[1].requires_grad


@checked(tensor(3, grad=True), graphs=1, breaks=1)
def test_view_detached_in_place(x):
    y = x * 2
    view = y[0]
    try:
        view.detach_()
    except RuntimeError as error:
        return y, str(error)


def test_argument_detached_in_place():
    def fn(x):
        y = x * 2
        x.detach_()
        return y, x * 3

    check(fn, tensor(3), graphs=1)
    check(lambda x: fn(x * 2), tensor(3), graphs=1)
    check(lambda x: fn(x)[1], tensor(3, grad=True), graphs=2, breaks=1)


@checked(tensor(3))
def test_gradient_of_a_tensor_made_inside(x):
    y = torch.zeros(3)
    before = y.grad
    y.grad = x * 2
    y.grad.add_(1)
    z = y.grad + y
    w = torch.ones(3)
    w.grad = x
    del w.grad
    return before, y, z, w, w.grad, y.grad is z


@checked(tensor(3), graphs=1, breaks=1)
def test_gradient_that_does_not_fit_what_was_made_inside(x):
    y = torch.zeros(2)
    try:
        y.grad = x
    except RuntimeError as error:
        return y, str(error)


@pytest.mark.parametrize("norm", [2.0, float("inf")])
@pytest.mark.parametrize("foreach", [None, False])
def test_gradients_clipped(norm, foreach):
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3).to(dtype) for dtype in (torch.float32, torch.float64))

    def fn(layers, x):
        for index, each in enumerate(layers.parameters()):
            each.grad = torch.full_like(each, index) * x[0].to(each.dtype)
        total = torch.nn.utils.clip_grad_norm_(layers.parameters(), 1.0, norm, foreach=foreach)
        return total, [each.grad for each in layers.parameters()]

    check(approximate(fn), layers, tensor(3))


def test_gradients_of_several_types_clipped():
    kinds = (torch.bfloat16, torch.float32, torch.float16, torch.float64)
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3).to(kind) for kind in kinds)

    def fn(layers):
        for each in layers.parameters():
            each.grad = torch.ones_like(each)
        torch.nn.utils.clip_grad_value_(layers.parameters(), 0.5)
        total = torch.nn.utils.get_total_norm([each.grad for each in layers.parameters()])
        return total, [each.grad for each in layers.parameters()]

    check(approximate(fn), layers)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_apply_through_an_instance():
    instance = Doubled()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.doubled = instance

        def forward(self, x):
            return self.doubled.apply(x) + 1

    check(with_gradients(lambda x: instance.apply(x) + 1), tensor(3, grad=True), graphs=1, breaks=0)
    compiled, x = dl.compile(Net(), backend="eager"), tensor(3)
    assert torch.equal(compiled(x), x * 2 + 1)
    instance.apply = lambda x: x * 3
    assert torch.equal(compiled(x), x * 3 + 1)
