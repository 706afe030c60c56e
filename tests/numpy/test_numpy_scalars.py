"""numpy's scalars: as numbers in tensors, in arithmetic and in conditions. They are constants until they change."""

from __future__ import annotations

import math
import operator
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import dynamo_lite as dl
from programs import Program, check, checked, recompiling, tensor, without_breaks

KINDS = [np.float64(0.1), np.float32(0.1), np.float16(0.1), np.int64(3), np.int32(3), np.uint8(9), np.complex128(1j)]
named = pytest.mark.parametrize("scalar", KINDS, ids=lambda scalar: scalar.dtype.name)


@named
@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_tensors_have_the_dtype_of_the_data(scalar, default):
    rate = np.float64(0.5)

    def fn(x, passed):
        one = torch.tensor(scalar), torch.tensor([scalar, 1]), torch.as_tensor([[scalar, rate]]), torch.asarray(scalar)
        more = torch.tensor(passed), torch.tensor((passed, 2.0)), torch.tensor(scalar, dtype=torch.complex128)
        return *one, *more, torch.tensor([x.size(0), scalar]), x.new_tensor([1.0, 2.0]), torch.full((2,), rate)

    torch.set_default_dtype(default)
    try:
        check(without_breaks(fn), tensor(3), scalar)
    finally:
        torch.set_default_dtype(torch.float32)


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]


@named
@pytest.mark.parametrize("x", [tensor(3), tensor(3).half(), torch.arange(1, 4)], ids=lambda x: str(x.dtype))
def test_operators_with_tensors(scalar, x):
    is_complex = np.iscomplexobj(scalar)
    operators, x = OPERATORS[: 3 if is_complex else None], x.double() if is_complex else x

    def fn(x, passed, held):
        found = []
        for function in operators:
            found += [function(x, passed), function(passed, x), function(x, held["rate"]), function(scalar, x)]
        return found, torch.mul(x, passed), torch.add(x, held["rate"]), x == passed

    check(without_breaks(fn), x, scalar, {"rate": scalar})


WRITES = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.ipow]


@pytest.mark.parametrize("scalar", KINDS[:6:2], ids=lambda scalar: scalar.dtype.name)
@pytest.mark.parametrize("x", [tensor(3), tensor(3).half(), torch.arange(1, 4)], ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_writes_in_place(scalar, x, write):
    """The program writes into a tensor of the caller."""

    def fn(x, y, z, held, passed):
        return write(x, scalar), write(y, held["rate"]), write(z, passed), x

    is_error = x.dtype is torch.int64 and (scalar.dtype.kind == "f" or write is operator.itruediv)
    graphs = None if is_error else 1
    check(Program(fn, fullgraph=not is_error), x, x.clone(), x.clone(), {"rate": scalar}, scalar, graphs=graphs)


@named
def test_operators_with_numbers(scalar):
    def fn(x, passed):
        found = [passed + 1, 2 - passed, passed * 2.5, passed * passed, passed / 3, -passed, abs(passed), passed**2]
        found += [passed == 3, passed != scalar, passed + np.float64(2), sum([passed, passed]), passed * x.size(0)]
        return x + 1, found

    warns = scalar.dtype == np.uint8  # of an overflow, in each call
    check(Program(fn, fullgraph=not warns), tensor(3), scalar, graphs=None if warns else 1)


@pytest.mark.parametrize("scalar", [np.complex64(1 + 2j), np.bool_(True)])
def test_scalar_types_that_torch_converts_to_another_value(scalar):
    def fn(x, passed):
        return x + scalar, x * passed, torch.tensor([scalar]), torch.mul(x.double(), passed)

    check(fn, tensor(3), scalar, graphs=None)


USES = {
    "float": lambda x, s: x * float(s),
    "item": lambda x, s: x * s.item(),
    "branch": lambda x, s: x * 2 if s > 0.5 else x,
    "truth": lambda x, s: x * 2 if s else x,
    "membership": lambda x, s: x * 2 if s in (1, 2) else x,
    "math": lambda x, s: x * (0.5 * (1 + math.cos(math.pi * s))),
    "function of numpy": lambda x, s: x * np.sqrt(s),
    "argument": lambda x, s: (x.lerp(x + 1, s), x.clamp(max=s), torch.add(x, x, alpha=s), torch.full((2,), s)),
    "text": lambda x, s: (x + 1, f"{s:.2f}", str(s), round(s, 1)),
    "facts": lambda x, s: (x + 1, s.dtype, s.shape, isinstance(s, float)),
    "key": lambda x, s: x * {s: 2}[s],
    "extremum": lambda x, s: x * min(s, 1.0) + max(s, 0.1),
}


@pytest.mark.parametrize("fn", USES.values(), ids=USES)
def test_operations_that_need_the_value_specialize(fn):
    check(without_breaks(fn), tensor(3), np.float64(1))


SIZES = {
    "view": lambda x, s: x.view(s, 3),
    "index": lambda x, s: (x[s - 1], x[:s], x[..., s]),
    "shape": lambda x, s: torch.zeros(s, 3),
    "conversion": lambda x, s: x.view(int(s), s * 3),
    "loop": lambda x, s: [x * at for at in range(s)],
    "comparison": lambda x, s: x * 2 if x.size(0) == s else x,
    "item": lambda x, s: (10, 20, 30)[s] * x,
}


@pytest.mark.parametrize("fn", SIZES.values(), ids=SIZES)
def test_operations_that_need_an_integer_specialize(fn):
    check(without_breaks(fn), tensor(1, 3), np.int64(1))


RATES = [np.float64(each) for each in (0.5, 0.25, float("nan"), -0.0, 3.0, 0.1, 0.7, 1e300, float("inf"), 2.0)]


@checked(tensor(3), np.float64(1.5), others=[(tensor(3), each) for each in RATES], all_graphs=2)
@without_breaks
def test_arithmetic_of_a_scalar_that_changes(x, s):
    """The first value is a constant. From the second on the scalar is data."""
    return x * (1 - s) + x * (s * 2 + s / 4), -s, s


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.float32])
def test_an_argument_beside_tensors_is_data_from_the_first_call_on(kind):
    def fn(x, s, held):
        return x + s, s * x, x - held["s"], x > s

    def calls():
        return [(tensor(3), kind(n), {"s": kind(n + 1)}) for n in (3, 4, 0, 1, 7)]

    first, *others = calls()
    check(without_breaks(fn), *first, others=others, all_graphs=1)


HELD = SimpleNamespace(rate=np.float64(1))


def test_a_scalar_of_the_program_that_changes():
    """Scalars are constants until they change."""
    compiled = dl.compile(lambda x: x * HELD.rate, backend="eager", fullgraph=True)
    before = dl.counters.graphs
    for rate in (np.float64(each) for each in (1, 2, 0.5, 3, 4)):
        HELD.rate = rate
        assert torch.equal(compiled(tensor(3)), tensor(3) * rate)
    assert dl.counters.graphs == before + 2


def test_a_scalar_that_changes_in_a_container():
    def fn(x, settings):
        return x * settings["rate"] + settings["rate"] * 2

    others = [(tensor(3), {"rate": each}) for each in RATES]
    check(without_breaks(fn), tensor(3), {"rate": np.float64(1.5)}, others=others, all_graphs=2)


@pytest.mark.parametrize("fn", USES.values(), ids=USES)
def test_uses_of_a_scalar_that_changes(fn):
    others = [(tensor(3), np.float64(each)) for each in (2, 1, 2.5, 0.25, 1.75, 3, 4, 5, 6, 7, 8)]
    check(recompiling(fn), tensor(3), np.float64(1), others=others, graphs=None, all_graphs=(1, 8))


def test_an_index_that_changes():
    def fn(x, n):
        try:
            found = [x * at for at in range(n)]
        except TypeError:
            found = ["not an integer"]
        return found, x[n - 1 :]

    others = [(tensor(3), np.int64(each)) for each in (3, 1, 2)]
    check(recompiling(fn), tensor(3), np.int64(2), others=others, graphs=None)


@checked(tensor(3), np.float64(1))
@without_breaks
def test_the_class_of_a_scalar(x, s):
    return x + 1, s.__class__, s.__class__.__name__


@checked(tensor(3), np.array([1, 2]), graphs=None)
@recompiling
def test_a_computed_scalar_as_a_number_of_steps(x, a):
    try:
        return [x * at for at in range(a.sum())], np.array(object=[a, a])
    except TypeError:
        return "not an integer"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, "float32", np.dtype("float64")])
def test_limits_of_dtypes_are_read_whether_or_not_numpy_has_cached_them(dtype):
    info = np.finfo(np.float32)

    def step(x):
        limits = np.finfo(dtype)
        return x * float(limits.max) + float(limits.eps), limits.bits, float(info.tiny), limits is np.finfo(dtype)

    np.finfo._finfo_cache.clear()
    check(step, tensor(2))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, "int64"])
def test_limits_of_integers_are_one_graph_whether_or_not_numpy_has_cached_them(dtype):
    kept = np.iinfo(np.int16)

    def fn(x):
        limits = np.iinfo(dtype)
        return x + limits.max % 100 + limits.min % 7 + kept.max

    np.iinfo._min_vals.clear()
    np.iinfo._max_vals.clear()
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), compiled(torch.ones(2)))
    assert torch.equal(compiled(torch.ones(2)), fn(torch.ones(2)))
    assert dl.counters.graphs == 1


def test_tensors_made_of_scalars():
    def fn(x, a):
        n = np.int64(2)
        pair = torch.tensor([a[0], a[1]]), torch.as_tensor([[a[2], 1.0], [a.max(), a.mean()]])
        return x + torch.LongTensor([n, n * 2]), torch.FloatTensor([np.float32(1), 2.0]), *pair

    a = np.arange(6.0)
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for one, other in zip(fn(torch.ones(2), a), compiled(torch.ones(2), a)):
        assert one.dtype is other.dtype and torch.equal(one, other)


def test_errors_of_numpy_classes_are_caught_in_the_program():
    """The class of numpy's error sets its arguments in Python, and C raises it."""

    def fn(x, text):
        try:
            return x + 1, np.float64(2.5) > text
        except TypeError as error:
            return x * 2, str(error)

    check(recompiling(fn), tensor(2), "ab", others=[(tensor(2), 2.0)], graphs=None)


def _by_index(x, value):
    x[0] = value


def _by_mask(x, value):
    x[x > 0] = value


def _by_two(x, value):
    x[0, 1:] = value


def _by_method(x, value):
    x.__setitem__(..., value)


def _by_operator(x, value):
    operator.setitem(x, [0, 1], value)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64, np.int32, np.uint8, np.bool_, np.complex64])
@pytest.mark.parametrize("assign", [_by_index, _by_mask, _by_two, _by_method, _by_operator])
def test_assignments_take_the_scalars_that_torch_takes(assign, kind):
    """torch refuses scalars that are neither integers nor numbers of Python's."""

    def fn(x, value):
        try:
            assign(x, value)
        except TypeError as error:
            return x, str(error)
        return x + 1

    compiled = dl.compile(fn, backend="eager")
    for number in (1, 1, 0):
        assert repr(compiled(tensor(2, 2), kind(number))) == repr(fn(tensor(2, 2), kind(number)))
