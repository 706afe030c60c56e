"""numpy: scalars and functions of known values, arrays made from tensors and given as arguments."""

from __future__ import annotations

import math

import pytest
import torch

from collector import Programs
from programs import approximate, check, checked, ints, recompiling, tensor, without_breaks

np = pytest.importorskip("numpy")
programs = Programs()
COUNT = np.int64(3)


class Settings:
    def __init__(self):
        self.rate = np.float64(0.25)
        self.kind = np.dtype("float32")


@programs(tensor(2, 3))
def functions_of_known_numbers(x):
    n = np.prod(x.shape)
    return (
        x / np.sqrt(x.shape[-1]),
        n,
        np.sqrt(4),
        np.log2(8),
        np.ceil(2.5),
        np.maximum(2, 3),
        np.pi,
        np.inf,
        np.exp(0.0),
        int(n),
    )


@programs(tensor(2))
def scalars_compute_as_numpy_does(x):
    a = (
        np.float32(1) / np.float32(3),
        np.int64(7) // 2,
        np.float64(2) ** 3,
        -np.int32(3),
        abs(np.float32(-1)),
        np.int8(100) + 1,
    )
    b = np.float64(1) < 2, np.int64(1) == 1, np.bool_(True), 2 * np.float32(3), np.float64(0.1) + 0.2, np.uint8(3) % 2
    return x + a[1], a, b, type(b[0]) is np.bool_


@programs(tensor(3), tensor(2, seed=1))
def grids(x, y):
    a = x.numpy()
    found = np.meshgrid(a, y.numpy())
    sparse = np.meshgrid(a, a, indexing="ij", sparse=True)
    return found, type(found), len(sparse), [each.shape for each in sparse], found[0].strides


@programs(tensor(4, 4, dtype=torch.float64))
@approximate
def functions_of_modules_of_numpy(x):
    a = x.numpy()
    return (
        np.linalg.norm(a),
        np.linalg.norm(a, axis=1),
        np.linalg.det(a),
        np.linalg.multi_dot([a, a, a]),
        np.fft.fft(a).real,
        np.fft.fftshift(a),
        np.fft.ifft(np.fft.fft(a)).imag.shape,
    )


@programs(tensor(4), Settings())
@recompiling
def scalars_as_attributes(x, settings):
    return (
        x * settings.rate,
        settings.rate * 2,
        settings.kind == np.float32,
        x[: int(COUNT)],
        x[np.int64(1)],
        [5, 6, 7, 8][COUNT],
    )


@programs(tensor(2), np.float64(0.5), graphs=None, others=[(tensor(2), np.float64(1.5))])
@recompiling
def scalars_as_arguments(x, rate):
    return x * rate + 1, rate * 2


@programs(tensor(2))
def facts_of_types(x):
    d = np.dtype(np.float32)
    return (
        x + d.itemsize,
        d.name,
        d.kind,
        d == "float32",
        np.float32 == d,
        np.dtype("int64") == np.int64,
        isinstance(np.float64(1), float),
    )


@programs(tensor(2))
def numbers_converted(x):
    a = np.float64(1.5)
    return (
        x + int(a),
        float(a),
        a.item(),
        math.floor(a),
        f"{a:.2f}",
        round(a),
        bool(np.int64(0)),
        str(np.int64(3)),
        np.float32(a),
        {a: 1}[1.5],
    )


@programs(tensor(2), graphs=None)
def what_numpy_warns_of(x):
    with np.errstate(divide="ignore"):
        return x + 1, np.float64(1) / np.float64(0)


@programs(tensor(3, 4))
@approximate
def a_tensor_as_an_array(x):
    a = x.numpy()
    b = a + 1
    c = np.sin(b) * 2 - a / 3
    return c, b.shape, b.dtype, b.ndim, b.size, a


@programs(tensor(3, 4))
@approximate
def reductions_give_scalars(x):
    a = x.detach().cpu().numpy()
    return (
        a.sum(),
        a.mean(axis=0),
        np.max(a),
        a.argmax(),
        a.std(),
        a.min(axis=1, keepdims=True),
        (a > 0).any(),
        a.sum() + 1,
    )


@programs(tensor(3, 4))
def shapes_of_arrays(x):
    a = (x * 2).numpy()
    return (
        a.reshape(4, 3),
        a.T,
        a.transpose(1, 0),
        a.ravel(),
        a.flatten(),
        np.expand_dims(a, 0),
        a[None],
        a.swapaxes(0, 1),
        a.squeeze(),
    )


@programs(tensor(3, 4))
def views_share_memory(x):
    a = x.numpy()
    b = a[1:]
    c = a.T
    d = a.copy()
    e = np.asarray(a)
    return x + 1, a, b, c, d, e is a, a.reshape(-1)


@programs(tensor(3, 4))
def items_of_arrays(x):
    a = (x + 1).numpy()
    return a[0], a[1, 2], a[:, 1:3], a[-1], a[..., 0], a[1:, None], len(a), [row for row in a][1]


@programs(tensor(3, 4))
@approximate
def several_arrays(x):
    a, b = x.numpy(), (x + 1).numpy()
    return (
        np.concatenate([a, b]),
        np.stack([a, b], axis=1),
        np.where(a > 0, a, b),
        a @ b.T,
        np.maximum(a, b),
        np.dot(a, b.T),
        np.clip(a, 0, 1),
    )


@programs(tensor(3), graphs=None)
def tensors_made_of_arrays(x):
    a = (x * 2).numpy()
    return torch.as_tensor(a) + 1, torch.tensor(a) * 2, torch.from_numpy(a)


@programs(tensor(3))
@approximate
def arrays_made_inside(x):
    a = np.arange(3) * 2.0
    b = np.array([1.0, 2.0, 3.0])
    c = np.ones(3, dtype=np.float32) + np.zeros(3, np.float32)
    d = np.linspace(0, 1, 3)
    return x + torch.from_numpy(c), a, b, d + b, np.eye(2), np.full((2, 2), 7)


@programs(tensor(3, 4))
def arrays_of_other_types(x):
    a = x.numpy()
    b = a.astype(np.float64)
    c = (a > 0).astype(np.int64)
    return b * 2, c.sum(), b.dtype == np.float64, c.dtype, a.astype("float32"), (a > 0) & (a < 1), ~(a > 0)


@programs(ints(5))
def arrays_of_integers(x):
    a = x.numpy()
    return a + 1, a // 2, a % 3, a * 2.5, -a, a**2, a == 3, a << 1


@programs(tensor(3), graphs=None)
def arrays_with_known_data(x):
    a = (x + 1).numpy()
    if a[0] > 100:
        return a
    return a.tolist(), float(a[0]), a.item(1), np.allclose(a, a), np.nonzero(a > 0)


@programs(tensor(3, grad=True), graphs=None)
def an_array_of_what_needs_a_gradient(x):
    y = x * 2
    try:
        return y.numpy()
    except RuntimeError as error:
        return y.detach().numpy(), "grad" in str(error)


@programs(tensor(3), graphs=None)
def functions_of_tensors(x):
    return np.sin(x), np.sum(x), np.asarray(x), np.array([1, 2]) + 1


@programs(tensor(2, 3), np.arange(6.0).reshape(2, 3), graphs=1)
@approximate
def an_array_as_an_argument(x, a):
    b = a * 2 + 1
    return x * torch.from_numpy(b), b, a.sum(), a


@programs(np.arange(6.0).reshape(2, 3).T, graphs=None)
@approximate
def an_array_laid_out_by_columns(a):
    return a + 1, a.copy().strides, a.sum(axis=1)


def test_an_array_that_shares_memory_with_a_tensor():
    def fn(x):
        a = x.numpy()
        return inner(x, a)

    def inner(x, a):
        x.add_(1)
        return a + 1, x

    def program(x):
        a = x.numpy()
        return inner(x, a), fn(x)

    check(program, tensor(3), graphs=None)


def test_one_array_under_two_names():
    a = np.ones(3)
    check(lambda a, b: (a + b, a is b), a, a, graphs=None, others=[(np.ones(3), np.zeros(3))])


def test_an_array_in_an_object():
    class Holder:
        def __init__(self):
            self.grid = np.linspace(0, 1, 4)

    def fn(x, holder):
        return x * torch.from_numpy(holder.grid * 2), holder.grid.max()

    check(approximate(fn), tensor(4), Holder(), graphs=1)


@programs(tensor(2), {"mean": np.float32(0.5), "grid": np.ones(2)}, graphs=None)
def arrays_in_a_container(x, table):
    return x - table["mean"], table["grid"] * 2, x + torch.as_tensor(table["grid"])


@programs(tensor(2), np.array(["a", "b"]), graphs=None)
def an_array_of_text(x, names):
    return x + len(names), names[0], names == "a"


def test_an_array_of_another_shape_or_type():
    others = [(tensor(3), np.ones(3)), (tensor(2), np.ones(2, np.float32)), (tensor(2), np.ones((2, 4))[:, 0])]
    check(lambda x, a: x + torch.from_numpy(a * 2), tensor(2), np.ones(2), graphs=None, others=others)


def arithmetic(x, s):
    y = x.clone()
    y += s
    return x + s, s + x, x * s, s - x, x - s, x < s, s <= x, x == s, y


def quotients(x, s):
    return x / s, s / x, x % s, x // s, x**2 % s


_TENSORS = [tensor(3), tensor(3).half(), torch.arange(3)]
_SCALARS = [np.float64(0.1), np.float32(0.1), np.int64(3), np.uint64(200), np.bool_(True)]


@pytest.mark.parametrize("x", _TENSORS, ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("scalar", _SCALARS, ids=lambda scalar: scalar.dtype.name)
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("fn", [arithmetic, quotients])
def test_scalars_beside_tensors(fn, x, scalar, computed):
    def of_array(x, a):
        return fn(x, a[0])

    check(recompiling(of_array if computed else fn), x, np.array([scalar]) if computed else scalar, graphs=None)


def test_scalars_that_differ():
    others = [(tensor(3), np.float64(number)) for number in (0.5, 2.5, float("nan"), -0.0)]
    check(without_breaks(lambda x, s: (x * s + 1, x < s, s)), tensor(3), np.float64(1.5), others=others, all_graphs=1)


@checked(torch.arange(4), np.int64(2), np.array([0.1, 0.2]), graphs=None)
@recompiling
def test_scalars_as_arguments_of_functions(x, n, a):
    s = np.sum(a)
    return torch.add(x, s), torch.where(x > 1, s, 0.0), torch.clamp(x, n), x.add(n), torch.mul(x, n)


@programs(tensor(3), np.ones((2, 3)))
def arrays_that_no_operator_takes(x, a):
    return x + 1, torch.as_tensor(a), a.reshape(2, 3), torch.asarray(a)


@programs(tensor(3), np.arange(6.0).reshape(2, 3).T, graphs=1)
def copies_of_arrays_and_scalars(x, a):
    copied = torch.tensor(a), torch.tensor(a, dtype=torch.float16), torch.tensor(a[0, 1]), torch.as_tensor(a.sum())
    a_view = torch.as_tensor(a, dtype=torch.float64)
    return x + copied[0].sum(), copied, a_view, torch.asarray(a, dtype=torch.int64), torch.tensor(a[0]).add_(1)


@programs(np.arange(1.0, 7).reshape(2, 3), np.zeros((2, 3)), graphs=None)
def a_function_writes_into_an_argument_by_its_place(a, out):
    root = np.sqrt(a, out)
    seen = root is out, out.tolist()
    total = np.add(a, a, out)
    column = np.zeros(3)
    np.sum(a, 0, None, column)
    return seen, total is out, column, torch.from_numpy(a) + 1


@programs(np.array([7, 8, 9]), graphs=1)
def integers_and_known_numbers(a):
    return a // 2, a % 3, a**2, np.mod(a, 4), np.power(a, 3), torch.from_numpy(a) + 1


@programs(np.arange(6.0).reshape(2, 3), np.array([3, 0, 2]), graphs=1)
def arrays_are_padded_and_gathered(a, i):
    padded = np.pad(a, 1), np.pad(a, ((1, 0), (0, 2)), constant_values=3), np.pad(i, (1, 2), "constant")
    rows = np.array([a, a + 1]), np.asarray((i, i)), np.array([a.sum(), 2 * a.sum()])
    return padded, rows, np.ascontiguousarray(a), np.ascontiguousarray(a.T)


@programs(tensor(2), graphs=1)
def known_values_make_arrays(x):
    return x + 1, np.add([1, 2], 1.5), np.append([1], 2), np.hamming(3), np.meshgrid([1, 2], [3])


@programs(np.arange(3), np.array([1, 2, 4], dtype=np.int8), graphs=1)
def integers_are_divided(a, b):
    return a / 3, 2 / b, a / b, np.true_divide(b, 2.5), np.divide(a, b), np.cos(a / 3 * np.pi) ** 2, a / True


@programs(tensor(3), graphs=None)
def views_that_may_not_be_written_to(x):
    a, messages = np.eye(3), []
    for view in (np.broadcast_to(a, (3, 3)), np.broadcast_to(a[0], (2, 3)), np.diagonal(a), a.diagonal(1)):
        try:
            view += 1
        except ValueError as error:
            messages.append(str(error))
    return x + 1, a, messages, np.diagonal(a).flags.writeable


@programs(tensor(3), graphs=None, others=[(torch.zeros(3),)])
def truth_values_that_are_compared(x):
    """numpy has two objects of them in all: a result that is an argument's object may be of another."""
    a = x.detach().numpy()
    big, known, total = (a > 0.5).any(), np.isnan(a[0]), a.sum() > 0
    pairs = [(one, other) for one in (big, known, total, a[0]) for other in (big, known, total, a[0])]
    return [(one == other, one != other, one <= other, one * other) for one, other in pairs], [
        one & big for one in (big, known)
    ]


@programs(tensor(2), np.arange(2), graphs=None)
def lists_that_arrays_are_added_to(x, a):
    one, two, three = [1, 2], [1, 2], [1, 2]
    one += a
    two *= a
    three += a.tolist()
    return x + 1, one, two, three, (3,) * a, [1, 2] + a, a * (4, 5)


@programs(np.arange(5.0))
def where_a_tensor_of_an_array_begins(a):
    t = torch.as_tensor(a)
    return t + 1, t.storage_offset(), torch.from_numpy(a).storage_offset(), t[1:].storage_offset(), t[2:] * 2


@pytest.mark.parametrize("case", programs.parameters())
def test_numpy(case):
    case.run()
