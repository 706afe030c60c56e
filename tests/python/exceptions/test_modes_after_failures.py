"""Modes after a graph failed in nested contexts while somebody holds the error, and with it the graph's frames."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynamo_lite as dl
from programs import check, tensor

pytestmark = pytest.mark.fails_on_data

CONTEXTS = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "inference_mode": torch.inference_mode,
    "inference_mode off": lambda: torch.inference_mode(False),
    "autocast": lambda: torch.autocast("cpu"),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
    "autocast without cache": lambda: torch.autocast("cpu", dtype=torch.float16, cache_enabled=False),
    "sdpa_kernel": lambda: sdpa_kernel(SDPBackend.MATH),
    "device": lambda: torch.device("cpu"),
    "record_function": lambda: torch.profiler.record_function("part"),
}


def modes():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch._C._is_fwd_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.nn.attention._cur_sdpa_kernel_backends(),
        torch._C._len_torch_function_stack(),
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("outer", CONTEXTS)
def test_modes_while_the_error_is_held(outer, backend):
    before, held = modes(), []
    for inner in CONTEXTS:
        enter_outer, enter_inner = CONTEXTS[outer], CONTEXTS[inner]

        def fn(x, index):
            with enter_outer(), enter_inner():
                return x.index_select(0, index) * 2

        compiled = dl.compile(fn, backend=backend)
        compiled(torch.ones(3), torch.tensor([0]))
        with pytest.raises(IndexError) as caught:
            compiled(torch.ones(3), torch.tensor([7]))
        held.append(caught.value)
        assert modes() == before, inner
        held.pop()
        del caught
        assert modes() == before, inner


@pytest.mark.parametrize("outer, inner", list(itertools.product(["no_grad", "autocast", "inference_mode"], repeat=2)))
def test_modes_in_the_handler(outer, inner):
    enter_outer, enter_inner = CONTEXTS[outer], CONTEXTS[inner]
    read = dl.disable(modes)

    def fn(x, index):
        try:
            with enter_outer(), enter_inner():
                y = x.index_select(0, index) * 2
        except IndexError:
            return x.sin(), read()
        return y, read()

    for at in (0, 7, 0):
        check(fn, tensor(3), torch.tensor([at]), graphs=None, breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_write_into_an_ordinary_tensor_in_inference_mode(backend):
    def fn(x, index, found):
        x.add_(1)
        try:
            found.append(x.index_select(0, index))
        except IndexError:
            return x * 2
        return x

    compiled = dl.compile(fn, backend=backend)
    for index in (0, 7, 7, 0):
        results = []
        for each in (fn, compiled):
            x, found = torch.ones(3), []
            with torch.inference_mode():
                results.append((each(x, torch.tensor([index]), found).tolist(), x.tolist(), len(found)))
        assert results[0] == results[1]
