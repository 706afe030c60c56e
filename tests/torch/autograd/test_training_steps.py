"""Steps of training: optimizers, accumulation, autocast, checkpoints, random numbers, statistics, loss curves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from programs import Program, check, tensor
from small_models import ResNetLike
from training_checks import check_training, gradients, mlp, trained, weights
from weights import seeded

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
import training  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors on many threads wait for each other where several tests run at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batches(count=3):
    return [(tensor(5, 3, seed=seed), tensor(5, 2, seed=seed + 20)) for seed in range(count)]


# -- the loop around ---------------------------------------------------------------------------------------------------


@trained()
def test_a_loop(wrap):
    module, losses = mlp(), []
    compiled, optimizer = wrap(module), torch.optim.AdamW(module.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for x, y in batches(4):
        optimizer.zero_grad()
        loss = functional.mse_loss(compiled(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return losses, weights(module), gradients(module)


@trained()
def test_optimizer_in_the_backward(wrap):
    module, losses = mlp(), []
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in module.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in module.parameters():
        each.register_post_accumulate_grad_hook(update)
    compiled = wrap(module)
    for x, y in batches():
        loss = functional.mse_loss(compiled(x), y)
        loss.backward()
        losses.append(loss.detach())
    return losses, weights(module)


# -- steps compiled ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", ["step", "step and zero_grad"])
def test_the_optimizer_compiled(compiled):
    def body(wrap):
        module = mlp()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)

        def both():
            optimizer.step()
            optimizer.zero_grad()

        step = wrap(optimizer.step if compiled == "step" else both)
        for x, _ in batches():
            module(x).pow(2).mean().backward()
            step()
            if compiled == "step":
                optimizer.zero_grad()
        return weights(module), gradients(module)

    check_training(body, graphs=None, breaks=None, rtol=1e-4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_loss_and_step_in_one_function(backend):
    def body(wrap):
        module = mlp()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)

        def step(x, y):
            loss = functional.mse_loss(module(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        step = wrap(step)
        return [step(x, y) for x, y in batches(4)], weights(module), gradients(module)

    check_training(body, backend=backend, graphs=None, breaks=None, rtol=1e-4)


# -- autocast ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [True, False])
def test_autocast_and_grad_scaler(inside):
    def body(wrap):
        module, losses = mlp(), []
        optimizer, scaler = torch.optim.SGD(module.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=256.0)

        def forward(x, y):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
                found = module(x)
            return functional.mse_loss(found.float(), y), found.dtype

        forward = wrap(forward)
        for x, y in batches():
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
                loss, dtype = forward(x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            losses.append((loss.detach(), dtype))
        return losses, weights(module), scaler.get_scale()

    check_training(body)


@trained(graphs=None, breaks=None)
def test_a_step_with_a_grad_scaler_that_skips_it(wrap):
    module = mlp()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=1)

    def step(x, factor):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = module(x).float().pow(2).mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = wrap(step)
    scales = []
    for factor in (1.0, float("inf"), 1.0):
        step(tensor(5, 3), factor)
        scales.append(scaler.get_scale())
    return scales, weights(module)


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_with_dropout(reentrant):
    def fn(module, x):
        return checkpoint(module, x, use_reentrant=reentrant).pow(2).sum()

    module = mlp(nn.Dropout(0.5), seeded(nn.Linear(2, 2)))
    graphs = None if reentrant else 1
    check(
        Program(fn, has_gradients=True, backend="aot_eager", is_exact=False),
        module,
        tensor(5, 3, grad=True),
        graphs=graphs,
    )


def test_checkpoints_of_blocks_and_in_each_other():
    def fn(blocks, x):
        for block in blocks:
            inner = checkpoint(lambda v: v.sin() * 2, x, use_reentrant=False)
            x = checkpoint(block, inner, use_reentrant=False)
        return x.sum()

    blocks = nn.ModuleList([mlp(nn.Dropout(0.2), seeded(nn.Linear(2, 3))) for _ in range(3)])
    check(Program(fn, has_gradients=True, backend="aot_eager", is_exact=False), blocks, tensor(5, 3, grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_checkpoint_around_what_is_compiled(before, reentrant, backend):
    def body(wrap):
        module = mlp(nn.Tanh(), nn.Linear(2, 2))
        compiled = wrap(module)
        if before:
            compiled(tensor(5, 3, grad=True)).sum().backward()
        for seed in range(2):
            x = tensor(5, 3, seed=seed, grad=True)
            y = checkpoint(compiled, x, use_reentrant=reentrant)
            compiled(x).sum().backward()  # between a forward and what recomputes it
            y.pow(2).sum().backward()
        return x.grad, gradients(module)

    # Before torch 2.13 a backward leaves names out of dispatch: code that it runs may be translated again for that.
    graphs = (2 if reentrant else 1) if torch.__version__ >= "2.13" else None
    check_training(body, backend=backend, graphs=graphs, rtol=1e-4, atol=1e-5)


# -- random numbers and statistics -------------------------------------------------------------------------------------


def test_dropout_draws_what_eager_draws():
    module = mlp(nn.Dropout(0.3), seeded(nn.Linear(2, 2)), nn.AlphaDropout(0.2))
    others = [(x,) for x, _ in batches()]
    check(
        Program(module, has_gradients=True, backend="aot_eager", is_exact=False),
        tensor(5, 3),
        others=others,
        all_graphs=1,
    )


@trained(graphs=2, rtol=1e-4, atol=1e-5)
def test_batch_norm_follows_the_batches(wrap):
    module = seeded(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)
        )
    )
    compiled = wrap(module)
    for seed in range(3):
        compiled(tensor(2, 3, 8, 8, seed=seed)).pow(2).mean().backward()
    module.eval()
    return gradients(module), dict(module.named_buffers()), compiled(tensor(2, 3, 8, 8)).detach()


# -- through Inductor --------------------------------------------------------------------------------------------------


@trained(backend="inductor", rtol=1e-3, atol=1e-4)
def test_inductor_trains(wrap):
    module = ResNetLike()
    seeded(module)
    compiled, losses = wrap(module), []
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for seed in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(compiled(tensor(4, 3, 16, 16, seed=seed)), torch.tensor([0, 1, 2, 3]))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, dict(module.named_buffers())


@trained(backend="inductor", options={"fallback_random": True}, rtol=1e-4, atol=1e-5)
def test_inductor_draws_as_eager_where_it_is_told_to(wrap):
    module = mlp(nn.Dropout(0.5), nn.Linear(2, 2))
    loss = wrap(module)(tensor(5, 3)).pow(2).mean()
    loss.backward()
    return loss.detach(), gradients(module)


# -- loss curves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, breaks", [("gpt2", True), ("resnet", False)])
def test_loss_curves(name, breaks):
    pytest.importorskip("transformers")
    curve = training.compare(name, steps=5, backend="aot_eager", device="cpu", breaks=breaks)
    assert curve.difference < 1e-5 * max(curve.eager), curve
    assert curve.eager[0] > curve.eager[-1], "it learns"
    assert (dl.counters.graph_breaks > 0) is breaks
