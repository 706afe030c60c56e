"""Programs whose tensors are on a GPU and whose numbers are on the host."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from sweeps import sweep

pytestmark = [pytest.mark.on_cpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]

OPERATORS = {
    "clamp_max": lambda x, f: x.clamp(max=f),
    "clamp_both": lambda x, f: torch.clamp(x, -f, f),
    "clamp_constant": lambda x, f: x.clamp(0.1, f),
    "lerp": lambda x, f: torch.lerp(x, x * 2, f),
    "where": lambda x, f: torch.where(x > f, x, f),
    "arithmetic": lambda x, f: (x * f + f - x / f) ** 2,
    "full": lambda x, f: torch.full((2,), f, device="cuda") + torch.full_like(x[:, :2], f),
    "tensor": lambda x, f: torch.tensor(f, device="cuda") * x,
    "tensor_of_list": lambda x, f: torch.tensor([f, 2.0, 1.0], device=x.device) * x,
    "new_tensor": lambda x, f: x.new_tensor([f, 1.0, 3.0]) + x,
    "fill": lambda x, f: x.clone().fill_(1.0) * f,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPERATORS)
def test_floats_that_change(name, backend):
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).cuda()
    sweep(OPERATORS[name], [(x, f) for f in (0.5, 0.3, 0.7, 0.9)], graphs=2, backend=backend)


def test_floats_that_change_through_inductor():
    compiled = dl.compile(lambda x, f: torch.clamp(x, -f, f) + torch.tensor([f], device=x.device), fullgraph=True)
    x = torch.randn(5, 3).cuda()
    for f in (0.5, 0.3, 0.7):
        torch.testing.assert_close(compiled(x, f), torch.clamp(x, -f, f) + f)
    assert dl.counters.graphs == 2


def test_gradients_of_bounds_that_change():
    def fn(x, f):
        return (x.clamp(-f, f) * 2).sum()

    compiled = dl.compile(fn, backend="aot_eager", fullgraph=True)
    for f in (0.5, 0.3, 1.0):
        x = torch.tensor([-1.0, -0.5, 0.3, 1.0, 2.0], device="cuda", requires_grad=True)
        (expected,), (found,) = (torch.autograd.grad(each(x, f), x) for each in (fn, compiled))
        assert torch.equal(found, expected)
