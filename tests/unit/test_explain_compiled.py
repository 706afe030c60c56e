"""`dl.explain` of code that is already compiled, by dynamo_lite or by torch.compile."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl


def noisy(x):
    y = x + 1
    print("so far")
    return y * 2


class Noisy(torch.nn.Module):
    def forward(self, x):
        return noisy(x)


@pytest.mark.parametrize("compile", [dl.compile, torch.compile])
@pytest.mark.parametrize("fn", [noisy, Noisy()], ids=["function", "module"])
def test_compiled_function_is_explained_as_its_original(compile, fn):
    counters = pytest.importorskip("torch._dynamo.utils").counters
    counters.clear()
    found = dl.explain(compile(fn, backend="eager", fullgraph=True))(torch.ones(2))
    assert found.result.tolist() == [4.0, 4.0] and (found.graph_count, found.break_count) == (2, 1)
    assert counters["stats"]["unique_graphs"] == 0
