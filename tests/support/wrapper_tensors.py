"""Wrapper subclasses for programs."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

from programs import ints, tensor


class Pair(torch.Tensor):
    """A wrapper of two tensors. Operators compute with both."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.shape,
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            dtype=a.dtype,
            device=a.device,
            requires_grad=a.requires_grad,
        )

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __repr__(self):
        return f"Pair({self.a}, {self.b})"

    def both(self):
        return self.a + self.b

    @property
    def first(self):
        return self.a

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kwargs = kwargs or {}
        of_a, of_b = (
            func(*one, **two)
            for one, two in (
                pytree.tree_map_only(Pair, lambda x, name=name: getattr(x, name), (args, kwargs)) for name in "ab"
            )
        )
        found = pytree.tree_map(lambda x, y: cls(x, y) if isinstance(x, torch.Tensor) else x, of_a, of_b)
        return return_and_correct_aliasing(func, args, kwargs, found)


def pair(*shape, seed=0, grad=False, dtype=torch.float32):
    made = Pair(tensor(*shape, seed=seed, dtype=dtype), tensor(*shape, seed=seed + 1, dtype=dtype))
    return made.requires_grad_(grad)


@dataclasses.dataclass
class Kind:
    dtype: torch.dtype
    shift: int


class Quantised(torch.Tensor):
    """A weight as integers with a scale a row. What else its operators need is in `kind`."""

    by_parts = torch.ops.aten.t.default, torch.ops.aten.detach.default, torch.ops.aten.clone.default
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data, scale, kind):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=kind.dtype, device=data.device)

    def __init__(self, data, scale, kind):
        self.ints = data
        self.scale = scale
        self.kind = kind

    def __repr__(self):
        return f"Quantised({self.ints}, {self.scale}, {self.kind})"

    def __tensor_flatten__(self):
        return ["ints", "scale"], {"kind": self.kind}

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["ints"], inner["scale"], context["kind"])

    def dequantised(self):
        return (self.ints.to(self.kind.dtype) + self.kind.shift) * self.scale

    def mapped(self, function):
        return type(self)(function(self.ints), function(self.scale), self.kind)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kwargs = kwargs or {}
        if func in cls.by_parts:
            found = args[0].mapped(lambda part: func(part, *args[1:], **kwargs))
            return return_and_correct_aliasing(func, args, kwargs, found)
        plain, named = pytree.tree_map_only(cls, lambda each: each.dequantised(), (args, kwargs))
        return func(*plain, **named)


def quantised(*shape, seed=0, shift=0, dtype=torch.float32):
    data = (ints(*shape, seed=seed) - 5).to(torch.int8)
    return Quantised(data, tensor(shape[0], 1, seed=seed, dtype=dtype).abs(), Kind(dtype, shift))


class Holder(torch.nn.Module):
    def __init__(self, weight, trained=False):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, trained)
        self.register_buffer("shift", torch.ones(weight.shape[0]))

    def forward(self, x):
        return F.linear(x, self.weight, self.shift).relu()
