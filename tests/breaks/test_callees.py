"""Breaks inside inlined calls: operators of the callees before and after the break are in the caller's graphs."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from collector import Programs
from programs import built, check, checked, tensor, watching, with_gradients

program = Programs(tensor(3), tensor(1, seed=5).sum(), whole=False, graphs=2, breaks=1)
CUT = None


@program(operators=5)
def at_depth(x, s):
    def level3(v):
        w = v * 2
        CUT
        return w + 3

    def level2(v):
        return level3(v - 1)

    def level1(v):
        return level2(v)

    y = x + 1
    return level1(y) * 5


@program(graphs=3, breaks=2, operators=5)
def in_two_calls(x, s):
    def callee(v, n):
        w = v * n
        CUT
        return w + n

    a = callee(x, 2)
    b = callee(x, n=3)
    return a, b, a - b, a


@program(graphs=3, breaks=2, operators=5)
def twice_in_a_callee(x, s):
    def callee(v):
        w = v * 2
        CUT
        w = w + 1
        CUT
        return w - v

    return callee(x + 1) * 3


@program(graphs=(3, 5), breaks=(2, 5), operators=(5, 9))
def in_a_loop_of_a_callee(x, s):
    def callee(v):
        for k in range(3):
            v = v * (k + 1)
            CUT
            v = v + 1
        return v

    return callee(x) - 1


@program(graphs=3, breaks=2, operators=(5, 7))
def in_a_recursion(x, s):
    def callee(v, n):
        w = v * 2
        if n == 0:
            CUT
            return w
        return callee(w, n - 1) + n

    a = callee(x, 2)
    return callee(a, 0) + 1


@program(operators=4)
def with_values_on_both_stacks(x, s):
    def callee(v):
        w = v * 2
        return [w, v, (CUT, w + 1)][2][1]

    y = x + 1
    return (y, "a", callee(y), y * 3)


@program(operators=4)
def with_keywords_and_stars(x, s):
    def callee(a, /, *rest, k, **more):
        w = a * k
        CUT
        return w + len(rest) + more["z"], rest, more

    rest = [1, 2]
    return callee(x + 1, *rest, k=3, **{"z": 4})


@program(operators=5)
def with_cells_of_both(x, s):
    total = x * 2
    count = 0

    def callee(v):
        nonlocal count, total
        count += 1
        mine = v + count

        def later():
            nonlocal mine
            mine = mine + 1
            return mine

        total = total + mine
        CUT
        return later

    later = callee(x)
    return total, count, later() - 1


@program(operators=3)
def with_a_list_of_both(x, s):
    def callee(items, v):
        items.append(v * 2)
        mine = items
        CUT
        mine.append(v + 1)
        return mine

    items = [x]
    other = callee(items, x)
    return items is other, items[1] + items[2], other


@program(operators=3)
def writing_to_an_argument(x, s):
    def callee(v):
        v.add_(1)
        CUT
        v.mul_(2)
        return v

    y = callee(x)
    return y is x, y + x


@program(operators=4)
def under_a_handler_of_the_caller(x, s):
    def callee(v):
        w = v * 2
        CUT
        if w.dim() == 1:
            raise ValueError(w.dim())
        return w

    y = x + 1
    try:
        callee(y)
    except ValueError as error:
        y = y * error.args[0]
    finally:
        y = y - 1
    return y


@program(graphs=(2, 4), breaks=(1, 3), operators=4)
def under_a_handler_of_the_callee(x, s):
    def callee(v):
        w = v * 2
        try:
            CUT
            raise KeyError("k")
        except KeyError:
            return w + 1

    return callee(x) - 1 + x


@program(operators=4)
def in_a_with_of_the_caller(x, s):
    def callee(v):
        w = v * 2
        CUT
        return w + 1, torch.is_grad_enabled()

    y = x - 1
    with torch.no_grad():
        z, enabled = callee(y)
    return z * 3, enabled, torch.is_grad_enabled()


@program(graphs=(3, 4), breaks=(2, 3), operators=4)
@built
def where_the_result_is_not_the_callees():
    class Thing:
        def __init__(self, v):
            self.v = v * 2
            CUT
            self.w = self.v + 1

        def __add__(self, other):
            y = self.w * other
            CUT
            return y - 1

    def program(x, s):
        thing = Thing(x)
        return thing + 2, thing.v

    return program


@program(operators=4)
@built
def in_a_method_with_super():
    class Base:
        def run(self, v):
            self.seen = v * 2
            CUT
            return self.seen + 1

        def name(self):
            return "base"

    class Derived(Base):
        def run(self, v):
            w = super().run(v + 1)
            return super().name(), w * 3

    def program(x, s):
        return Derived().run(x)

    return program


@program(graphs=(2, 3), breaks=(1, 2), operators=(2, 4))
def called_by_something_that_maps(x, s):
    def callee(v):
        w = v * 2
        CUT
        return w

    return sum(map(callee, [x, x + 1]))


test_program = program.test()


def branches(v):
    w = v * 2
    if w.sum() > 0:
        return w + 1
    return w - 1


@checked(torch.ones(3), others=[(-2 * torch.ones(3),)], graphs=2, operators=(5, 6), all_graphs=3)
def test_branch_on_data_in_a_callee(x):
    return branches(x + 1) * 3


class Shown(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        h = self.linear(x)
        print("shape", tuple(h.shape))
        return torch.relu(h)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(4, 4), Shown(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.inner(self.first(x)))


@pytest.mark.parametrize("train", [False, True])
def test_modules(train):
    check(with_gradients(Outer().train(train)), tensor(2, 4, grad=True), graphs=2, operators=4, breaks=1)


def test_hooked_module():
    module = Outer()
    module.inner.register_forward_hook(lambda mod, args, out: out + 1)
    check(module, tensor(2, 4), graphs=(2, 4), operators=5)


SEEN: list = []


@dl.disable
def note_callers():
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        SEEN.append((frame.f_code.co_name, frame.f_lineno, frame.f_globals is globals()))
        frame = frame.f_back


def test_frames_that_native_code_sees():
    def inner(v):
        w = v * 2
        note_callers()
        return w + 1

    def middle(v):
        return (
            inner(v)
            + 1
        )  # fmt: skip

    def program(x):
        return middle(x - 1)

    check(watching("SEEN")(program), tensor(3), graphs=2)


def test_warning_in_a_callee():
    def inner(v):
        w = v * 2
        warnings.warn("here", stacklevel=1)
        warnings.warn("in the caller", stacklevel=2)
        return w + 1

    def program(x):
        y = inner(x - 1)
        return y * 2

    check(program, tensor(3), graphs=2, breaks=2)


def test_exception_of_the_native_instruction():
    def inner(v, d):
        w = v * 2
        n = int(d["missing"].item())
        return w + n

    def middle(v, d):
        return inner(v + 1, d) * 2

    def program(x, d):
        return middle(x, d)

    check(program, tensor(3), {"missing": tensor(1)}, graphs=2, others=[(tensor(3), {"missing": tensor(2)})])


def test_deep_chain_is_two_graphs():
    """A break many calls deep costs one, however deep it is."""

    def nest(depth):
        if depth == 0:

            def innermost(v):
                w = v * 2
                print("deep")
                return w + 1

            return innermost
        inner = nest(depth - 1)
        return lambda v: inner(v + depth) - depth

    def program(x):
        return nested(x) * 2

    nested = nest(12)
    check(program, tensor(3), graphs=2, operators=12 + 2 + 12 + 1, breaks=1)


def test_a_break_in_a_callee_inside_of_blocks_with_a_stack():
    def inner(x):
        return x.sum().item()

    def fn(x, items):
        for each in items:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = [each, inner(x)]
            x = x + found[0]
        return x, found

    check(fn, tensor(2), [1, 2, 3], graphs=None)
