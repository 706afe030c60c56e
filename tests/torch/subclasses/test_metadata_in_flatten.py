"""Wrapper subclasses whose ``__tensor_flatten__`` reads the metadata of the tensor itself."""

from __future__ import annotations

import ast

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import return_and_correct_aliasing

import dynamo_lite as dl
from programs import Program, check, tensor

aten = torch.ops.aten


class Scaled(torch.Tensor):
    """A wrapper of integers and a scale. Operators dequantize."""

    def __new__(cls, ints, scale, size, stride, dtype):
        options = {"strides": stride, "dtype": dtype, "device": ints.device, "requires_grad": False}
        return torch.Tensor._make_wrapper_subclass(cls, size, **options)

    def __init__(self, ints, scale, size, stride, dtype):
        self.ints, self.scale = ints, scale

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale, weight.size(), weight.stride(), weight.dtype)

    def __tensor_flatten__(self):
        return ["ints", "scale"], {"size": str(list(self.size())), "stride": self.stride(), "dtype": self.dtype}

    @classmethod
    def __tensor_unflatten__(cls, inner, meta, outer_size, outer_stride):
        return cls(inner["ints"], inner["scale"], ast.literal_eval(meta["size"]), meta["stride"], meta["dtype"])

    def __repr__(self):
        return f"{type(self).__name__}({self.ints}, {self.scale})"

    def dequantized(self):
        return self.ints * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            of = args[0]
            copy = cls(func(of.ints), func(of.scale), of.size(), of.stride(), of.dtype)
            return return_and_correct_aliasing(func, args, kwargs, copy)
        return func(*(each.dequantized() if isinstance(each, cls) else each for each in args), **(kwargs or {}))


class Facts(Scaled):
    """Its ``__tensor_flatten__`` reads all other metadata."""

    def __tensor_flatten__(self):
        names, meta = super().__tensor_flatten__()
        facts = (
            self.dim(),
            self.numel(),
            self.ndim,
            self.device,
            self.layout,
            self.requires_grad,
            self.nelement(),
            len(self),
        )
        more = self.size(0), self.size(dim=1), self.stride(1), self.stride(dim=0), self.is_contiguous(), self.shape[0]
        kinds = (
            self.is_floating_point(),
            self.is_complex(),
            self.element_size(),
            self.itemsize,
            self.nbytes,
            self.is_cuda,
        )
        return names, {**meta, "facts": (*facts, *more, *kinds)}


class Passing(Scaled):
    """Its ``__torch_function__`` computes with torch functions disabled."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class PassingFacts(Passing, Facts):
    pass


class Multiplication(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        product = x @ weight.dequantized().t()
        return product if bias is None else product + bias

    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
        return gradient @ weight.dequantized(), None, bias


class Handling(Facts):
    """Its ``__torch_function__`` has its own function for linear layers."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is F.linear:

            def linear(x, weight, bias=None):
                return Multiplication.apply(x, weight, bias)

            return linear(*args, **kwargs)
        if func in (torch.Tensor.dim, torch.Tensor.size):
            return func(*args, **kwargs) if cls is None else super().__torch_function__(func, types, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


CLASSES = [Scaled, Facts, Passing, PassingFacts, Handling]


def layers(cls):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4, bias=False))
    for seed, at in enumerate((0, 2)):
        weight = tensor(*model[at].weight.shape, seed=seed)
        model[at].weight = torch.nn.Parameter(cls.of(weight), requires_grad=False)
    return model.requires_grad_(False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", CLASSES)
def test_layers(cls, backend):
    others = [(layers(cls), tensor(rows, 6)) for rows in (5, 7)]
    program = Program(lambda m, x: m(x), fullgraph=True, backend=backend, is_exact=backend == "eager")
    check(program, layers(cls), tensor(3, 6), others=others, all_graphs=2)


@pytest.mark.parametrize("cls", CLASSES)
def test_argument_with_other_sizes_and_strides(cls):
    weights = [cls.of(tensor(4, 6)), cls.of(tensor(5, 6)), cls.of(tensor(6, 4).t()), cls.of(tensor(4, 6, seed=3))]
    compiled = dl.compile(lambda w, x: x @ w.t() + 1, backend="eager", fullgraph=True)
    for weight in weights:
        x = tensor(2, 6)
        assert torch.equal(compiled(weight, x), x @ weight.t() + 1)


@pytest.mark.parametrize("cls", CLASSES)
def test_created_during_tracing(cls):
    check(lambda w, x: F.linear(x, cls.of(w)) + 1, tensor(4, 6), tensor(2, 6))


def test_metadata_that_is_no_number_of_the_tensor_breaks():
    class Storage(Scaled):
        def __tensor_flatten__(self):
            return ["ints", "scale"], {**super().__tensor_flatten__()[1], "kind": self.T is self}

    with pytest.raises(dl.exc.Unsupported, match="DL0416"):
        dl.compile(lambda w, x: x @ w.t(), backend="eager", fullgraph=True)(Storage.of(tensor(4, 6)), tensor(2, 6))


def test_operator_that_may_fail_in_a_module_with_hooks_after_a_break():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(4, 2)
            self.embedding.register_forward_hook(lambda module, args, output: output + 1)
            self.embedding.register_forward_pre_hook(lambda module, args: print("before") or None)

        def forward(self, at):
            return self.embedding(at) * 2

    check(lambda m, at: m(at), Model(), torch.tensor([1, 3]), graphs=None)
