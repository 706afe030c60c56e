"""Parts of programs that several test files use."""

from __future__ import annotations

import torch

import dynamo_lite as dl


class Problem(Exception):
    """An exception with attributes and its own text."""

    def __init__(self, code, detail="none"):
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self):
        return f"{self.code}: {self.detail}"


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x


def twice_where_positive(x):
    assert (x > 0).all(), f"of {tuple(x.shape)}"
    return x * 2


def logged(log, values):
    log.append("start")
    try:
        for value in values:
            log.append(f"before {value}")
            yield value
            log.append(f"after {value}")
    finally:
        log.append("finally")


def scaled(x, n):
    for i in range(n):
        yield x * (i + 1)


def numbers(n):
    for i in range(n):  # noqa: UP028
        yield i


def waves(x):
    return torch.sin(x) * 2


def breaks(x):
    y = x + 1
    dl.graph_break()
    return y * 2
