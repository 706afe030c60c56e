"""Triton kernels for the tests. Without a GPU, Python runs them (TRITON_INTERPRET, which conftest.py sets)."""

from __future__ import annotations

import numpy
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: F401

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu" and triton.__version__ < "3.7" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.5.0":
    raise ImportError("Triton before 3.7 can't interpret kernels with numpy 2.5")


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + tl.load(y_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def subtract(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x - tl.load(y_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def scale_(x_ptr, factor, n, BLOCK: tl.constexpr = 16):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


hooked = triton.jit(scale_.fn)
hooked.add_pre_run_hook(lambda *args, **kwargs: None)


@triton.jit
def add_or_multiply(x_ptr, y_ptr, out_ptr, n, MULTIPLIES: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if y_ptr is not None:
        y = tl.load(y_ptr + at, mask=at < n)
        x = x * y if MULTIPLIES else x + y
    if KIND == "twice":
        x = x * 2
    tl.store(out_ptr + at, x, mask=at < n)


@triton.jit
def double_blocks(x_desc, out_desc, ROWS: tl.constexpr):
    at = tl.program_id(0) * ROWS
    out_desc.store([at, 0], x_desc.load([at, 0]) * 2)


def blocks(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def benchmark(run, quantiles):
    """Replaces Triton's benchmark, which needs a device."""
    run()
    return [1.0] * len(quantiles)


def tuned(*blocks, key=("n",), **settings):
    """Applies `triton.autotune` with several values of BLOCK."""
    configs = [triton.Config({"BLOCK": each}, num_warps=2) for each in blocks]
    return triton.autotune(configs, list(key), do_bench=benchmark, **settings)


def only_16(configs, named_args, **kwargs):
    return [each for each in configs if each.kwargs["BLOCK"] == 16 and named_args["n"] > kwargs.get("least", 0)]


def cost(x_ptr, y_ptr, out_ptr, n, BLOCK, **kwargs):
    return abs(BLOCK - 16)


fixed_add = tuned(16)(add)
tuned_add = tuned(8, 16, 32)(add)
tuned_scale_ = tuned(8, 16, restore_value=["x_ptr"])(triton.jit(scale_.fn))
guessed_add = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"]) // 4})(add)
tuned_and_guessed_add = triton.autotune(
    [triton.Config({}, num_warps=each) for each in (2, 4)], ["n"], do_bench=benchmark
)(triton.heuristics({"BLOCK": lambda args: args["num_warps"] * 8})(add))
pruned_add = tuned(7, 16, 32, prune_configs_by={"early_config_prune": only_16})(add)
cheapest_add = tuned(7, 16, 9, prune_configs_by={"perf_model": cost, "top_k": 1})(add)
hooked_tuned = tuned(8, 16, pre_hook=lambda kwargs, reset_only=False: None)(triton.jit(scale_.fn))


@triton.heuristics({"KIND": lambda args: "twice" if args["n"] > 10 else "once"})
@tuned(16)
@triton.heuristics({"MULTIPLIES": lambda args: args["KIND"] == "twice"})
@triton.jit
def guessed_and_tuned(x_ptr, y_ptr, out_ptr, n, MULTIPLIES: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * y if MULTIPLIES else x + y, mask=at < n)


@triton.jit
def rows(x_ptr, out_ptr, row_stride, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    row = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns)
    tl.store(out_ptr + tl.program_id(0) * columns + at, row * 2, mask=at < columns)


@triton.jit
def warps(out_ptr, num_warps: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32) + num_warps)


def on_device(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cpu").to(DEVICE).requires_grad_(grad)
