"""Floats that change from call to call: one recompilation, and eager's types and bits in each call."""

import itertools
import math

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import tensor
from sweeps import both, sweep, swept_both

FLOATS = [0.5, 0.1, 1 / 3, -2.5, 1.0, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e30, 5e-324]
REDUCED = [torch.float16, torch.bfloat16]
DTYPES = [torch.float32, torch.float64, *REDUCED, torch.complex64, torch.int64, torch.uint8, torch.bool]


def calls(x, floats=FLOATS):
    return [(x, each) for each in floats]


def of_type(dtype, ndim):
    x = tensor(5, 3) * 3
    return (x if ndim else x[0, 0].clone()).to(dtype)


# -- operators ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", [2, 0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype, ndim):
    def fn(x, f):
        return x * f, f * x, x + f, f + x, x / f, f / x, torch.mul(x, f), x.add(f), torch.div(x, f)

    if dtype in REDUCED and not ndim:  # eager uses the whole float, which no tensor has
        both(fn, calls(of_type(dtype, ndim), FLOATS[:4]), graphs=4, fewer=0)
    else:
        both(fn, calls(of_type(dtype, ndim)))


@pytest.mark.parametrize("ndim", [2, 0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_comparisons(dtype, ndim):
    def fn(x, f):
        return x < f, f < x, f >= x, torch.gt(x, f), x.le(f)

    both(fn, calls(of_type(dtype, ndim), FLOATS[:5]))


@swept_both(calls(tensor(5, 3)))
def test_writes(x, f):
    x = x * 1
    x *= f
    x += f
    x.sub_(f).div_(3 - f)
    return x.mul_(1 - f)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, f: x.subtract(f),
        lambda x, f: f**x,
        lambda x, f: torch.pow(f, x),
        lambda x, f: (x % f, f % x),
        lambda x, f: x.floor_divide(f),
        lambda x, f: (x == f, f != x),
        lambda x, f: x + torch.arange(0.0, 3.0, f)[0],
    ],
)
def test_operators_for_which_each_float_compiles_again(fn):
    """Programs don't call these operators with floats that change."""
    floats = [0.5, 0.1, 1 / 3, 2.5]
    both(fn, calls(tensor(5, 3), floats), graphs=4, fewer=0)
    sweep(fn, calls(tensor(5, 3), floats), graphs=4, backend="aot_eager")


def test_operators_that_need_the_number():
    """A compiler of these operators reads the number."""
    floats = [0.5, 2.0, 3.0]
    sweep(lambda x, f: x**f, calls(tensor(3).abs(), floats), graphs=3, backend="aot_eager")
    for x in (tensor(3, 4).half(), tensor(3, 1).expand(3, 4)):
        sweep(lambda x, f: torch.add(x.relu(), x, alpha=f), calls(x, floats), graphs=3, backend="aot_eager")
    for backend in (None, "aot_eager"):
        sweep(
            lambda x, f: x.to(torch.int32).mul(f).to(torch.int32).fill_(f),
            calls(tensor(3), floats),
            graphs=3,
            backend=backend,
        )


FACTORS = [0.1, 1 / 3, -0.05, 12.3, 1e-8, 1.0, 0.0, -0.0, 3e38, 1e-46]


@pytest.mark.on_cpu  # a kernel on a GPU multiplies and adds in one rounding, where a factor is a number
@pytest.mark.parametrize("size", [7, 1003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_in_sums(dtype, size):
    def fn(x, f):
        y = x.flip(0).t().contiguous().t() * 3
        z = x.clone().add_(y, alpha=f).sub_(y, alpha=f)
        return torch.add(x, y, alpha=f), x.sub(y, alpha=f), z, torch.addcmul(x, y, z, value=f), x.addcdiv(y, z, value=f)

    both(fn, calls(tensor(3, size).to(dtype), FACTORS))


@pytest.mark.on_cpu  # a kernel on a GPU multiplies and adds in one rounding, where a factor is a number
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_of_lists(dtype):
    def fn(x, f):
        xs, ys = [x, x[0]], [x.cos(), x[0].sin()]
        sums = torch._foreach_add(xs, ys, alpha=f), torch._foreach_sub(ys, xs, alpha=f), torch._foreach_add(xs, f)
        products = torch._foreach_mul(xs, f), torch._foreach_div(ys, f)
        twice = torch._foreach_addcmul(xs, xs, ys, value=f), torch._foreach_addcdiv(xs, ys, torch._foreach_exp(ys), f)
        torch._foreach_add_(ys, xs, alpha=f)
        torch._foreach_mul_(ys, f)
        return sums, products, twice, ys

    both(fn, calls(tensor(3, 1003).to(dtype), FACTORS))


def test_factors_in_gradients():
    def fn(x, f):
        return torch.add(x.sin(), x.cos(), alpha=f).sub(x, alpha=f)

    compiled = dl.compile(fn, backend="eager")
    one, other = (tensor(3, 1003, grad=True) for _ in range(2))
    for f in FACTORS[:5]:
        (fn(one, f) * 3).sum().backward()
        (compiled(other, f) * 3).sum().backward()
    Pairing().compare(one.grad, other.grad, "gradient")
    assert dl.counters.graphs == 2


def test_bounds_and_weights():
    def fn(x, f):
        bounded = x.clamp(max=f), torch.clamp(x, -f, f), x.clamp(0.1, f), x.clamp_min(0.2)
        chosen = (
            torch.where(x > f, x, f),
            torch.where(x > 0, f, x),
            x.where(x > 0, f),
            torch.where(x[0, 0] > 0, x[0, 0], f),
        )
        return bounded, chosen, torch.lerp(x, x * 2, f)

    floats = [0.5, 0.1, 1 / 3, -2.5, 1.0, 0.0, 1e30]
    for dtype in (torch.float32, torch.float64):
        both(fn, calls(tensor(5, 3).to(dtype), floats))
    sweep(fn, calls(tensor(5, 3), [*floats, math.inf, math.nan]), graphs=4)


def test_tensors_made_of_floats():
    def fn(x, f):
        made = torch.tensor(f), torch.tensor([f, 2, 0.5]), torch.tensor((f,), dtype=torch.float64)
        return *made, torch.full((3,), f), torch.full_like(x, f), x.new_full((2,), f), torch.full((2,), f).double()

    both(fn, calls(tensor(5, 3), [0.5, 0.1, 1 / 3, -2.5, 1.0, 0.0, 1e30]))
    both(lambda x, f: torch.tensor(f).mul_(2) + x, calls(tensor(3)))


@swept_both([(tensor(n % 7 + 3), n) for n in (4, 6, 9, 100, -5, 2**40)])
def test_tensors_made_of_integers(x, n):
    made = (
        torch.tensor(n),
        torch.tensor([n, 3, n * 2]),
        torch.tensor([n, 0.5]),
        torch.tensor([n], dtype=torch.float32),
    )
    return *made, torch.full((3,), n), x.new_full((2,), n), x * n + torch.tensor(n), torch.tensor([x.size(0), n])


def test_tensors_made_of_numbers_through_aot():
    def fn(x, f, n):
        return x + torch.tensor([f, n]), torch.full((3,), f), x.clamp(-f, f), torch.lerp(x, x * 2, f), torch.tensor([n])

    calls = [(tensor(5, 2), f, n) for f, n in ((0.5, 4), (0.1, 5), (0.3, 9))]
    compiled = dl.compile(fn, backend="aot_eager")
    for args in calls:
        torch.testing.assert_close(compiled(*args), fn(*args))
    assert dl.counters.graphs == 2


def test_a_write_beside_a_float():
    def fn(x, f):
        x.mul_(f)
        return x + f

    for dynamic in (None, True):
        compiled = dl.compile(fn, backend="eager", dynamic=dynamic)
        for f in (0.5, 0.3, 0.7):
            one, other = tensor(4), tensor(4)
            Pairing().compare(fn(one, f), compiled(other, f), "result")
            assert torch.equal(one, other)


# -- arithmetic of floats ----------------------------------------------------------------------------------------------


@swept_both(calls(tensor(3)))
def test_arithmetic_of_floats(x, f):
    g = (f + 0.1) - 0.1
    return x * g, x * (g * 3 / 7), -f, abs(f), f * 2, 1 - f, f / 3, g, x.double() * (f * 0.1 * 0.1)


@swept_both(calls(tensor(3), [0.5, 0.1, 1 / 3, 7.7]))
def test_functions_of_floats(x, f):
    return x * math.sqrt(f), x * f**2, x * 0.9**f, x * math.exp(f), x * math.log(f), x * math.cos(f), math.fabs(f)


@swept_both([(tensor(3), f) for f in [0.5, 0.25, -1.0, 4.0, 0.0, 1e9, 9.0]], graphs=None)
def test_operations_that_python_refuses_raise(x, f):
    try:
        return x * math.sqrt(f), x / (1 / f), x * 2.0**f
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return x, type(error).__name__


@swept_both(calls(tensor(8), [0.9, 0.5, 0.7, 0.75, 1.3]))
def test_integers_of_floats(x, f):
    return x[: int(f * 4)], x * math.floor(f * 10), round(f * 8), x + math.ceil(f * 3.3), math.trunc(f) + 2


@swept_both([(tensor(n, 3),) for n in (4, 6, 9, 13, 100)])
def test_floats_of_sizes(x):
    n = x.size(0)
    y = x.double()
    return y * (n * 0.1 * 0.1), y / (n / 3), y * (3 / n), x + n**2, n / 7, x[: round(n / 3)], x * n**0.5, x * n**-1


@swept_both([(tensor(3), f, n) for f, n in ((0.5, 4), (0.1, 5), (0.3, 6), (1e16, 7), (-0.0, 9))])
def test_sums_of_floats(x, f, n):
    return x * sum([f, 0.1, 0.2, 1e16, -1e16]), sum([n, 0.1, f]), sum([n, n, 3]), sum([x, x], f)


LEAST = [(tensor(3), *pair) for pair in itertools.product(FLOATS[:-2], [0.25, 0.0, -0.0, math.nan, 7.0])]


@swept_both(LEAST, graphs=3, fewer=2)
def test_least_and_greatest_of_floats(x, f, other):
    """Which of two floats is returned depends on their order where they are equal, or not a number."""
    clamped = max(0.1, min(1.0, f))
    return x * clamped, max(f, other), min(f, other), max(other, f), min([f, 0.5, other]), max(f, 0.0), min(-0.0, f)


@swept_both([(tensor(3), step) for step in (5, 6, 20, 7, 30, 2)])
def test_a_schedule_of_learning_rates(x, step):
    rate = 0.1 * min(1.0, (step + 1) / 10)
    annealed = 0.05 * (1 + math.cos(math.pi * min(1.0, step / 25)))
    return x * rate - annealed, x * (512**-0.5) * min(step**-0.5, step * 4**-1.5)


def test_least_and_greatest_of_an_int_and_a_float():
    """The result has the type of one of the two, so each outcome is compiled."""
    given = [(tensor(3).long(), f) for f in (0.5, 0.25, -0.5, -0.25, 1.5, 2.5)]
    sweep(lambda x, f: (x * max(0, f), min(f, 1)), given, graphs=4)


# -- the program looks at them -----------------------------------------------------------------------------------------


def test_branches():
    sweep(lambda x, f: x * f if f > 0.2 else x + f, calls(tensor(3)), graphs=3)
    sweep(lambda x, f: x * f if not f <= 0.2 else x + f, calls(tensor(3), [0.5, 0.3, math.nan, 0.1, 0.7]), graphs=3)
    sweep(lambda x, f: x * f if f else x + 1, calls(tensor(3), [0.5, 0.3, 0.0, -0.0, 0.7]), graphs=3)
    sweep(
        lambda x, f, n: x * max(f, 0.2) if n * f < 3 else x - 1,
        [(tensor(3), f, 4) for f in (0.3, 0.4, 0.5, 5.0)],
        graphs=3,
    )


def test_texts():
    sweep(lambda x, f: (x * f, f"{f:.3f}", str(f), repr(f + 1)), calls(tensor(3), [0.5, 0.25, 0.1, -0.0]), graphs=2)
    sweep(lambda x, f: (x * f, f"{f}".index("5")), calls(tensor(3), [0.5, 0.25, 0.15]), graphs=3)


def test_keys_specialize_the_float():
    sweep(lambda x, f: x * {0.5: 1, 0.25: 2, 0.1: 3}[f], calls(tensor(3), [0.5, 0.25, 0.1]), graphs=3)
    sweep(lambda x, f: x * f if (f, 1) == (0.5, 1) else x - 1, calls(tensor(3), [0.5, 0.25, 0.1, 0.2]), graphs=2)


def test_specialized_bit_for_bit():
    sweep(lambda x, f: (x + 1, f.hex(), x * f), calls(tensor(3), [1.5, 0.0, -0.0, math.nan, 0.0, -0.0]), graphs=4)


def test_floats_are_returned_as_they_are():
    def fn(x, f, options):
        return x + f, f, options["rate"], options["rate"] * 2, lambda: f

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for f in FLOATS:
        rate = f / 3
        found = compiled(tensor(2), f, {"rate": rate})
        Pairing().compare(fn(tensor(2), f, {"rate": rate})[:4], found[:4], "result")
        assert found[1] is f and found[2] is rate and found[4]() is f


def test_across_a_break():
    def fn(x, f):
        y = x * f
        dl.graph_break()
        return y + f * 2, f

    compiled = dl.compile(fn, backend="eager")
    graphs = []
    for f in (0.5, 0.25, 0.1, 0.3):
        before = dl.counters.graphs
        Pairing().compare(fn(tensor(3), f), compiled(tensor(3), f), "result")
        graphs.append(dl.counters.graphs - before)
    assert graphs == [2, 2, 0, 0]


def test_other_types():
    class Rate(float):
        pass

    sweep(lambda x, f: x * f, [(tensor(2), f) for f in (0.5, 0.25, 3, 4, True, Rate(0.5), 0.7)], graphs=5)


def test_floats_are_constants_with_dynamic_false():
    sweep(lambda x, f: x * f, calls(tensor(3), [0.5, 0.25, 0.1]), graphs=3, dynamic=False)


def test_computed_integers_that_decide():
    sweep(
        lambda x, f: x * f if round(f * 3) == 2 else x - 1, calls(tensor(3), [0.6, 0.7, 0.1, 0.2, 0.9, 0.65]), graphs=3
    )
    sweep(
        lambda x: x * 2 if int(x.size(0) * 0.5) % 2 else x - 1, [(tensor(n),) for n in (6, 7, 10, 8, 9, 12)], graphs=3
    )


def test_guards_in_the_users_terms():
    def fn(x, f, n):
        return x * f if f > 0.2 and n * f < 100 and round(f * 3) == 2 else x

    texts = dl.explain(fn, dynamic=True)(tensor(3), 0.6, 7).guards
    assert "f > 0.2" in texts and "(n * f) < 100" in texts, texts
    assert "f is exactly a float" in texts
    assert any("round((f * 3))" in text and "== 2" in text for text in texts), texts


# -- backends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_types_and_bits_through_aot(dtype):
    def fn(x, f):
        return x * f, f / x, (x + f) / (1 - f), x < f

    sweep(fn, calls((tensor(5, 3) * 3).to(dtype), [*FLOATS[:4], *FLOATS[5:]]), backend="aot_eager")


@pytest.mark.on_cpu  # a kernel on a GPU multiplies and adds in one rounding, where a factor is a number
def test_training():
    linear = torch.nn.Linear(3, 3)

    def fn(x, f):
        return (linear(x) * f).tanh().mul(1 / f).sum() / f

    compiled = dl.compile(fn, backend="aot_eager")
    for f in (0.3, 0.7, 1.1, 2.9):
        x = tensor(5, 3).requires_grad_()
        expected = torch.autograd.grad(fn(x, f), [x, linear.weight])
        found = torch.autograd.grad(compiled(x, f), [x, linear.weight])
        assert all(map(torch.equal, expected, found))
        torch.testing.assert_close(expected, found)
    assert dl.counters.graphs == 2


def test_through_inductor():
    def fn(x, f):
        return x * f, (f / x).sum(), x > f, x[: int(x.size(0) * f)]

    compiled = dl.compile(fn, backend="inductor")
    for f in (0.5, 0.3, 0.7, 0.9):
        torch.testing.assert_close(compiled(tensor(8, 3), f), fn(tensor(8, 3), f))
    assert dl.counters.graphs == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, a, b: x + (a in [b]),
        lambda x, a, b: x + ((a, 1) == (b, 1)),
        lambda x, a, b: x + len({a, b}),
        lambda x, a, b: x + {a: 1}.get(b, 2),
        lambda x, a, b: x + [a, b].count(b) + [a, b].index(b),
    ],
)
def test_nan_is_compared_by_identity(fn):
    nan = math.nan
    pairs = [(0.5, 0.7), (0.25, 0.1), (nan, nan), (nan, float("nan")), (0.3, nan), (0.3, 0.3), (0.4, 0.6), (nan, 0.1)]
    both(fn, [(tensor(2), *pair) for pair in pairs], graphs=None)
