"""Function modes and a dispatch mode for programs."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Log(TorchFunctionMode):
    """Logs the functions that it receives."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        named = None if kwargs is None else tuple(kwargs)
        self.seen.append((func.__name__, [*types], [type(arg).__name__ for arg in args], named))
        return func(*args, **(kwargs or {}))


class Noted(TorchDispatchMode):
    """Notes the names of the operators that it receives."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Rewrite(TorchFunctionMode):
    """Replaces one function by another."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.add, torch.Tensor.add):
            func = torch.mul
        return func(*args, **(kwargs or {}))


class Scale(TorchFunctionMode):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        return torch.mul(found, self.factor) if func in (torch.sin, torch.Tensor.sin) else found


class Refuse(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.sin:
            raise ValueError("no sines")
        return func(*args, **(kwargs or {}))
