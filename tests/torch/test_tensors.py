"""Tensors: metadata, views, in-place operators, gradients, and operations that need their data."""

from __future__ import annotations

import numpy
import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, ints, tensor, with_gradients


@checked(ints(4, 1), operators=1)
@checked(tensor(2, 3), operators=1)
def test_metadata_is_constant(x):
    facts = (
        x.shape,
        x.size(),
        x.size(-1),
        x.dim(),
        x.ndim,
        x.numel(),
        x.nelement(),
        x.dtype,
        x.device,
        x.layout,
        x.requires_grad,
        x.is_leaf,
        x.stride(),
        x.stride(0),
        x.storage_offset(),
        x.is_contiguous(),
        x.element_size(),
        x.itemsize,
        x.is_floating_point(),
        x.is_complex(),
        x.is_cuda,
        x.is_sparse,
        x.is_quantized,
        len(x),
    )
    return x + 1, facts


@checked(tensor(2, 3), operators=(4, 5))
def test_metadata_of_results(x):
    y = x.t()[1:] @ x
    return y * y.shape[0] + y.stride(0), y.is_contiguous(), y.requires_grad, y.dtype, type(y), y.grad_fn is None


def test_inplace_on_aliased_arguments():
    def fn(x, y):
        x.add_(1)
        return y * 2

    base = tensor(4)
    check(fn, base, base, operators=2)
    check(fn, base, base[1:], graphs=(0, 1))
    check(fn, base[:3], base[1:], graphs=(0, 1), others=[(tensor(3), tensor(3, seed=1))])


def test_same_tensor_given_twice_and_apart():
    def fn(x, y):
        x.mul_(2)
        return x + y, x is y

    one = tensor(2)
    check(fn, one, one, operators=2, others=[(tensor(2), tensor(2, seed=1))], all_graphs=2)
    check(fn, tensor(2), tensor(2, seed=1), operators=2, others=[(one, one)], all_graphs=2)


@checked(tensor(3, grad=True), graphs=None)
def test_inplace_on_a_leaf_that_requires_grad_raises(x):
    y = x * 2
    x.add_(1)
    return y


@checked(torch.ones(3), graphs=(2, 3), operators=(6, 7))
def test_float_int_and_bool_of_a_tensor(x):
    a = float(x.sum())
    b = int(x.max())
    c = bool(x.min() > -100)
    return x * a + b, c, a


@checked(tensor(2, 3), operators=(5, 9))
def test_iteration_and_unbind(x):
    a, b = x
    return a + b, [row * 2 for row in x], list(x.unbind(1))[0]


@checked(tensor(2), graphs=(1, 4))
def test_contains_and_equality(x):
    y = x + 1
    return torch.equal(y, y), 2.0 in torch.ones(2), y.allclose(y)


@checked(tensor(2), graphs=(0, 2))
def test_attributes_set_on_tensors(x):
    x.tag = "seen"
    y = x + 1
    y.tag = x.tag
    return y, y.tag, hasattr(x, "missing")


@checked(torch.empty(0), torch.tensor(3.0), operators=5)
def test_empty_and_scalar_tensors(e, s):
    return e + 1, torch.cat([e, s.reshape(1)]), s * 2, e.sum(), e.shape


@checked(torch.nn.Parameter(tensor(2)), operators=1, others=[(tensor(2, grad=True),)], all_graphs=2)
@with_gradients
def test_parameters_as_arguments(p):
    return p * 2, isinstance(p, torch.nn.Parameter), isinstance(p, torch.Tensor), type(p).__name__


def test_inference_tensor():
    def fn(x):
        return x * 2

    with torch.inference_mode():
        x = torch.ones(3)

    def program():
        with torch.inference_mode():
            return fn(x)

    check(program, graphs=(0, 1))


def test_tensor_of_which_only_facts_are_asked_is_no_input():
    graph = check(lambda x, s: x * s.shape[0] * s.dtype.itemsize, tensor(3), tensor(2), operators=2).graphs[0].graph
    assert sum(node.op == "placeholder" for node in graph.nodes) == 1


@checked(tensor(3), graphs=None)
@with_gradients
def test_nothing_else_requires_gradients(x):
    y = x * 2
    y.requires_grad_()
    return (y * 3).sum()


@checked(tensor(3, 4), operators=12)
def test_new_of_a_size_and_of_data(x):
    sized = x.new(x.shape).fill_(2), x.new(torch.Size([])).fill_(1), x.new(size=x.size()[1:]).zero_()
    return sized, x.new((3, 4)), x.new([1, 2]), x.new(2, 3).zero_(), x.new(), x.new(x)


@checked(tensor(2), ints(2), others=[(tensor(2, dtype=torch.float64), ints(2).int())], graphs=None)
def test_instances_of_the_old_names_for_types_of_tensors(x, n):
    numbers = isinstance(n, (torch.IntTensor, torch.LongTensor)), isinstance(x, torch.FloatTensor)
    others = isinstance(x, torch.cuda.FloatTensor), isinstance(x.double(), torch.FloatTensor)
    return x + 1, numbers, others, isinstance(3, torch.LongTensor), isinstance(x.to("meta"), torch.FloatTensor)


@checked(tensor(3), others=[(tensor(4),)])
def test_tensors_made_by_calling_their_type(x):
    data = torch.Tensor([1, 2.5, True]), torch.Tensor([[1, 2], (3, 4)]), torch.Tensor((3, 4)), torch.Tensor([])
    sizes = torch.Tensor(2, 3).fill_(1), torch.Tensor(4).zero_(), torch.Tensor(x.shape).fill_(2), torch.Tensor()
    typed = torch.LongTensor([1, 2]), torch.BoolTensor([1, 0]), torch.DoubleTensor(2).fill_(x.shape[0])
    return data, sizes, typed, torch.FloatTensor([x.size(0)]) + x


def test_tensors_made_by_calling_their_type_under_other_defaults():
    def fn(x):
        return torch.Tensor([0.1]) + x, torch.FloatTensor([0.1])

    recorder = check(fn, tensor(3), operators=3)
    compiled = dl.compile(fn, backend=recorder)
    found = [compiled(tensor(3))]
    torch.set_default_dtype(torch.float64)
    try:
        found.append(compiled(tensor(3)))
    finally:
        torch.set_default_dtype(torch.float32)
    assert [[each.dtype for each in pair] for pair in found] == [
        [torch.float32, torch.float32],
        [torch.float64, torch.float32],
    ]

    def on_meta(x):
        with torch.device("meta"):
            return torch.Tensor(2).zero_(), torch.LongTensor([1]), x + 1

    check(on_meta, tensor(3))


@checked(tensor(3), numpy.ones(2), graphs=None)
def test_what_types_of_tensors_are_called_on_otherwise(x, array):
    try:
        torch.Tensor("ab")
    except TypeError:
        x = x + 1
    shared = torch.Tensor(x)
    shared += 1
    return x, shared, torch.Tensor([x[0], 1]), torch.Tensor(array), torch.Tensor(range(2))


@pytest.mark.on_cpu
def test_tensors_of_the_type_of_a_name():
    def fn(x):
        made = x.type(torch.DoubleTensor), x.type(torch.LongTensor, non_blocking=True), x.type(dtype=torch.IntTensor)
        return (
            made,
            x.type(),
            x.type(torch.FloatTensor) is x,
            torch.Tensor.type(x, torch.HalfTensor),
            x.type("torch.ByteTensor"),
        )

    check(fn, tensor(3))

    def others(x):
        try:
            x.type(torch.cuda.FloatTensor)
        except (RuntimeError, TypeError) as error:
            return x + 1, type(error)
        return x

    check(others, tensor(3), graphs=None)


@checked(tensor(3))
def test_classes_of_numbers_as_types_of_tensors(x):
    made = torch.ones(2, dtype=int), torch.zeros(2, dtype=float), torch.full((2,), 1, dtype=bool)
    return made, x.to(float), x.sum(dtype=float), x.to(bool), torch.softmax(x, 0, dtype=float)


@dl.allow_in_graph
def made_of(x, kind):
    return x + kind(2) if kind is int else x - 1


@checked(tensor(3), graphs=None)
def test_class_as_an_argument_of_what_is_allowed(x):
    return made_of(x, int) + 1, made_of(x, kind=list)


@checked(tensor(2), graphs=1)
def test_functions_without_effect_return_their_argument(x):
    a = x.to(torch.float32)
    b = x.contiguous()
    c = x.expand(2)
    d = x.reshape(2)
    return a, b, c, d, a is x, b is x, c is x


@checked(tensor(2), operators=4)
def test_inplace_operators_return_their_argument(x):
    y = x.add_(1)
    z = torch.relu_(x)
    w = x.clone()
    v = torch.add(w, 1, out=w) if w.dim() == 9 else w.mul_(2)
    return y is x, z is x, v is w, y, z, v
