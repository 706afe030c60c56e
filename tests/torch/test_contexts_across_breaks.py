"""torch's contexts around graph breaks: entered before, exited after."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynamo_lite as dl
from programs import check, checked, tensor, with_gradients


@checked(tensor(3, grad=True), tensor(3, seed=1, grad=True), graphs=2, breaks=1)
@with_gradients
def test_inference_mode_left_after_a_break(x, w):
    with torch.inference_mode():
        y = x * 2
        print("within")
        y = y + w
    return y, y.is_inference(), (x * w).sin(), torch.is_inference_mode_enabled(), torch.is_grad_enabled()


@checked(tensor(3), graphs=6, breaks=5)
def test_several_breaks_in_inference_mode(x):
    for index in range(3):
        with torch.inference_mode(index != 1), torch.no_grad():
            y = x * index
            print("first")
            y = y.sin()
            print("second")
            x = x + y
        x = (x + 1).clone()
    return x, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def test_inference_mode_keeps_the_grad_mode_that_was_set_before():
    def fn(x, after):
        torch.set_grad_enabled(False)
        with torch.inference_mode():
            print("within")
            y = x * 2
        inner = torch.is_grad_enabled()
        if after is not None:
            torch.set_grad_enabled(after)
        return y, inner, torch.is_grad_enabled()

    for after in (None, True, False):
        try:
            check(lambda x, after=after: (fn(x, after), torch.set_grad_enabled(True))[0], tensor(3), graphs=None)
        finally:
            torch.set_grad_enabled(True)


@pytest.mark.parametrize("where", ["before", "at", "after"])
def test_inference_mode_left_by_an_exception(where):
    def fail():
        raise ValueError("at")

    def fn(x):
        try:
            with torch.inference_mode():
                y = x * 2
                print("within")
                if where == "before":
                    raise ValueError("before")
                if where == "at":
                    dl.disable(fail)()
                y = y + 1
                if where == "after":
                    raise ValueError("after")
        except ValueError as error:
            return y, str(error), torch.is_inference_mode_enabled(), torch.is_grad_enabled(), x * 3

    check(with_gradients(fn), tensor(3, grad=True), graphs=None, breaks=None)


def test_inference_mode_left_after_a_break_by_backends():
    def fn(x, w):
        with torch.inference_mode():
            y = x * 2
            dl.graph_break()
            y = y + 1
        return y, (x * w).sin()

    x, w = tensor(3, grad=True), tensor(3, seed=1, grad=True)
    found, expected = dl.compile(fn, backend="aot_eager")(x, w), fn(x, w)
    torch.testing.assert_close(found, expected)
    assert not torch.is_inference_mode_enabled()
    grads = [torch.autograd.grad(each[1].sum(), (x, w)) for each in (found, expected)]
    torch.testing.assert_close(*grads)


@checked(tensor(1, 2, 4, 8), graphs=2, breaks=1)
def test_attention_backends_left_after_a_break(q):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        a = F.scaled_dot_product_attention(q, q, q)
        with sdpa_kernel(SDPBackend.MATH):
            a = F.scaled_dot_product_attention(q, a, q)
            print("within", torch.backends.cuda.flash_sdp_enabled())
            a = F.scaled_dot_product_attention(q, a, q)
            inner = torch.backends.cuda.flash_sdp_enabled()
        b = F.scaled_dot_product_attention(q, q, a)
    return b, F.scaled_dot_product_attention(q, q, a), inner, torch.backends.cuda.flash_sdp_enabled()


@checked(tensor(3, 3, grad=True), graphs=2, breaks=1)
@with_gradients
def test_contexts_of_all_kinds_with_a_break_within(x):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        with sdpa_kernel(SDPBackend.MATH), torch.profiler.record_function("part"):
            y = x @ x
            print("within")
            y = y @ x
        z = torch.backends.cuda.flash_sdp_enabled()
    return y, z, x @ x, torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()


@pytest.mark.parametrize("limit", [1, 8])
def test_autocast_within_inference_mode(limit):
    def fn(x):
        with torch.inference_mode():
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ x
                print("within", torch.is_autocast_enabled("cpu"))
                z = x @ x
            w = x @ x
            print("left", torch.is_autocast_enabled("cpu"))
        return y, z, w, x @ x, torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()

    def cut(x, n):
        with torch.inference_mode():
            with torch.autocast("cpu", torch.bfloat16):
                print("within", torch.is_autocast_enabled("cpu"))
                z = x @ x * n
        return z, x @ x, torch.is_autocast_enabled("cpu")

    check(fn, tensor(3, 3, grad=True), graphs=None, breaks=None)
    with dl.config.patch(recompile_limit=limit), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = [(tensor(3, 3), text) for text in (True, 2, 2.5)]
        check(cut, tensor(3, 3), 1, graphs=None, breaks=None, others=others)


def test_devices():
    def inner(x):
        with torch.device("meta"):
            a = torch.ones(3)
            with torch.device("cpu"):
                b = torch.ones(3) + x
                print("within", torch.ones(1).device, torch.get_default_device())
                b = b + torch.ones(3)
            c = torch.ones(3)
            if x.shape[0] == 1:
                raise ValueError(torch.ones(1).device.type)
        return a, b, c, torch.ones(3)

    def fn(x):
        y = x * 2
        try:
            return inner(y), torch.ones(3)
        except ValueError as error:
            return y, str(error), torch.ones(2)

    check(fn, tensor(3), graphs=2, breaks=1)
    for size in (1, 4):
        check(fn, tensor(size), graphs=None, breaks=None)


@pytest.mark.parametrize("index", range(6))
@pytest.mark.on_cpu
def test_left_by_an_exception_that_was_found(index):
    make = (
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
        lambda: sdpa_kernel(SDPBackend.MATH),
        lambda: torch.profiler.record_function("part"),
    )[index]
    seen = []

    def fn(x, error):
        with make():
            y = x @ x
            if error is not None:
                raise error
        return y

    def around(x, error):
        try:
            return fn(x, error)
        finally:
            seen.append((torch.backends.cuda.flash_sdp_enabled(), torch._C._len_torch_function_stack()))

    for error in (None, ValueError("found")):
        for program in (fn, around):
            check(program, tensor(3, 3, grad=True), error, graphs=None, breaks=None)
    assert set(seen) == {(True, 0)}


@pytest.mark.parametrize("index", range(3))
def test_others_of_the_kind_entered_by_calls_within(index):
    make, other = (
        (torch.inference_mode, lambda: torch.inference_mode(False)),
        (lambda: sdpa_kernel(SDPBackend.MATH), lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION)),
        (lambda: torch.device("meta"), lambda: torch.device("cpu")),
    )[index]

    def state():
        modes = torch.is_inference_mode_enabled(), torch.backends.cuda.flash_sdp_enabled(), torch.is_grad_enabled()
        return *modes, torch.ones(1).device.type

    def inner(x, found):
        print("within")
        found.append(state())
        return x + 1

    def fn(x, kind):
        found = []
        try:
            with make():
                found.append(state())
                with contextlib.ExitStack() as stack:
                    stack.enter_context(other())
                    x = inner(x, found)
                    print("again")
                    found.append(state())
                    if kind is not None:
                        raise kind("left")
                found.append(state())
        except ValueError:
            found.append(state())
        return x * 2, found, state()

    for kind in (None, ValueError):
        check(with_gradients(fn), tensor(3, grad=True), kind, graphs=None, breaks=None)


def _recorded(x):
    with torch.profiler.record_function("part"):
        y = x + 1
        dl.graph_break()
    return y


def _in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ x
        dl.graph_break()
        shape = y.shape
    return y, shape


def _in_inference_mode(x):
    with torch.inference_mode():
        y = x + 1
        dl.graph_break()
    return y


@pytest.mark.parametrize("program", [_recorded, _in_autocast, _in_inference_mode])
def test_a_block_without_operators_after_its_break_has_no_graph_there(program):
    """The resume function enters the context again, and leaves it: nothing is in between."""
    check(program, tensor(3, 3), graphs=1, breaks=1)


def test_a_profiler_sees_a_block_with_a_break_in_its_two_parts():
    def fn(x):
        with torch.profiler.record_function("part"):
            y = x + 1
            dl.graph_break()
        return y * 2

    compiled = dl.compile(fn, backend="eager")
    compiled(tensor(3))
    with torch.profiler.profile() as profile:
        compiled(tensor(3))
    assert [each.name for each in profile.events()].count("part") == 2
