"""Backwards and hooks that read what is not known when they are traced: strides and history of their gradients, and of
what is computed from them; state of the process."""

from __future__ import annotations

import collections.abc
import os

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight.break_reasons import BackwardReads, HookNotTraced, UnknownInBackward
from small_functions import Doubled, with_backward

GRADIENTS = {
    "contiguous": lambda: torch.arange(12.0).view(3, 4),
    "expanded": lambda: torch.ones(()).expand(3, 4),
    "transposed": lambda: torch.arange(12.0).view(4, 3).t(),
    "with an offset": lambda: torch.arange(24.0).view(3, 4, 2)[..., 1],
    "that requires gradients": lambda: torch.ones(3, 4).requires_grad_(),
}


def of_function(read):
    """A program whose Function's backward multiplies its gradient by what is read of it."""

    function = with_backward(read)
    return lambda x: function.apply(x)


def of_hook(read):
    def fn(x):
        y = x * 2
        y.register_hook(lambda gradient: read(gradient, gradient))
        return y.view_as(y)

    return fn


def outcome(fn, gradient, create_graph):
    """The gradient and whether it can be differentiated, or the error; then what the backward made of its argument."""
    x, given = torch.arange(1.0, 13).view(3, 4).requires_grad_(), GRADIENTS[gradient]()
    y = fn(x)
    try:
        (found,) = torch.autograd.grad(y, x, given, create_graph=create_graph)
    except RuntimeError as error:
        return str(error), None, None
    return found.detach().clone().tolist(), found.requires_grad, given.tolist()


def same_as_eager(make, read, backend="eager"):
    for create_graph in (False, True) if backend == "eager" else (False,):
        for gradient in GRADIENTS:
            expected = outcome(make(read), gradient, create_graph)
            compiled = dl.compile(make(read), backend=backend)
            assert [outcome(compiled, gradient, create_graph) for _ in range(2)] == [expected] * 2, gradient


def breaks(fn, *args):
    return [type(each.reason) for each in dl.explain(fn)(*args).breaks]


UNKNOWN = {
    "is_contiguous": lambda g, x: g * (2 if g.is_contiguous() else 3),
    "is_contiguous of an item": lambda g, x: g * (2 if g[0].is_contiguous() else 3),
    "identity of contiguous": lambda g, x: g * (2 if g.contiguous() is g else 3),
    "identity of contiguous in a list": lambda g, x: g * (2 if g.contiguous() in [g] else 3),
    "storage_offset": lambda g, x: g * (2 + g[1:].storage_offset()),
    "stride of an alias": lambda g, x: g * (1 + g.detach().stride(0)),
    "strides of an alias": lambda g, x: g * (1 + sum(g.detach().stride())),
    "stride of a product": lambda g, x: g * (1 + (g * x).stride(0)),
    "stride of a copy": lambda g, x: g * (1 + g.clone().stride(0)),
    "stride of an empty one": lambda g, x: g * (1 + torch.empty_like(g).stride(0)),
    "stride of an item": lambda g, x: g * (1 + g.unbind(0)[0].stride(0)),
    "stride of a view": lambda g, x: g * (1 + g.t().stride(0)),
    "an error that is handled": lambda g, x: viewed_or_copied(g),
    "requires_grad": lambda g, x: g * (2 if g.requires_grad else 3),
    "requires_grad of a product": lambda g, x: g * (2 if (g * x).requires_grad else 3),
    "is_leaf of a product": lambda g, x: g * (2 if (g * x).is_leaf else 3),
    "grad_fn of a product": lambda g, x: g * (2 if (g * x).grad_fn is None else 3),
    "requires_grad of what is written into": lambda g, x: g * (2 if torch.zeros(3, 4).copy_(g).requires_grad else 3),
    "strides of an array": lambda g, x: g * (2 + g.detach().numpy().strides[0]),
    "dtype of a quotient of ints": lambda g, x: (
        g * (2 if (torch.ones(2, dtype=torch.int32) / 2).dtype is torch.float32 else 3)
    ),
    "dtype of a complex tensor": lambda g, x: g * (2 if torch.tensor(1j).dtype is torch.complex64 else 3),
    "type of a sum": lambda g, x: (
        g * (2 if torch.result_type(torch.ones(2, dtype=torch.int32), 1.5) is torch.float32 else 3)
    ),
    "dtype of a new tensor": lambda g, x: g * (2 if torch.ones(2).dtype is torch.float32 else 3),
    "a gradient after a write into what may be a copy": lambda g, x: (g.flatten().mul_(2), g * 3)[1],
}


def viewed_or_copied(gradient):
    try:
        flat = gradient.view(-1) * 2
    except RuntimeError:
        flat = gradient.reshape(-1) * 3
    return flat.view(3, 4)


@pytest.mark.parametrize("make", [of_function, of_hook])
@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown(what, make):
    same_as_eager(make, UNKNOWN[what])
    assert breaks(make(UNKNOWN[what]), torch.ones(3, 4, requires_grad=True)) == [UnknownInBackward]


KNOWN = {
    "stride after contiguous": lambda g, x: g.contiguous() * g.contiguous().stride(0),
    "stride of a product of matrices": lambda g, x: g * (g @ x.t()).contiguous().stride(0),
    "stride of another tensor": lambda g, x: g * torch.zeros(5, 2).stride(0),
    "sizes": lambda g, x: g * (g.shape[0] + g.size(1) + g.numel() + g.dim()),
    "requires_grad of a detached one": lambda g, x: g * (2 if g.detach().requires_grad else 3),
    "requires_grad of another tensor": lambda g, x: g * (2 if torch.zeros(3).requires_grad else 3),
    "strides of an array after contiguous": lambda g, x: g * g.detach().contiguous().numpy().strides[0],
    "dtype of a sum of ints": lambda g, x: (
        g * (2 if (torch.ones(2, dtype=torch.int32) + 2).dtype is torch.int32 else 3)
    ),
    "type of a sum of floats": lambda g, x: g * (2 if torch.result_type(g, 1.5) is torch.float32 else 3),
    "dtype of a product": lambda g, x: g * (2 if (g * x).dtype is torch.float32 else 3),
    "an existing tensor": lambda g, x: g * (2 if g.float() is g else 3),
    "a write into the gradient": lambda g, x: g.mul_(3),
    "a write into a view": lambda g, x: (g[0].zero_(), g * 2)[1],
    "a write into what may be a copy": lambda g, x: doubled_flat(g),
    "a view that may fail": lambda g, x: (g.view(-1, 2) * 2).view(3, 4),
}


def doubled_flat(gradient):
    flat = gradient.flatten()
    flat.mul_(2)
    return flat.view(3, 4)


@pytest.mark.parametrize("make", [of_function, of_hook])
@pytest.mark.parametrize("what", KNOWN)
def test_known(what, make):
    same_as_eager(make, KNOWN[what])
    assert breaks(make(KNOWN[what]), torch.ones(3, 4, requires_grad=True)) == []


@pytest.mark.parametrize("make", [of_function, of_hook])
def test_gradient_that_a_compiled_backward_writes_into(make):
    """The compiler keeps the write from the caller's tensor."""
    compiled = dl.compile(make(KNOWN["a write into the gradient"]), backend="aot_eager")
    x = torch.ones(3, 4, requires_grad=True)
    (found,) = torch.autograd.grad(compiled(x), x, torch.ones(3, 4))
    assert torch.equal(found, torch.full((3, 4), 3.0 * (2 if make is of_hook else 1)))


def test_no_dimensions():
    def read(gradient, x):
        return gradient * (2 if gradient.is_contiguous() else 3)

    compiled = dl.compile(of_function(read), backend="eager", fullgraph=True)
    x = torch.ones((), requires_grad=True)
    assert torch.autograd.grad(compiled(x), x)[0].item() == 2


def test_channels_last():
    def read(gradient, x):
        return gradient * (2 if gradient.clone().is_contiguous(memory_format=torch.channels_last) else 3)

    x = torch.ones(2, 3, 4, 5, requires_grad=True)
    for compiled in (of_function(read), dl.compile(of_function(read), backend="eager")):
        for given, factor in ((torch.ones(2, 3, 4, 5), 3), (torch.ones(2, 4, 5, 3).permute(0, 3, 1, 2), 2)):
            (found,) = torch.autograd.grad(compiled(x), x, given)
            assert torch.equal(found, torch.full_like(found, factor))


def test_symbolic_sizes():
    """A stride that is certain may be symbolic."""

    fn = of_function(lambda g, x: g.contiguous() * g.contiguous().stride(0))
    compiled = dl.compile(fn, backend="eager", dynamic=True, fullgraph=True)
    for size in (4, 6):
        x = torch.ones(3, size, requires_grad=True)
        (found,) = torch.autograd.grad(compiled(x), x, torch.ones(3, size))
        assert torch.equal(found, torch.full((3, size), float(size)))


STATES = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype, (torch.float32, torch.float64)),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        (False, True),
    ),
    "benchmark": (
        lambda: torch.backends.cudnn.benchmark,
        lambda value: setattr(torch.backends.cudnn, "benchmark", value),
        (False, True),
    ),
    "threads": (torch.get_num_threads, torch.set_num_threads, (1, 2)),
    "precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, ("highest", "high")),
    "environment": (lambda: os.environ["A_SETTING"], lambda value: os.environ.update(A_SETTING=value), ("a", "b")),
    "getenv": (lambda: os.getenv("A_SETTING"), lambda value: os.environ.update(A_SETTING=value), ("a", "b")),
}


@pytest.mark.changes_what_is_guarded
@pytest.mark.parametrize("make", [of_function, of_hook])
@pytest.mark.parametrize("which", STATES)
def test_state_of_the_process(which, make):
    """It changes between the call and the backward."""
    read, write, (before, after) = STATES[which]

    def factor(gradient, x):
        return gradient * (2 if read() == before else 3)

    def gradient(fn):
        x = torch.ones(3, 4, requires_grad=True)
        write(before)
        y = fn(x)
        write(after)
        return torch.autograd.grad(y, x, torch.ones(3, 4))[0].tolist()

    was = before if which in ("environment", "getenv") else read()
    try:
        expected = gradient(make(factor))
        compiled = dl.compile(make(factor), backend="eager")
        assert [gradient(compiled) for _ in range(2)] == [expected] * 2
        write(before)
        assert breaks(make(factor), torch.ones(3, 4, requires_grad=True)) in ([BackwardReads], [HookNotTraced])
    finally:
        write(was)
        os.environ.pop("A_SETTING", None)


def test_class_registered_with_an_abstract_one():
    class Sign(collections.abc.Hashable.__class__("Sign", (), {})):
        pass

    class Plain:
        pass

    plain = Plain()

    class Read(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * (2 if issubclass(Plain, Sign) else 3)

    x = torch.ones(3, requires_grad=True)
    y = dl.compile(lambda x: Read.apply(x), backend="eager")(x)
    Sign.register(type(plain))
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
