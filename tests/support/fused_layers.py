"""Layers with kernels for the forward and the backward, written as libraries of such layers write them."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl


def contiguous_arguments(fn):
    @functools.wraps(fn)
    def wrapper(ctx, *args, **kwargs):
        def made(value):
            return value.contiguous() if isinstance(value, torch.Tensor) else value

        return fn(ctx, *map(made, args), **{name: made(value) for name, value in kwargs.items()})

    return wrapper


def settings(columns):
    block = triton.next_power_of_2(columns)
    if block > 65536:
        raise RuntimeError(f"rows of {columns} are too long")
    return block, 8 if block >= 2048 else 4


@triton.jit
def norm_forward(x_ptr, w_ptr, y_ptr, scale_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(scale_ptr + row, scale)
    w = tl.load(w_ptr + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row * stride + at, x * scale * w, mask=at < columns)


@triton.jit
def norm_backward(dy_ptr, x_ptr, w_ptr, scale_ptr, dx_ptr, dw_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=0.0)
    dy = tl.load(dy_ptr + row * stride + at, mask=at < columns, other=0.0)
    w = tl.load(w_ptr + at, mask=at < columns, other=0.0)
    scale = tl.load(scale_ptr + row)
    normed = x * scale
    mean = tl.sum(normed * w * dy, axis=0) / columns
    tl.store(dx_ptr + row * stride + at, (w * dy - normed * mean) * scale, mask=at < columns)
    tl.store(dw_ptr + row * stride + at, dy * normed, mask=at < columns)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    @contiguous_arguments
    def forward(ctx, x, w, eps):
        shape = x.shape
        x = x.view(-1, shape[-1])
        rows, columns = x.shape
        if columns != w.shape[0]:
            raise ValueError("the weight has another size")
        ctx.block, ctx.num_warps = settings(columns)
        y = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        scale = torch.empty(rows, dtype=x.dtype, device=x.device)
        norm_forward[(rows,)](x, w, y, scale, x.stride(0), columns, eps, BLOCK=ctx.block, num_warps=ctx.num_warps)
        ctx.save_for_backward(x, w, scale)
        return y.view(*shape)

    @staticmethod
    @contiguous_arguments
    def backward(ctx, dy):
        shape = dy.shape
        dy = dy.view(-1, shape[-1])
        x, w, scale = ctx.saved_tensors
        rows, columns = dy.shape
        dx, dw = torch.empty_like(dy), torch.empty_like(x)
        norm_backward[(rows,)](dy, x, w, scale, dx, dw, dy.stride(0), columns, BLOCK=ctx.block, num_warps=ctx.num_warps)
        return dx.view(*shape), dw.sum(0), None


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def gate_forward(a_ptr, b_ptr, c_ptr, stride, columns: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a_ptr += row * stride
    b_ptr += row * stride
    c_ptr += row * stride
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < columns, other=0).to(tl.float32)
    b = tl.load(b_ptr + at, mask=at < columns, other=0)
    tl.store(c_ptr + at, silu(a).cast(b.dtype) * b, mask=at < columns)


@triton.jit
def gate_backward(dc_ptr, a_ptr, b_ptr, stride, columns: tl.constexpr, BLOCK: tl.constexpr):
    """Replaces the operands by their gradients."""
    row = tl.program_id(0).to(tl.int64)
    dc_ptr += row * stride
    a_ptr += row * stride
    b_ptr += row * stride
    at = tl.arange(0, BLOCK)
    dc = tl.load(dc_ptr + at, mask=at < columns, other=0)
    a = tl.load(a_ptr + at, mask=at < columns, other=0).to(tl.float32)
    b = tl.load(b_ptr + at, mask=at < columns, other=0)
    sigmoid = tl.sigmoid(a)
    tl.store(a_ptr + at, dc * (a * sigmoid * (1 - sigmoid) + sigmoid) * b, mask=at < columns)
    tl.store(b_ptr + at, dc * a * sigmoid, mask=at < columns)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    @contiguous_arguments
    def forward(ctx, a, b):
        shape = a.shape
        columns = shape[-1]
        a, b = a.view(-1, columns), b.view(-1, columns)
        c = torch.empty_like(a)
        block, num_warps = settings(columns)
        gate_forward[(a.shape[0],)](a, b, c, c.stride(-2), columns=columns, BLOCK=block, num_warps=num_warps)
        ctx.save_for_backward(a, b)
        return c.view(*shape)

    @staticmethod
    @contiguous_arguments
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        shape = dc.shape
        columns = shape[-1]
        dc = dc.view(-1, columns)
        block, num_warps = settings(columns)
        gate_backward[(dc.shape[0],)](dc, a, b, dc.stride(-2), columns=columns, BLOCK=block, num_warps=num_warps)
        return a.view(*shape), b.view(*shape)


@triton.jit
def rotate(q_ptr, stride, cos_ptr, sin_ptr, SIZE: tl.constexpr, BACK: tl.constexpr):
    q_ptr = q_ptr + tl.program_id(0) * stride
    at = tl.arange(0, SIZE // 2)
    cos, sin = tl.load(cos_ptr + at), tl.load(sin_ptr + at)
    if BACK:
        sin = -sin
    a, b = tl.load(q_ptr + at), tl.load(q_ptr + SIZE // 2 + at)
    tl.store(q_ptr + at, a * cos - b * sin)
    tl.store(q_ptr + SIZE // 2 + at, b * cos + a * sin)


def rotated(q, cos, sin, back):
    """Rotates in place if the transposed tensor is contiguous."""
    q = q.transpose(1, 2).contiguous()
    batch, length, heads, size = q.shape
    rotate[(batch * length * heads,)](q, size, cos, sin, size, BACK=back)
    return q.transpose(1, 2)


class Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, cos, sin):
        out = rotated(q, cos, sin, False)
        ctx.save_for_backward(cos, sin)
        return out

    @staticmethod
    def backward(ctx, dq):
        cos, sin = ctx.saved_tensors
        return rotated(dq, cos, sin, True), None, None
