"""Gradients through AOTAutograd: writes, views, aliases, several backwards, hooks, functions with their own rules."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Program, approximate, check, checked, compiled_by, ints, leaf, tensor, with_gradients
from training_checks import check_training, gradients, mlp, trained
from weights import seeded


def through_aot(*args, **counts):
    """Checks a program and its gradients as AOTAutograd compiles them."""
    return lambda fn: checked(*args, **counts)(with_gradients(compiled_by("aot_eager")(approximate(fn))))


# -- writes ------------------------------------------------------------------------------------------------------------


@trained()
def test_an_input_with_a_history_is_written(wrap):
    w = leaf(4)
    x = w * 1

    def fn(x):
        x[1:3].mul_(2)
        return x.view(2, 2).sin(), x

    y, same = wrap(fn)(x)
    y.sum().backward()
    return y.detach(), x.detach(), w.grad, same is x


@through_aot(leaf(3, 3))
def test_results_and_what_is_between_are_written(x):
    y = x * 2
    y[0] = 5
    v = y[1:]
    v.mul_(3).add_(1)
    z = (y @ y).relu_()
    return y, v, z


@trained(graphs=1, breaks=1)
def test_two_inputs_share_memory_and_one_is_written(wrap):
    def fn(a, b):
        a.add_(1)
        return a * b

    w = leaf(2, 3)
    x = w * 1
    y = wrap(fn)(x, x[:])
    y.sum().backward()
    return y.detach(), x.detach(), w.grad


def test_one_tensor_is_two_inputs():
    x = leaf(3)
    program = Program(lambda a, b: (a * 2 + b.sin()).sum(), has_gradients=True, backend="aot_eager", is_exact=False)
    check(program, x, x, others=[(x, leaf(3, seed=1))], all_graphs=2)


# -- what comes out ----------------------------------------------------------------------------------------------------


@through_aot(leaf(2, 3))
def test_views_come_out(x):
    y = x * 2
    return y, y.view(-1), y.t(), x.view(-1), x[0], x.detach()


@pytest.mark.parametrize("first", [0, 3])
def test_gradients_come_in_any_layout(first):
    def body(wrap):
        found = []
        gradients = [tensor(6, 6), tensor(6, 6).t(), torch.ones(()).expand(6, 6), tensor(12, 6)[::2]]
        for gradient in gradients[first:] + gradients[:first]:
            x = leaf(4, 6)
            wrap(lambda x: x.t() @ x)(x).backward(gradient)
            found.append(x.grad)
        return found

    check_training(body)  # one graph: the code is the same in each round


@through_aot(torch.complex(tensor(3), tensor(3, seed=1)).requires_grad_())
def test_complex_numbers(x):
    return (x * x.conj()).abs().sum() + (x * x).imag.sum()


def test_sparse_gradients_of_an_embedding():
    table = seeded(nn.Embedding(7, 3, sparse=True))
    check(with_gradients(compiled_by("aot_eager")(table)), ints(4, high=7))


# -- several backwards -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_retain_graph_with_symbolic_sizes(backend):
    def fn(x, w):
        return ((x @ w).tanh().sin() * x.size(0)).sum()

    compiled = dl.compile(fn, backend=backend, dynamic=True)
    for n in (4, 6):
        found = []
        for each in (fn, compiled):
            x, w = leaf(n, 5), leaf(5, 3)
            loss = each(x, w)
            loss.backward(retain_graph=True)
            loss.backward(retain_graph=True)
            loss.backward()
            found.append((x.grad, w.grad))
        torch.testing.assert_close(*found)


@trained(graphs=2, breaks=1)
def test_retain_graph_across_a_break(wrap):
    module = mlp()

    def fn(x):
        y = module[0](x)
        dl.graph_break()
        return module[2](module[1](y)).sum()

    loss = wrap(fn)(tensor(5, 3))
    loss.backward(retain_graph=True)
    loss.backward()
    return gradients(module)


def test_a_second_backward_without_it_is_torchs_error():
    loss = dl.compile(lambda x: (x**3).sum(), backend="aot_eager")(leaf(3))
    loss.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()


def test_double_backward_is_refused_by_aot_and_done_by_eager():
    def second(backend):
        x = leaf(3)
        loss = dl.compile(lambda x: x.sin().sum(), backend=backend)(x)
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad(gradient.sum(), x)[0]

    assert torch.allclose(second("eager"), -leaf(3).sin())
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        second("aot_eager")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_a_leaf_is_written_to_before_gradients_are_on(backend):
    def fn(w, x):
        w.mul_(0.5)
        with torch.enable_grad():
            return (w * x).sum()

    def over_a_break(w, x):
        with torch.no_grad():
            y = x + 1
            torch._dynamo.graph_break()
            w.mul_(0.5)
        return (w * y).sum()

    for program, grad_mode in ((fn, False), (over_a_break, True)):
        found = []
        for call in (program, dl.compile(program, backend=backend)):
            w = leaf(3)
            with torch.set_grad_enabled(grad_mode):
                out = call(w, tensor(3, seed=1))
            out.backward()
            found.append((w.detach(), w.grad))
        assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


# -- hooks -------------------------------------------------------------------------------------------------------------


@trained(graphs=2, breaks=1)
def test_gradients_retained_inside(wrap):
    def fn(x):
        y = x * 2
        y.retain_grad()
        return y, y.sin().sum()

    x = leaf(3)
    y, loss = wrap(fn)(x)
    loss.backward()
    return x.grad, y.grad


@trained(graphs=1)
def test_hooks_around_what_was_compiled_without_them(wrap):
    x, packed = leaf(3), []
    fn = wrap(lambda x: (x.sin() + x.cos() * x.exp()).relu())
    fn(x).sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: packed.append(1) or saved.to(torch.bfloat16), lambda saved: saved.to(torch.float32)
    ):
        fn(x).sum().backward()
    with torch.autograd.graph.save_on_cpu():
        fn(x).sum().backward()
    return x.grad, len(packed)


@trained(graphs=1)
def test_what_autograd_saves_kept_elsewhere(wrap):
    x, weight = leaf(3), leaf(3)
    fn = wrap(lambda x: (x * weight).exp().sin())
    with torch.autograd.graph.save_on_cpu():
        y = fn(x)
    y.sum().backward()
    return x.grad, weight.grad


@through_aot(leaf(3), graphs=3)
def test_kept_elsewhere_of_a_part(x):
    y = x.sin()
    with torch.autograd.graph.save_on_cpu():
        y = y.exp().cos()
    return y * x


# -- rules of their own ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("learns_input", [False, True])
def test_recurrent_layers_before_batch_norm(kind, learns_input, caplog):
    def body(wrap):
        recurrent = kind(3, 4, batch_first=True)
        for each in recurrent.parameters():
            nn.init.constant_(each, 0.1)
        norm = nn.BatchNorm1d(4)
        fn = wrap(lambda x: norm(recurrent(x)[0].transpose(1, 2)).pow(2).sum())
        x = tensor(2, 5, 3, grad=learns_input)
        for _ in range(2):
            fn(x).backward()
        return gradients(recurrent), gradients(norm), dict(norm.named_buffers()), x.grad

    with caplog.at_level(logging.WARNING, "dynamo_lite.breaks"):
        check_training(body, rtol=1e-4, atol=1e-5)
    assert not caplog.records, "the graph ran"


@pytest.mark.parametrize("detached", [lambda grad: grad.detach_(), lambda grad: grad.requires_grad_(False)])
def test_gradients_are_detached_and_zeroed(detached):
    def body(wrap):
        def fn():
            for each in model.parameters():
                if each.grad is not None:
                    detached(each.grad)
                    each.grad.zero_()

        model, run = seeded(nn.Linear(3, 2)), wrap(fn)
        for index in range(3):
            run()
            model(tensor(4, 3, seed=index)).sum().backward()
        return gradients(model)

    check_training(body, backend="eager", rtol=0, atol=0)


def test_detached_in_place():
    def fn(x):
        same = x.detach_()
        return same is x, x * 2, x.requires_grad

    compiled = dl.compile(fn, backend="eager")
    for make in (
        lambda: tensor(3),
        lambda: tensor(3, grad=True),
        lambda: tensor(3, grad=True) * 2,
        lambda: tensor(4)[1:],
    ):
        found = []
        for run in (fn, compiled):
            x = make()
            try:
                found.append([*map(str, run(x)), x.requires_grad, x.is_leaf])
            except RuntimeError as error:
                found.append([str(error)])
        assert found[0] == found[1]
    check(lambda x: fn(x[1:]), tensor(4), graphs=None)
