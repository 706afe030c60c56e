"""torch's default dtype and device, set by the program."""

from __future__ import annotations

import contextlib

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, check, checked, compiled_by, tensor


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def clean_defaults():
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    while torch._C._len_torch_function_stack():  # torch forgets one that was around `set_default_device`
        torch.overrides._pop_mode()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtype_set_and_left(dtype):
    def fn(x):
        torch.set_default_dtype(torch.float32)
        a = torch.ones(2)
        torch.set_default_dtype(dtype)
        return a, torch.ones(2) * x, torch.tensor([1.5, 2]), torch.get_default_dtype()

    check(fn, tensor(2), graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_dtype_set_for_a_while(x):
    with default_dtype(torch.float64):
        a = torch.zeros(3), torch.full((2,), 1.5), torch.arange(0, 1, 0.25), torch.full((2,), 3), torch.eye(2)
        b = torch.linspace(0, 1, 3), torch.rand(2), torch.randint(3, (2,)), torch.ones(2, dtype=torch.float16)
        c = torch.zeros_like(x), x.new_ones(2), torch.as_tensor(2.5), torch.scalar_tensor(1), torch.Tensor([1, 2])
    return a, b, c, torch.ones(1)


@checked(tensor(3), graphs=None, breaks=None)
def test_dtype_left_by_an_exception(x):
    try:
        with default_dtype(torch.float64):
            y = torch.ones(3)
            raise ValueError(x.shape)
    except ValueError as error:
        return y + x, torch.ones(1), error.args


@checked(tensor(3), graphs=3, breaks=3)
def test_dtype_and_a_break(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(3) + x
        print(torch.get_default_dtype())
        y = y + torch.ones(3)
    finally:
        torch.set_default_dtype(before)
    return y, torch.ones(3) + x


@checked(tensor(3), graphs=1, breaks=1)
def test_dtype_that_is_none(x):
    y = x + 1
    torch.set_default_dtype(torch.int64)
    return y


@checked(torch.arange(4), graphs=(0, 2), breaks=(1, 3))
def test_results_of_the_default_dtype(n):
    with default_dtype(torch.float64):
        y = n.sin()
    return y, n.cos()


@checked(torch.arange(4), tensor(4), graphs=(1, 3), breaks=(1, 3))
def test_quotients_of_the_default_dtype(n, x):
    with default_dtype(torch.float64):
        y = torch.ones(4) * 2
        z = n / 3
    return y, z, torch.where(n > 1, 1.0, 2.0), x / 3


@checked(torch.arange(4), tensor(4), graphs=(1, 3), breaks=(1, 3))
def test_dtype_and_out(n, x):
    with default_dtype(torch.float64):
        y = torch.ones(4)
        torch.sin(n, out=x)
    return y + x


def test_dtype_that_another_call_finds():
    def fn(x):
        before = torch.ones(2).dtype
        torch.set_default_dtype(torch.float64)
        return x + 1, before, torch.ones(2).dtype

    compiled = dl.compile(fn, backend="eager")
    for before in (torch.float32, torch.float64, torch.float64, torch.float32):
        torch.set_default_dtype(before)
        assert compiled(torch.ones(3, dtype=torch.float32))[1:] == (before, torch.float64)
        assert torch.get_default_dtype() is torch.float64


def test_dtype_that_is_refused_in_an_operators_function():
    def fn(x):
        def true(a):
            torch.set_default_dtype(torch.float64)
            return a + torch.ones(3)

        return torch.cond(x.sum() > 100, true, lambda a: a - 1, (x * 2,))

    with pytest.raises(dl.exc.Unsupported, match="set_default_dtype"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert torch.get_default_dtype() is torch.float32


def test_device_set_and_left():
    def fn(x):
        torch.set_default_device("meta")
        return x * 2, torch.ones(2).device

    compiled = dl.compile(fn, backend="eager")
    for before in ("cpu", "cpu", None, "meta", "meta"):
        torch.set_default_device(before)
        assert compiled(torch.ones(3, device="cpu"))[1] == torch.get_default_device() == torch.device("meta")


@checked(tensor(3), graphs=None, breaks=None)
def test_device_set_in_a_context(x):
    with torch.device("cpu"):
        y = x + torch.ones(3)
        torch.set_default_device("meta")
    return y, torch.ones(2)


def test_no_device_where_there_was_one():
    def fn(x):
        torch.set_default_device(None)
        return x + 1, torch.ones(2)

    compiled = dl.compile(fn, backend="eager")
    for before in ("meta", "meta", None):
        torch.set_default_device(before)
        assert compiled(torch.ones(2, device="cpu"))[1].device.type == "cpu"
        assert torch.get_default_device().type == "cpu"


@checked(tensor(3), graphs=None, breaks=None)
@compiled_by("aot_eager")
def test_a_compiler_makes_what_the_default_was(x):
    with default_dtype(torch.float64):
        y = torch.ones(3)
    return y + x


def test_exports_refuse_what_stays_set():
    def fn(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(3)

    with pytest.raises(dl.exc.Unsupported, match="set_default_dtype"):
        dl.export(fn, tensor(3))
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.on_cpu
def test_numbers_that_change_under_a_default_device():
    def fn(x, n):
        return x * torch.tensor(n) + torch.as_tensor([n, 1.0]) + torch.full((2,), n)

    recorder = Recorder()
    with torch.device("cpu"):
        compiled = dl.compile(fn, backend=recorder, fullgraph=True)
        for n in (1.5, 2.5, 3.5, 4.5):
            assert torch.equal(compiled(torch.ones(2), n), fn(torch.ones(2), n))
    assert len(recorder.graphs) == 2
