"""Floats that differ from call to call as operators' own arguments, where another one compiles again, and in what
Python computes of them: eager's bits."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import Recorder, tensor
from sweeps import sweep, swept, swept_both

FLOATS = [0.5, 0.1, 1 / 3, 0.7, 0.05]
X = tensor(5, 7)
IMAGES = tensor(2, 3, 8, 8)
CLASSES = torch.arange(5) % 3


@pytest.fixture(autouse=True)
def no_limit():
    with dl.config.patch(recompile_limit=20):
        yield


def calls(x):
    return [(x, each) for each in FLOATS]


OPERATORS = {
    "power": lambda x, f: (x.abs() ** f, torch.pow(x.abs(), -f), x.clone().abs_().pow_(f)),
    "float floor-divided": lambda x, f: (x // f, torch.floor_divide(x, f)),
    "alpha": lambda x, f: (torch.add(x, x[0], alpha=f), x.sub(x[:, :1], alpha=f)),
    "alpha of half precision": lambda x, f: (x.half().add(x.half(), alpha=f), x.bfloat16().sub(x.bfloat16(), alpha=f)),
    "half precision": lambda x, f: (x[0, 0].half() * f, x[0, 0].bfloat16() + f),
    "linspace": lambda x, f: x * torch.linspace(-f, f, 7),
    "rectifiers": lambda x, f: (F.leaky_relu(x, f), F.elu(x, f), F.celu(x, f), F.threshold(x, f, 0.5)),
    "shrinking": lambda x, f: (F.hardshrink(x, f), F.softshrink(x, f), F.softplus(x, f), F.hardtanh(x, -f, f)),
    "normalize": lambda x, f: F.normalize(x, eps=f),
    "products": lambda x, f: (torch.addmm(x[:, :5], x, x.t(), alpha=f, beta=1 - f), torch.addmv(x[:, 0], x, x[0])),
    "margin": lambda x, f: F.multi_margin_loss(x, CLASSES, margin=f),
}
NUMBERS = {
    "divisions": lambda x, f: (x * (f // 0.01), x * (f % 0.03), x * (-f // 0.3), x * (f % -0.3), x * (7 // f)),
    "divmod": lambda x, f: (x * divmod(f, 0.2)[0], x * divmod(-f, 0.2)[1]),
    "sums": lambda x, f: (x * sum([f, 0.1, 0.2]), x * sum([1, f, 1e16, -1e16]), x * sum([f, 3], 0.5)),
    "logarithms": lambda x, f: (x * math.log2(f), x * math.log10(f)),
    "powers": lambda x, f: (x * math.pow(f, 2), x * math.pow(0.9, f), x * math.sqrt(f)),
    "rounding": lambda x, f: (x * round(f, 2), x * round(f * 100, 1)),
    "predicates": lambda x, f: x * f if math.isfinite(f) and not math.isnan(f) and not math.isinf(f) else x,
}


@pytest.mark.parametrize("fn", OPERATORS.values(), ids=OPERATORS)
def test_operators_that_take_numbers(fn):
    sweep(fn, calls(X), graphs=len(FLOATS))


def test_a_temperature():
    sweep(lambda x, f: (F.softmax(x / f, -1), F.gumbel_softmax(x, tau=f).shape), calls(X))


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("fn", NUMBERS.values(), ids=NUMBERS)
def test_python_computes_them(fn, backend):
    sweep(fn, calls(X), backend=backend)


KNOWN = {
    "trigonometry": lambda x, f: (x * math.tan(f), x * math.atan2(f, 2.0), x * math.asin(f), x * math.tanh(f)),
    "dropout": lambda x, f: F.dropout(x, f, training=True).shape,
    "layer_norm": lambda x, f: F.layer_norm(x, (7,), eps=f),
    "label smoothing": lambda x, f: F.cross_entropy(x, CLASSES, label_smoothing=f),
    "huber loss": lambda x, f: F.huber_loss(x, x * 2, delta=f),
    "quantile": lambda x, f: torch.quantile(x, f),
    "upsampling": lambda x, f: F.interpolate(IMAGES, scale_factor=f + 1),
    "padding": lambda x, f: F.pad(x, (1, 1), value=f),
    "arange": lambda x, f: (x.sum() + torch.arange(0.0, 1.0, f), torch.arange(f), torch.arange(-f, f, 0.01)),
}


if torch.__version__ < "2.13":
    del KNOWN["quantile"]  # it reads the number's tensor: a break


@pytest.mark.parametrize("fn", KNOWN.values(), ids=KNOWN)
def test_operators_with_c_number_arguments_recompile_for_every_value(fn):
    """torch.compile compiles one graph per value, too."""
    sweep(lambda x, f: (fn(x, f), x + 1), calls(X), graphs=len(FLOATS))


def test_operators_that_branch_on_a_scalars_value():
    """Each kind of value has the right result, even if the operator branches on the value of the first call."""
    floats = (0.5, 2.0, 1.0, 0.0, -0.0, math.inf, -math.inf, 3.0, math.nan, 3e38, 0.5)
    x = tensor(4, 4)
    sweep(lambda x, f: (x.norm(f), x.abs() ** f, torch.addmm(x, x, x, beta=f)), [(x, f) for f in floats], graphs=None)


@swept_both(
    [(tensor(3), f) for f in [0.5, 0.25, -1.0, 4.0, 0.0, -0.0, 0.9, 0.75, math.inf, math.nan, 1e301]], graphs=None
)
def test_operations_that_python_refuses_raise(x, f):
    try:
        return x * math.log2(f + 2), divmod(3, f), x * (1 // f), x * math.acos(f), x * round(f, 3)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return x, type(error).__name__, str(error)


@swept_both([(tensor(3), f) for f in (0.5, 0.3, 0.2, 0.9, 1.4, 0.1)], graphs=None)
def test_floats_that_are_compared_after_all(x, f):
    return x * 2 if f // 0.25 > 1 and math.tan(f) < 3 else x - math.log2(f)


def test_gradients():
    def fn(x, f):
        return (F.leaky_relu(x, f) ** 2).sum() + (x.abs() ** f).sum() + F.softplus(x, f).sum()

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    for f in FLOATS:
        one, other = tensor(5, 7, grad=True), tensor(5, 7, grad=True)
        fn(one, f).backward()
        compiled(other, f).backward()
        assert torch.equal(one.grad, other.grad)
    assert len(recorder.graphs) == len(FLOATS)


def test_sizes_and_floats_at_once():
    programs = [(tensor(n, 3), f) for n, f in ((4, 0.5), (6, 0.25), (9, 0.1), (5, 0.7))]
    sweep(
        lambda x, f: (F.elu(x, f)[: x.size(0) // 2], torch.arange(f, x.size(0), 0.5), x ** (f * x.size(0))),
        programs,
        graphs=4,
    )


def _padded(x):
    n = x.shape[0]
    return torch.nn.functional.pad(x, (0, 0, 0, 2 ** math.ceil(math.log2(n)) - n))


LOGARITHMS = {
    "padded to a power of two": (_padded, 3),
    "of other bases": (lambda x: x * math.log(x.shape[0], 10) + math.log10(x.shape[0]) + math.log(x.shape[0], 2), 2),
    "rounded": (lambda x: (x + int(math.log2(x.shape[0])), math.floor(math.log10(x.shape[0] * 100))), 2),
    "a power of two": (lambda x: (x + 2 ** x.shape[0], 3 ** (x.shape[0] - 1)), 2),
    "of a known number": (lambda x: x * math.log(8, x.shape[0]), 2),
}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms_and_powers_of_sizes(name):
    fn, graphs = LOGARITHMS[name]
    sizes = (3, 5, 6, 7, 8, 9, 12, 16, 17, 20)
    assert len(sweep(fn, [(tensor(n, 3),) for n in sizes], graphs=None).graphs) <= graphs


@swept([(tensor(2).double(), n) for n in (3, 4, -2, 0, 1, 5, -1, 62, 63)], graphs=None, dynamic=True)
def test_powers_and_logarithms_that_python_refuses_or_makes_floats_of(x, n):
    try:
        return x + 2**n, math.log2(n), math.log(n, 10)
    except ValueError as error:
        return x, str(error)
