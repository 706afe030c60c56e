"""Programs with kernels that Triton compiles, as far as that goes without a device: their graphs don't run."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch

os.environ.pop("TRITON_INTERPRET", None)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

import dynamo_lite as dl  # noqa: E402
import kernels  # noqa: E402

driver.set_active(SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 80, 32)))
SCALE = 3


@triton.jit
def scale_(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * SCALE, mask=at < n)


@triton.jit
def write_two(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(y_ptr + at, mask=at < n), mask=at < n)
    tl.store(out_ptr + at, tl.load(y_ptr + at, mask=at < n), mask=at < n)


def compiled(fn):
    """With a backend whose graphs do nothing."""

    def backend(gm, inputs):
        (results,) = (node.args[0] for node in gm.graph.nodes if node.op == "output")
        return lambda *tensors: [torch.zeros(40) for _ in results]

    return dl.compile(fn, backend=backend, fullgraph=True)


def one_written_tensor():
    """Given as two arguments, of which one is written."""
    for arguments in ((0, 0, 1), (0, 1, 0), (0, 1, 1)):

        def fn(*tensors):
            kernels.add[(3,)](*(tensors[each] for each in arguments), 40, BLOCK=16)
            return tensors[0] * 2

        dl.counters.reset()
        compiled(fn)(torch.ones(40), torch.ones(40))
        assert dl.counters.graphs == 1


def two_written_tensors():
    def fn(x, y):
        write_two[(3,)](x, y, x, 40, BLOCK=16)

    with pytest.raises(dl.exc.Unsupported, match="DL0419: .* its argument out_ptr has, too"):
        compiled(fn)(torch.ones(40), torch.ones(40))


def guarded_global():
    global SCALE

    def fn(x):
        scale_[(3,)](x, 40, BLOCK=16)
        return x * 2

    run = compiled(fn)
    run(torch.ones(40))
    run(torch.ones(40))
    assert dl.counters.graphs == 1
    SCALE = 4
    with pytest.raises(dl.exc.Unsupported, match="the global SCALE has changed"):
        run(torch.ones(40))  # Triton itself raises
    SCALE = 3
    run(torch.ones(40))
    assert dl.counters.graphs == 1


def assigned_global():
    def fn(x):
        global SCALE
        SCALE = 5
        scale_[(3,)](x, 40, BLOCK=16)

    with pytest.raises(dl.exc.Unsupported, match="the global SCALE has changed"):
        compiled(fn)(torch.ones(40))
