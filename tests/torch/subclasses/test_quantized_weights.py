"""Quantized weights as libraries write them: a base class with tables of operators and inner tensors by name."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import return_and_correct_aliasing

import dynamo_lite as dl
from programs import Program, approximate, check, tensor

aten = torch.ops.aten


class Base(torch.Tensor):
    @classmethod
    def implements(cls, *functions):
        if "table" not in vars(cls):
            cls.table = {}

        def register(answer):
            cls.table.update(dict.fromkeys(functions, answer))
            return answer

        return register

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        if hasattr(cls, "table") and func in cls.table:
            return cls.table[func](func, types, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        if func in cls.table:
            return cls.table[func](func, types, args, kwargs)
        raise NotImplementedError(f"{cls.__name__} has no {func}")

    def __tensor_flatten__(self):
        if not (hasattr(self, "data_names") and hasattr(self, "attribute_names")):
            raise NotImplementedError
        names = self.data_names.copy()
        for name in self.optional_names:
            if getattr(self, name) is not None:
                names.append(name)
        return names, [getattr(self, name) for name in self.attribute_names]

    @classmethod
    def __tensor_unflatten__(cls, inner, attributes, size, stride):
        optional = {name: inner.get(name) for name in cls.optional_names}
        return cls(*(inner[name] for name in cls.data_names), *attributes, **optional)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self.data_names)})"

    def mapped(self, function):
        data = [function(getattr(self, name)) for name in self.data_names]
        optional = {name: getattr(self, name) for name in self.optional_names}
        optional = {name: None if each is None else function(each) for name, each in optional.items()}
        return type(self)(*data, *(getattr(self, name) for name in self.attribute_names), **optional)


class Int8(Base):
    data_names = ["ints", "scale"]
    optional_names = ["zero_point"]
    attribute_names = ["block_size", "plain_dtype"]

    def __new__(cls, ints, scale, block_size, plain_dtype, zero_point=None):
        options = {"device": ints.device, "dtype": plain_dtype, "requires_grad": False}
        return torch.Tensor._make_wrapper_subclass(cls, ints.shape, **options)

    def __init__(self, ints, scale, block_size, plain_dtype, zero_point=None):
        self.ints = ints
        self.scale = scale
        self.block_size = block_size
        self.plain_dtype = plain_dtype
        self.zero_point = zero_point

    def dequantised(self):
        found = self.ints.to(self.plain_dtype)
        return (found if self.zero_point is None else found - self.zero_point) * self.scale

    @classmethod
    def of(cls, weight, block_size, zero_point=None):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale, block_size, weight.dtype, zero_point)


@Int8.implements(F.linear, aten.linear.default)
def _(func, types, args, kwargs):
    x, weight, bias = args[0], args[1], args[2] if len(args) > 2 else None
    flat = torch.mm(x.reshape(-1, x.shape[-1]), weight.dequantised().t())
    found = flat.reshape(*x.shape[:-1], flat.shape[-1])
    return found if bias is None else found + bias


@Int8.implements(aten.detach.default, aten.clone.default, aten.alias.default)
def _(func, types, args, kwargs):
    found = args[0].mapped(lambda part: func(part, *args[1:], **kwargs))
    return return_and_correct_aliasing(func, args, kwargs, found)


class Layers(torch.nn.Module):
    def __init__(self, zero_point=None):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4, bias=False)
        for seed, layer in enumerate((self.up, self.down)):
            layer.weight = torch.nn.Parameter(
                Int8.of(tensor(*layer.weight.shape, seed=seed), [1, 8], zero_point), False
            )

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("zero_point", [None, 3.0])
def test_layers_with_quantized_weights(backend, zero_point):
    layers = Layers(None if zero_point is None else torch.tensor(zero_point))
    others = [(layers, tensor(rows, 8, grad=True)) for rows in (7, 5)]
    program = Program(lambda m, x: m(x), has_gradients=True, is_exact=False, fullgraph=True, backend=backend)
    check(program, layers, tensor(3, 8, grad=True), others=others, all_graphs=2)


def test_weights_replaced_between_calls():
    layers, x = Layers(), tensor(3, 8)
    compiled = dl.compile(layers, backend="aot_eager", fullgraph=True)
    for seed, zero_point in ((1, None), (2, torch.tensor(1.0)), (3, None)):
        layers.up.weight = torch.nn.Parameter(Int8.of(tensor(16, 8, seed=seed), [1, 8], zero_point), False)
        torch.testing.assert_close(compiled(x), layers(x))
    layers.up.weight.zero_point = torch.tensor(2.0)
    torch.testing.assert_close(compiled(x), layers(x))
    layers.up.weight.block_size.append(4)
    torch.testing.assert_close(compiled(x), layers(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_quantised_inside(backend):
    def fn(x, weight):
        return F.linear(x, Int8.of(weight, [1, 8]))

    others = [(tensor(2, 8, seed=1), tensor(4, 8, seed=1))]
    check(Program(fn, fullgraph=True, backend=backend, is_exact=False), tensor(2, 8), tensor(4, 8), others=others)


def test_copies_keep_the_attributes_of_their_original():
    def fn(weight):
        return weight.clone(), weight.detach()

    compiled = dl.compile(fn, backend="aot_eager")
    for _ in range(2):
        weight = Int8.of(tensor(4, 8), [1, 8])
        for found in compiled(weight):
            assert type(found) is Int8 and found.block_size is weight.block_size


def test_unsupported_operator_raises_as_in_eager():
    def fn(weight):
        return weight + 1

    for each in (fn, dl.compile(fn, backend="eager")):
        with pytest.raises(NotImplementedError, match=r"Int8 has no aten.add.Tensor"):
            each(Int8.of(tensor(4, 8), [1, 8]))


class Sparing(Int8):
    """Lacks attributes that compilers need, but no program does."""

    table = {func: answer for func, answer in Int8.table.items() if func is not aten.alias.default}

    def __repr__(self):
        raise NotImplementedError("it has no text")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_class_without_metadata_for_compilers_breaks(backend):
    def fn(weight, x):
        return weight.clone(), x * 2

    compiled = dl.compile(fn, backend=backend)
    for seed in range(2):
        plain, x = Int8.of(tensor(4, 8, seed=seed), [1, 8]), tensor(3, seed=seed)
        found, double = compiled(Sparing(plain.ints, plain.scale, plain.block_size, plain.plain_dtype), x)
        assert type(found) is Sparing and torch.equal(found.ints, plain.ints) and torch.equal(double, x * 2)
    assert backend == "eager" or any("the backend failed" in each for each in dl.counters.break_reasons)


class Unready(Int8):
    """Its ``__tensor_flatten__`` raises in some states."""

    ready = True

    def __tensor_flatten__(self):
        if not Unready.ready:
            raise NotImplementedError("not now")
        return super().__tensor_flatten__()

    @classmethod
    def __tensor_unflatten__(cls, inner, attributes, size, stride):
        if Unready.ready == "in part":
            raise ValueError("not so")
        return super().__tensor_unflatten__(inner, attributes, size, stride)


@pytest.mark.parametrize("ready", [False, "in part", True])
def test_class_whose_code_raises(monkeypatch, ready):
    def fn(weight, x):
        return F.linear(x, weight), x + 1

    monkeypatch.setattr(Unready, "ready", ready)
    plain, x = Int8.of(tensor(4, 8), [1, 8]), tensor(3, 8)
    weight = Unready(plain.ints, plain.scale, plain.block_size, plain.plain_dtype)
    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        for one, other in zip(fn(weight, x), compiled(weight, x), strict=True):
            assert torch.equal(one, other)


# -- as arguments of a torch.autograd.Function ------------------------------------------------------------------------


class Linear(torch.autograd.Function):
    """A Function that multiplies by a quantized weight and saves the weight unchanged for the backward."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.dequantised().t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        return grad @ weight.dequantised() if needed[0] else None, None


class OfAttributes(torch.autograd.Function):
    """A Function that keeps the inner tensors on ctx."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.ints, ctx.scale = weight.ints, weight.scale
        return x @ (weight.ints * weight.scale).t()

    @staticmethod
    def backward(ctx, grad):
        return grad @ (ctx.ints * ctx.scale), None


class Operators(torch.autograd.Function):
    """A Function that calls operators of the wrapper itself."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return torch.nn.functional.linear(x, weight)

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.weight.dequantised(), None


class Returning(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        return x * 2, weight.detach()

    @staticmethod
    def backward(ctx, grad, other):
        return grad * 2, None


def weight(seed=0):
    return Int8.of(tensor(4, 8, seed=seed), [1, 8])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [Linear, OfAttributes, Operators])
def test_frozen_weight(function, backend):
    def fn(x, weight):
        return function.apply(x.sin(), weight).relu() + 1

    program = Program(fn, has_gradients=True, is_exact=False, fullgraph=True, backend=backend)
    others = [(tensor(3, 8, grad=True, seed=1), weight(2))]
    check(program, tensor(3, 8, grad=True), weight(), others=others)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_weights_of_a_trained_model(backend):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first = torch.nn.Linear(8, 8)
            self.weight = torch.nn.Parameter(weight(), requires_grad=False)

        def forward(self, x):
            return Linear.apply(self.first(x), self.weight)

    losses = []
    for compiled in (False, True):
        model = Model()
        call = dl.compile(model, backend=backend, fullgraph=True) if compiled else model
        optimizer = torch.optim.SGD(model.first.parameters(), lr=0.01)
        losses.append([])
        for seed in range(3):
            model.weight = torch.nn.Parameter(weight(seed), requires_grad=False)
            loss = call(tensor(3, 8)).square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(float(loss))
    torch.testing.assert_close(losses[0], losses[1])


def test_wrapper_that_a_function_returns_breaks():
    def fn(x, weight):
        y, same = Returning.apply(x, weight)
        return y, same.dequantised()

    check(approximate(fn), tensor(3, 8, grad=True), weight(), graphs=None)
