"""torch's contexts entered and exited by calls of their methods, as `contextlib.ExitStack` does."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from programs import check, checked, tensor, with_gradients

KINDS = (
    torch.no_grad,
    lambda: torch.autocast("cpu", torch.bfloat16),
    torch.inference_mode,
    lambda: torch.set_grad_enabled(False),
    lambda: sdpa_kernel(SDPBackend.MATH),
    lambda: torch.profiler.record_function("part"),
)


@checked(tensor(3, 3, grad=True))
@with_gradients
def test_exit_stack_of_all_kinds(x):
    with contextlib.ExitStack() as stack:
        entered = [stack.enter_context(make()) for make in KINDS]
        y = x @ x
        known = torch.is_inference_mode_enabled(), torch.backends.cuda.flash_sdp_enabled()
    kinds = [type(each).__name__ for each in entered]
    return y, known, kinds, x @ x, torch.backends.cuda.flash_sdp_enabled(), torch.is_grad_enabled()


def test_exit_stack_chosen_by_a_flag():
    def fn(x, amp, grad):
        with contextlib.ExitStack() as stack:
            if amp:
                stack.enter_context(torch.autocast("cpu", torch.bfloat16))
            stack.enter_context(torch.set_grad_enabled(grad))
            y = (x @ x).float()
        return y, x @ x

    others = [(tensor(3, 3, grad=True), amp, grad) for amp in (True, False) for grad in (True, False)]
    check(with_gradients(fn), tensor(3, 3, grad=True), True, False, others=others, all_graphs=4)


@pytest.mark.parametrize("index", range(6))
def test_exit_stack_with_a_break_within(index):
    def fn(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(KINDS[index]())
            y = x @ x
            print("within", torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
            y = y @ x.to(y.dtype)
        return y, x @ x, torch.is_inference_mode_enabled(), torch.backends.cuda.flash_sdp_enabled()

    check(with_gradients(fn), tensor(3, 3, grad=True), graphs=None, breaks=None)


@checked(tensor(3, 3, grad=True))
@with_gradients
def test_exit_stack_left_by_an_exception(x):
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.autocast("cpu", torch.bfloat16))
            stack.enter_context(torch.inference_mode())
            y = x @ x
            raise ValueError("left")
    except ValueError as error:
        return y, str(error), x @ x, torch.is_inference_mode_enabled()


@checked(tensor(3, 3, grad=True))
@with_gradients
def test_enter_and_exit_called_directly(x):
    found = []
    for make in KINDS:
        manager = make()
        entered = manager.__enter__()
        y = x @ x
        left = manager.__exit__(None, None, None)
        found += [type(entered).__name__, left, y]
    return found, x @ x


def test_entered_and_not_left():
    def fn(x):
        manager = torch.autocast("cpu", torch.bfloat16)
        manager.__enter__()
        y = x @ x
        return y, manager

    def around(x):
        y, manager = fn(x)
        z = x @ x
        manager.__exit__(None, None, None)
        return y, z, x @ x

    check(around, tensor(3, 3), operators=3)

    def cut(x):
        manager = torch.autocast("cpu", torch.bfloat16)
        manager.__enter__()
        y = x @ x
        print("within")
        z = x @ x
        manager.__exit__(None, None, None)
        return y, z, x @ x

    check(cut, tensor(3, 3), graphs=None, breaks=None)


@checked(tensor(3, grad=True), graphs=3, breaks=2)
@with_gradients
def test_grad_mode_set_by_a_context_that_is_not_entered(x):
    manager = torch.set_grad_enabled(False)
    y = x * 2
    print("within", torch.is_grad_enabled(), manager)
    other = torch.enable_grad()
    other.__enter__()
    z = x * 3
    print("within", torch.is_grad_enabled(), manager.mode, manager.prev, other.prev)
    other.__exit__(None, None, None)
    w = x * 4
    manager.__exit__(None, None, None)
    return y, z, w, x * 5, torch.is_grad_enabled()


@checked(tensor(3, 3, grad=True), graphs=None, breaks=None)
@with_gradients
def test_left_in_another_order(x):
    first, second = torch.autocast("cpu", torch.bfloat16), torch.no_grad()
    first.__enter__()
    second.__enter__()
    y = x @ x
    first.__exit__(None, None, None)
    z = x @ x
    second.__exit__(None, None, None)
    return y, z, x @ x


@checked(tensor(3), graphs=None, breaks=None)
def test_attributes_of_contexts_created_in_tracing(x):
    manager = torch.inference_mode(False)
    try:
        mode = manager.mode
    except AttributeError:
        mode = "none"
    return mode, hasattr(torch.autocast("cpu", enabled=False), "prev"), x + 1


def test_class_that_enters_contexts_in_its_methods():
    class Evaluating:
        def __init__(self, module):
            self.module = module
            self.grad = torch.no_grad()
            self.cast = torch.autocast("cpu", torch.bfloat16)

        def __enter__(self):
            self.training = self.module.training
            self.module.eval()
            self.grad.__enter__()
            self.cast.__enter__()
            return self

        def __exit__(self, *error):
            self.cast.__exit__(*error)
            self.grad.__exit__(*error)
            self.module.train(self.training)

    class Net(torch.nn.Linear):
        def forward(self, x):
            with Evaluating(self):
                target = F.dropout(super().forward(x), training=self.training)
            return target, F.dropout(super().forward(x), training=self.training)

    check(with_gradients(Net(3, 3)), tensor(2, 3))
