"""The programs of `devices` with Triton kernels: what people write around a launch. Without a GPU, Python runs them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS: list[tuple[str, Callable[..., Any], Callable[[], tuple[Any, ...]], str]] = []


def tensor(*shape: int, grad: bool = False) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    return made.requires_grad_(grad)


def two() -> tuple[torch.Tensor, torch.Tensor]:
    return tensor(1000), tensor(1000)


def row(
    name: str, make_args: Callable[[], tuple[Any, ...]] = two, needs: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.append((f"triton: {name}", fn, make_args, needs))
        return fn

    return add


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + tl.load(y_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def scale_kernel(x_ptr, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def row_kernel(x_ptr, out_ptr, stride, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + tl.program_id(0) * stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * columns + at, x / tl.sum(x * x, axis=0), mask=at < columns)


CONFIGS = [triton.Config({"BLOCK": 128}, num_warps=4), triton.Config({"BLOCK": 256}, num_warps=8)]
ONE = CONFIGS[:1] if DEVICE == "cpu" else CONFIGS  # measuring needs a device
tuned_add = triton.autotune(ONE, key=["n"])(add_kernel)
tuned_scale = triton.autotune(ONE, key=["n"], restore_value=["x_ptr"])(scale_kernel)
pruned_add = triton.autotune(
    CONFIGS,
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, args, **rest: [c for c in configs if c.num_warps == 4]},
)(add_kernel)
guessed_add = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"]) // 4})(add_kernel)
both_add = triton.autotune([triton.Config({}, num_warps=4)], key=["n"])(guessed_add)
KERNELS = {"add": add_kernel}
HOLDER = SimpleNamespace(kernel=add_kernel)


def blocks(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def added(x: torch.Tensor, y: torch.Tensor, kernel: Any, **constants: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[blocks](x, y, out, x.numel(), **constants)
    return out


@row("a tuple as grid")
def tuple_grid(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out * 2


@row("a function as grid")
def function_grid(x, y):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), BLOCK=128)
    return out * 2


@row("a constant by position")
def constant_by_position(x, y):
    out = torch.empty_like(x)
    add_kernel[(8,)](x, y, out, x.numel(), 128)
    return out * 2


@row("num_warps= at the launch")
def options_at_launch(x, y):
    return added(x, y, add_kernel, BLOCK=128, num_warps=8, num_stages=2)


@row("triton.autotune")
def autotuned(x, y):
    return added(x, y, tuned_add)


@row("triton.autotune, restore_value")
def restored(x, y):
    x = x * 1
    tuned_scale[blocks](x, 2.0, x.numel())
    return x + y


@row("triton.autotune, early_config_prune", needs="" if DEVICE == "cuda" else "needs CUDA")
def pruned(x, y):
    return added(x, y, pruned_add)


@row("triton.heuristics")
def heuristics(x, y):
    return added(x, y, guessed_add)


@row("triton.autotune over heuristics")
def tuned_heuristics(x, y):
    return added(x, y, both_add)


@row("kernels of a dict, an attribute, an argument")
def picked(x, y):
    return added(x, added(x, y, KERNELS["add"], BLOCK=128), HOLDER.kernel, BLOCK=128)


@row("an input that is mutated")
def mutated_input(x, y):
    scale_kernel[blocks](x, 2.0, x.numel(), BLOCK=128)
    return x + y


@row("views that are mutated", lambda: (tensor(8, 3, 32),))
def mutated_views(x):
    x = x * 1
    scale_kernel[(1,)](x[0, 1], 2.0, 32, BLOCK=32)
    add_kernel[(1,)](x[1, 0], x[1, 1], x[1, 2], 32, BLOCK=32)
    return x


@row("a float as argument", lambda: (tensor(1000), 0.5))
def scalar(x, factor):
    x = x + 1
    scale_kernel[blocks](x, factor, x.numel(), BLOCK=128)
    return x


@row("rows of any length", lambda: (tensor(16, 40),))
def rows(x):
    out = torch.empty_like(x)
    row_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], SIZE=triton.next_power_of_2(x.shape[1]))
    return out


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return added(x, x, add_kernel, BLOCK=128)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        return added(dy, dy, add_kernel, BLOCK=128)


@row("autograd.Function", lambda: (tensor(1000, grad=True),))
def function(x):
    return Doubled.apply(x * 3).sin()


class Scaled(torch.autograd.Function):
    """Both write into what they are given."""

    @staticmethod
    def forward(ctx, x):
        scale_kernel[blocks](x, 3.0, x.numel(), BLOCK=128)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        scale_kernel[blocks](dy, 3.0, dy.numel(), BLOCK=128)
        return dy


@row("autograd.Function, in place", lambda: (tensor(1000, grad=True),))
def function_in_place(x):
    return Scaled.apply(x.sin()).cos()


@torch.library.triton_op("dynamo_lite_benchmarks::added", mutates_args={})
def added_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel: Any = torch.library.wrap_triton(add_kernel) if DEVICE == "cuda" else add_kernel
    kernel[(8,)](x, y, out, x.numel(), BLOCK=128)
    return out


@row("torch.library.triton_op", needs="" if DEVICE == "cuda" else "needs CUDA")
def operator_of_library(x, y):
    return added_operator(x, y) * 2


def _has_descriptors() -> bool:
    return DEVICE == "cpu" or torch.cuda.get_device_capability() >= (9, 0)


@triton.jit
def block_kernel(x_desc, out_desc, ROWS: tl.constexpr):
    at = tl.program_id(0) * ROWS
    out_desc.store([at, 0], x_desc.load([at, 0]) * 2)


@row("tensor descriptors", lambda: (tensor(64, 64),), needs="" if _has_descriptors() else "needs sm_90")
def descriptors(x):
    from triton.tools.tensor_descriptor import TensorDescriptor

    out = torch.empty_like(x)
    source, target = TensorDescriptor.from_tensor(x, [16, 64]), TensorDescriptor.from_tensor(out, [16, 64])
    block_kernel[(4,)](source, target, ROWS=16)
    return out
