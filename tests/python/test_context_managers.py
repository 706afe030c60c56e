"""Context managers: torch's modes, the user's own, and the modes' state afterwards."""

from __future__ import annotations

import contextlib

import torch

from programs import check, tensor


def test_no_grad():
    def fn(x):
        with torch.no_grad():
            y = x * 2
        return y, x * 3, y.requires_grad

    check(fn, tensor(3, grad=True), operators=2)


def test_nested_grad_modes():
    def fn(x):
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
                with torch.set_grad_enabled(False):
                    c = x * 4
            d = x * 5
        return a, b, c, d, torch.is_grad_enabled()

    check(fn, tensor(3, grad=True), operators=4, backward=True)


def test_no_grad_as_decorator():
    @torch.no_grad()
    def inner(x):
        return x * 2

    def fn(x):
        return inner(x), x * 3

    check(fn, tensor(3, grad=True), operators=2)


def test_no_grad_decorates_the_program():
    @torch.no_grad()
    def fn(x):
        return x * 2, torch.is_grad_enabled()

    check(fn, tensor(3, grad=True), operators=1)


def test_compiled_function_called_under_no_grad():
    def fn(x):
        return x * 2, torch.is_grad_enabled()

    def program(x):
        with torch.no_grad():
            return fn(x)

    check(program, tensor(3, grad=True), operators=1)


def test_grad_mode_left_changed():
    def fn(x, mode):
        y = x * 2
        torch.set_grad_enabled(mode)
        return y, x * 3

    def program(x, mode):
        before = torch.is_grad_enabled()
        try:
            return fn(x, mode), torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(before)

    check(program, tensor(3, grad=True), False, operators=2)


def test_grad_mode_object_kept_and_entered_later():
    def fn(x):
        mode = torch.no_grad()
        y = x * 2
        with mode:
            z = x * 3
        with mode:
            w = x * 4
        return y, z, w

    check(fn, tensor(3, grad=True), operators=3)


def test_inference_mode():
    def fn(x):
        with torch.inference_mode():
            y = x * 2
        return y.is_inference(), torch.is_inference_mode_enabled()

    check(fn, tensor(3), graphs=(0, 2))


def test_autocast():
    def fn(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            with torch.autocast("cpu", enabled=False):
                z = x @ w
        return y, z, x @ w, y.dtype

    check(fn, tensor(3, 3), tensor(3, 3, seed=1), operators=3)


def test_autocast_decorator_and_backward():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(x, w):
        return x @ w

    def fn(x, w):
        return inner(x, w).float().sum()

    check(fn, tensor(3, 3), tensor(3, 3, seed=1, grad=True), operators=3, backward=True)


def test_autocast_around_the_call():
    def fn(x):
        return x @ x

    def program(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return fn(x)

    check(program, tensor(3, 3), operators=1)


def test_users_manager_class():
    class Manager:
        def __init__(self, n):
            self.n = n
            self.log = []

        def __enter__(self):
            self.log.append("enter")
            return self.n

        def __exit__(self, kind, value, trace):
            self.log.append("exit")

    def fn(x):
        manager = Manager(3)
        with manager as n:
            y = x * n
            manager.log.append("body")
        return y, manager.log

    check(fn, tensor(3), operators=1)


def test_users_manager_given():
    class Manager:
        def __init__(self):
            self.depth = 0

        def __enter__(self):
            self.depth += 1
            return self

        def __exit__(self, *error):
            self.depth -= 1
            return False

    def fn(x, manager):
        with manager, manager as m:
            y = x * m.depth
        return y, manager.depth

    check(fn, tensor(3), Manager(), operators=1)


def test_contextmanager_function():
    @contextlib.contextmanager
    def scaled(log, n):
        log.append("enter")
        try:
            yield n * 2
        finally:
            log.append("exit")

    def fn(x):
        log = []
        with scaled(log, 2) as n:
            y = x * n
        return y, log

    check(fn, tensor(3), graphs=1, operators=1)


def test_contextmanager_function_around_no_grad():
    @contextlib.contextmanager
    def quiet():
        with torch.no_grad():
            yield

    def fn(x):
        with quiet():
            y = x * 2
        return y, x * 3

    check(fn, tensor(3, grad=True), graphs=1, operators=2)


def test_nullcontext_and_conditional_manager():
    def fn(x, quiet):
        with torch.no_grad() if quiet else contextlib.nullcontext():
            return x * 2

    check(fn, tensor(3, grad=True), True, operators=1, others=[(tensor(3, grad=True), False)], all_graphs=2)


def test_return_break_and_continue_leave_blocks():
    def inner(x):
        with torch.no_grad():
            return x * 2

    def fn(x):
        for i in range(4):
            with torch.no_grad():
                if i == 1:
                    continue
                if i == 3:
                    break
                x = x + i
        return x, inner(x), torch.is_grad_enabled()

    check(fn, tensor(3, grad=True), operators=3)


def test_generator_as_state_of_random_numbers():
    def fn(x):
        return x + torch.rand(3), torch.randn_like(x), torch.randint(0, 9, (2,)), torch.bernoulli(torch.ones(2) / 2)

    check(fn, tensor(3), graphs=(1, 2), operators=(6, 7), calls=3)


def test_manual_seed_inside():
    def fn(x):
        torch.manual_seed(3)
        return x + torch.rand(3)

    check(fn, tensor(3), graphs=(1, 2))


def test_python_random_numbers():
    import random

    def fn(x):
        n = random.random()
        return x * n, random.randint(0, 5), random.choice([1, 2, 3])

    check(fn, tensor(3), graphs=None, calls=3, recompiles=True)


def test_default_dtype_changed_inside():
    def fn(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        y = torch.ones(2)
        torch.set_default_dtype(before)
        return y, torch.zeros(1), x + 1

    check(fn, tensor(3))


def test_default_dtype_around_the_call():
    def fn(x):
        return torch.ones(2) + x

    def program(x):
        torch.set_default_dtype(torch.float64)
        try:
            return fn(x)
        finally:
            torch.set_default_dtype(torch.float32)

    check(program, tensor(2), graphs=(0, 2))


def test_device_as_context():
    def fn(x):
        with torch.device("cpu"):
            y = torch.ones(2)
        return x + y

    check(fn, tensor(2), graphs=(0, 2))


def test_profiler_record_function():
    def fn(x):
        with torch.profiler.record_function("block"):
            y = x * 2
        return y + 1

    check(fn, tensor(2), graphs=(1, 2), operators=2)


def test_saved_tensor_hooks_stay_eagers():
    def fn(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            y = x * x
        return y.sum()

    check(fn, tensor(3, grad=True), graphs=None, backward=True)
