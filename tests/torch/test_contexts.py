"""torch's contexts and settings: autocast, inference mode, attention backends, default dtype and device."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynamo_lite as dl
from programs import approximate, check, checked, compiled_by, tensor


@checked(tensor(2, 2), False, graphs=4, breaks=3)
@checked(tensor(2, 2), True, graphs=2, breaks=1, operators=4)
def test_autocast_left_after_a_break(x, stop):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        y = x @ x
        dl.graph_break()
        z = y @ x
        with torch.autocast("cpu", enabled=False):
            w = x @ x
    after = x @ x, w, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    if stop:
        return z, after
    with torch.autocast("cpu", dtype=torch.bfloat16):
        dl.graph_break()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        v = x @ x
        dl.graph_break()
        u = v @ x
    return z, after, v, u, u.float() @ x


@checked(tensor(2, 2), tensor(2, 2, seed=1, grad=True), graphs=2, breaks=1)
def test_autocast_left_after_a_break_forgets_what_it_cast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        dl.graph_break()
        y = y @ w
    with torch.no_grad():
        w.add_(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ w
    with torch.no_grad():
        w.mul_(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return y, z, x @ w


def _depth():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@checked(tensor(4, 4), graphs=2, breaks=1)
@compiled_by("aot_eager")
@approximate
def test_autocast_left_after_a_break_by_backends(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        dl.graph_break()
        z = y @ x
    return z, x @ x, z.float() @ x


@pytest.mark.fails_on_data
def test_errors_after_autocast_is_left():
    def fn(x, i):
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
                dl.graph_break()
                z = y @ x
            return z, x[i]
        except IndexError as error:
            return str(error), torch.is_autocast_enabled("cpu"), x @ x

    check(fn, tensor(2, 2), torch.tensor([1]), graphs=2, breaks=1, others=[(tensor(2, 2), torch.tensor([5]))])
    assert _depth() == 0
    with pytest.raises(ValueError, match="left"):
        dl.compile(_leaves_by_an_error, backend="eager")(tensor(2, 2))
    assert not torch.is_autocast_enabled("cpu") and _depth() == 0


def _leaves_by_an_error(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        dl.graph_break()
        if y.dtype == torch.bfloat16:
            raise ValueError("left")
    return y


@checked(tensor(2, grad=True), operators=2)
def test_set_grad_enabled_as_a_decorator_inside(x):
    @torch.set_grad_enabled(False)
    def inner(y):
        return y * 2, torch.is_grad_enabled()

    return inner(x), torch.is_grad_enabled(), x * 3


def test_autocast_by_an_argument():
    def fn(x, dtype, enabled):
        with torch.amp.autocast("cpu", dtype=dtype, enabled=enabled):
            return x @ x, torch.get_autocast_dtype("cpu")

    others = [(tensor(3, 3), torch.float16, True), (tensor(3, 3), torch.bfloat16, False)]
    check(fn, tensor(3, 3), torch.bfloat16, True, others=others, all_graphs=3)


@checked(tensor(3))
def test_inference_mode_and_its_tensors(x):
    with torch.inference_mode():
        y = x * 2
        y.add_(1)
    return y, y.is_inference(), torch.is_inference_mode_enabled()


def test_called_within_inference_mode_and_without():
    def fn(x):
        return x * 2

    def around(x, on):
        with torch.inference_mode() if on else contextlib.nullcontext():
            return fn(x)

    check(around, tensor(3), True, others=[(tensor(3), False), (tensor(3), True)], graphs=(1, 2), breaks=None)


def test_inference_tensor_written_outside_of_inference_mode():
    with torch.inference_mode():
        made = torch.ones(3)

    def fn(x):
        x.add_(1)
        return x * 2

    fn_of = torch.inference_mode()(lambda: made.clone())

    check(lambda: fn(fn_of()), graphs=None, breaks=None)


@checked(tensor(1, 2, 4, 8))
def test_sdpa_kernel(q):
    with sdpa_kernel(SDPBackend.MATH):
        a = F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        b = F.scaled_dot_product_attention(q, q, q)
    return a, b, torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.fails_on_data
def test_attention_backends_after_a_failure_on_the_data():
    def fn(q, i):
        try:
            with sdpa_kernel(SDPBackend.MATH):
                a = F.scaled_dot_product_attention(q, q, q)
                b = a[:, :, i]
        except IndexError:
            b = q
        return b, torch.backends.cuda.flash_sdp_enabled()

    q = tensor(1, 2, 4, 8)
    check(fn, q, torch.tensor([1]), others=[(q, torch.tensor([9]))])


def test_sdpa_kernel_around_the_call():
    def fn(q):
        return F.scaled_dot_product_attention(q, q, q)

    def around(q):
        with sdpa_kernel(SDPBackend.MATH):
            return fn(q) + 1

    check(around, tensor(1, 2, 4, 8), graphs=(1, 3), breaks=None)


@checked(tensor(3), graphs=(1, 3), breaks=None)
def test_device_context(x):
    with torch.device("meta"):
        a = torch.ones(3)
        b = torch.zeros(2, device="cpu")
        c = x + 1
    return a.device, a, b, c, torch.ones(2)


@checked(tensor(3), graphs=(1, 3), breaks=None)
def test_device_context_of_every_factory(x):
    with torch.device("meta"):
        made = [
            torch.empty(2),
            torch.full((2,), 1.0),
            torch.arange(3),
            torch.linspace(0, 1, 3),
            torch.eye(2),
            torch.rand(2),
            torch.randn(2),
            torch.tensor([1.0, 2.0]),
            torch.empty_like(x),
            torch.zeros_like(x),
            x.new_ones(2),
            torch.scalar_tensor(2.0),
            torch.tril_indices(2, 2),
        ]
    return [each.device.type for each in made], x + 1


def test_default_device_set_outside():
    def fn(x):
        return x + 1, torch.ones(2).device.type, torch.get_default_device()

    torch.set_default_device("meta")
    try:
        check(fn, torch.ones(3, device="cpu"), graphs=1)
    finally:
        torch.set_default_device(None)


def test_default_dtype_around_the_call():
    def fn(x):
        return torch.ones(2) + x, torch.arange(3) / 2, torch.get_default_dtype()

    def around(x, dtype):
        torch.set_default_dtype(dtype)
        try:
            return fn(x)
        finally:
            torch.set_default_dtype(torch.float32)

    check(around, tensor(2), torch.float64, others=[(tensor(2), torch.float32)], graphs=(1, 3), breaks=None)


@checked(tensor(2), graphs=(1, 3), breaks=None)
def test_deterministic_algorithms_switched_inside(x):
    torch.use_deterministic_algorithms(True)
    y = x * 2
    torch.use_deterministic_algorithms(False)
    return y


@checked(tensor(2), graphs=(1, 4), breaks=None)
def test_flags_read_and_written(x):
    if torch.backends.mkldnn.is_available():
        x = x + 1
    with torch.backends.mkldnn.flags(enabled=False):
        x = x * 2
    return x, torch.get_float32_matmul_precision()


@checked(tensor(3), graphs=(1, 3), breaks=None)
def test_cuda_contexts_without_a_device(x):
    with torch.cuda.amp.autocast(enabled=False):
        y = x * 2
    with torch.cuda.device(-1) if torch.cuda.is_available() else contextlib.nullcontext():
        return y + 1


@checked(tensor(3), operators=3, breaks=1)
def test_record_function(x):
    with torch.profiler.record_function("outer") as outer:
        y = x.sin()
        for index in range(2):
            with torch.autograd.profiler.record_function(f"inner {index}", "arguments"):
                y = y.cos()
    return y, outer.name, outer.args


def test_record_function_as_a_decorator():
    @torch.profiler.record_function("decorated")
    def inner(x):
        return x.sin()

    check(lambda x: inner(x) + inner(inner(x)), tensor(3), operators=4)


def test_record_function_tells_a_profiler():
    def fn(x):
        with torch.profiler.record_function("first"):
            y = x.sin()
            with torch.profiler.record_function("second"):
                y = y.cos()
            dl.graph_break()
            with torch.profiler.record_function("third"):
                y = y.exp()
        return y * 2

    def told(fn):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            fn(tensor(3))
        ours = ("first", "second", "third")
        return sorted(each.name for each in profile.events() if each.name in ours), profile.events()

    compiled = dl.compile(fn, backend="eager")
    compiled(tensor(3))
    names, events = told(compiled)
    assert names == ["first", "first", *told(fn)[0]]  # one that a break is in is three
    inner = {each.name: {child.name for child in each.cpu_children} for each in events}
    assert "aten::cos" in inner["second"] and "aten::exp" in inner["third"]
