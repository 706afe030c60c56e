"""A small Llama with hand-written Triton kernels, in one graph: RMS norm, SwiGLU, cross-entropy. Trained beside eager.

    python examples/triton_kernels.py [--steps N] [--width N] [--layers N]

Without a GPU, Triton's interpreter runs the kernels (TRITON_INTERPRET=1): a few steps of a tiny model.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd import Function
from torch.nn import functional as F

import dynamo_lite as dl

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

DEVICE = "cuda" if ON_GPU else "cpu"

# -- RMS norm: a program for each row ----------------------------------------------------------------------------------


@triton.jit
def norm_forward(x_ptr, w_ptr, y_ptr, scale_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    w = tl.load(w_ptr + at, mask=at < columns, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(y_ptr + row * columns + at, x * scale * w, mask=at < columns)
    tl.store(scale_ptr + row, scale)


@triton.jit
def norm_backward(dy_ptr, x_ptr, w_ptr, scale_ptr, dx_ptr, dw_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + row * columns + at, mask=at < columns, other=0.0)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    w = tl.load(w_ptr + at, mask=at < columns, other=0.0)
    scale = tl.load(scale_ptr + row)
    mean = tl.sum(x * scale * w * dy, axis=0) / columns
    tl.store(dx_ptr + row * columns + at, (w * dy - x * scale * mean) * scale, mask=at < columns)
    tl.store(dw_ptr + row * columns + at, dy * x * scale, mask=at < columns)


class FusedNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
        x = x.contiguous()
        columns = x.shape[-1]
        y, scale = torch.empty_like(x), x.new_empty(x.numel() // columns)
        block = triton.next_power_of_2(columns)
        norm_forward[(scale.numel(),)](x, w, y, scale, columns, eps, BLOCK=block, num_warps=4)
        ctx.save_for_backward(x, w, scale)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, w, scale = ctx.saved_tensors
        dy = dy.contiguous()
        columns = x.shape[-1]
        dx, dw = torch.empty_like(x), torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        norm_backward[(scale.numel(),)](dy, x, w, scale, dx, dw, columns, BLOCK=block, num_warps=4)
        return dx, dw.view(-1, columns).sum(0), None


# -- SwiGLU: a program for each block of elements; the grid is a function of the block size ----------------------------


@triton.jit
def gate_forward(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + at, mask=at < n), tl.load(b_ptr + at, mask=at < n)
    tl.store(c_ptr + at, a * tl.sigmoid(a) * b, mask=at < n)


@triton.jit
def gate_backward(dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dc = tl.load(dc_ptr + at, mask=at < n)
    a, b = tl.load(a_ptr + at, mask=at < n), tl.load(b_ptr + at, mask=at < n)
    sigmoid = tl.sigmoid(a)
    tl.store(da_ptr + at, dc * b * sigmoid * (1 + a * (1 - sigmoid)), mask=at < n)
    tl.store(db_ptr + at, dc * a * sigmoid, mask=at < n)


def blocks(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


class FusedGate(Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        c = torch.empty_like(a)
        gate_forward[blocks](a, b, c, a.numel(), BLOCK=1024)
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    def backward(ctx: Any, dc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        da, db = torch.empty_like(a), torch.empty_like(b)
        gate_backward[blocks](dc.contiguous(), a, b, da, db, a.numel(), BLOCK=1024)
        return da, db


# -- cross-entropy: the forward computes the gradient, too -------------------------------------------------------------


@triton.jit
def entropy(logits_ptr, targets_ptr, losses_ptr, gradients_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    target = tl.load(targets_ptr + row)
    largest = tl.max(logits, axis=0)
    powers = tl.exp(logits - largest)
    total = tl.sum(powers, axis=0)
    chosen = tl.sum(tl.where(at == target, logits, 0.0), axis=0)
    tl.store(losses_ptr + row, (tl.log(total) + largest - chosen) / rows)
    gradients = (powers / total - tl.where(at == target, 1.0, 0.0)) / rows
    tl.store(gradients_ptr + row * columns + at, gradients, mask=at < columns)


class FusedEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        rows, columns = logits.shape
        losses, gradients = logits.new_empty(rows), torch.empty_like(logits)
        block = triton.next_power_of_2(columns)
        entropy[(rows,)](logits.contiguous(), targets, losses, gradients, rows, columns, BLOCK=block)
        ctx.save_for_backward(gradients)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.saved_tensors[0] * dloss, None


# -- the model ---------------------------------------------------------------------------------------------------------


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FusedNorm.apply(x, self.weight, 1e-6)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = Norm(width), Norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = (each * cos + torch.cat(each.chunk(2, -1)[::-1], -1) * sin for each in (q, k))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        h = self.after(x)
        return x + self.down(FusedGate.apply(self.gate(h), self.up(h)))


class Llama(nn.Module):
    def __init__(self, width: int, layers: int, words: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = Norm(width)
        self.size = width // heads

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The loss of predicting each token from those before it."""
        given, wanted = tokens[:, :-1], tokens[:, 1:]
        half = self.size // 2
        rates = 10000.0 ** (-torch.arange(half, device=tokens.device) / half)
        angles = torch.arange(given.shape[1], device=tokens.device)[:, None] * rates
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([-angles.sin(), angles.sin()], -1)
        x = self.embedding(given)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.norm(x) @ self.embedding.weight.T
        return FusedEntropy.apply(logits.flatten(0, 1), wanted.flatten())


def train(wrap: Callable[[nn.Module], Any], options: argparse.Namespace) -> tuple[list[float], float]:
    """The losses, and the milliseconds of a step without the first, which compiles."""
    torch.manual_seed(0)
    model = Llama(options.width, options.layers).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = wrap(model)
    tokens = torch.randint(256, (options.batch, options.length + 1), device=DEVICE)
    losses = []
    began = time.perf_counter()
    for step in range(options.steps):
        loss = run(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if not step:
            began = time.perf_counter()
    return losses, 1e3 * (time.perf_counter() - began) / max(options.steps - 1, 1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50 if ON_GPU else 3)
    parser.add_argument("--width", type=int, default=512 if ON_GPU else 32)
    parser.add_argument("--layers", type=int, default=4 if ON_GPU else 1)
    parser.add_argument("--length", type=int, default=256 if ON_GPU else 8)
    parser.add_argument("--batch", type=int, default=8 if ON_GPU else 2)
    parser.add_argument("--backend", default="inductor" if ON_GPU else "aot_eager")
    options = parser.parse_args(arguments)
    eager, eager_time = train(lambda model: model, options)
    dl.counters.reset()
    compiled, time_of_ours = train(lambda model: dl.compile(model, backend=options.backend, fullgraph=True), options)
    print(f"loss from {eager[0]:.4f} to {eager[-1]:.4f} in eager, to {compiled[-1]:.4f} compiled")
    largest = max(abs(one - other) for one, other in zip(eager, compiled, strict=True))
    print(f"largest difference in {options.steps} steps: {largest:.1e}")
    print(f"graphs: {dl.counters.graphs}, breaks: {dl.counters.graph_breaks}")
    print(f"a step: {eager_time:.1f} ms in eager, {time_of_ours:.1f} ms compiled with {options.backend}")


if __name__ == "__main__":
    main()
