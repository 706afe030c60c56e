"""Runs a training loop in eager and compiled, and compares all the state that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import dynamo_lite as dl
from backend_reference import assert_backends_result
from programs import decorator_for
from weights import seeded

Wrap = Callable[[Any], Any]


def mlp(*more: nn.Module) -> nn.Sequential:
    """Creates a model of three features and two outputs."""
    return seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), *more))


def gradients(module: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: each.grad for name, each in module.named_parameters()}


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: each.detach() for name, each in module.named_parameters()}


def observe(body: Callable[[Wrap], Any], wrap: Wrap) -> tuple[Any, torch.Tensor, bool]:
    torch.manual_seed(0)
    found = body(wrap)
    return found, torch.get_rng_state(), torch.is_grad_enabled()


def _compare(compiled: Any, eager: Any, where: str, tolerances: dict[str, float]) -> None:
    if isinstance(eager, torch.Tensor):
        assert isinstance(compiled, torch.Tensor), f"{where}: {compiled!r} compiled, a tensor in eager"
        assert compiled.requires_grad == eager.requires_grad, f"{where}: requires_grad"
        torch.testing.assert_close(compiled, eager, msg=lambda told: f"{where}: {told}", **tolerances)
    elif isinstance(eager, (list, tuple)):
        assert type(compiled) is type(eager) and len(compiled) == len(eager), where
        for index, (one, other) in enumerate(zip(compiled, eager, strict=True)):
            _compare(one, other, f"{where}[{index}]", tolerances)
    elif isinstance(eager, dict):
        assert list(compiled) == list(eager), where
        for key, value in eager.items():
            _compare(compiled[key], value, f"{where}[{key!r}]", tolerances)
    else:
        assert compiled == eager, f"{where}: {compiled!r} compiled, {eager!r} in eager"


def check_training(
    body: Callable[[Wrap], Any],
    *,
    backend: str = "aot_eager",
    graphs: int | None = 1,
    breaks: int | None = 0,
    options: dict[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Run ``body(wrap)``, which wraps what is to be compiled and returns all that can be seen, both ways.

    ``graphs``, ``breaks``: how many there are in all; None: whatever."""
    eager = observe(body, lambda fn: fn)
    dl.reset()
    dl.counters.reset()
    compiled = observe(body, lambda fn: dl.compile(fn, backend=backend, options=options))
    told = f"{dl.counters.graphs} graphs, {dl.counters.graph_breaks} breaks: {dict(dl.counters.break_reasons)}"
    assert graphs is None or dl.counters.graphs == graphs, told
    assert breaks is None or dl.counters.graph_breaks == breaks, told

    def compare(found: Any, expected: Any) -> None:
        _compare(found, expected, "result", {"rtol": rtol, "atol": atol})

    assert_backends_result(compiled, eager, lambda wrap: observe(body, wrap), backend, compare, options=options)


trained = decorator_for(check_training)
