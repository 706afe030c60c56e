"""Branches and loops: on shapes, types and constants they specialise, on a tensor's data they break in two.

PYTEST_DONT_REWRITE: the programs' own assertions stay as they are written.
"""

from __future__ import annotations

import torch

from collector import Programs
from programs import check, ints, tensor

programs = Programs()


@programs(tensor(2, 2), others=[(ints(2),), (tensor(2),), (tensor(2, grad=True),)], graphs=1, operators=2, all_graphs=4)
def branch_on_rank_dtype_device_and_gradient(x):
    if x.dim() == 2 and x.dtype == torch.float32:
        x = x * 2
    elif x.is_floating_point():
        x = x * 3
    if x.device.type == "cpu" and not x.is_cuda:
        x = x + 1
    if x.requires_grad:
        x = x - 1
    return x


@programs(tensor(2), [1], {}, "s", others=[(tensor(2), [], {}, "s")], operators=1, all_graphs=2)
def branch_on_truth_of_containers(x, items, table, text):
    if items and not table and text:
        return x + len(items)
    return x - 1


def test_branch_on_truth_of_a_user_object():
    class Flag:
        def __init__(self, on):
            self.on = on

        def __bool__(self):
            return self.on

    class Sized:
        def __len__(self):
            return 0

    class Plain:
        pass

    def fn(x, flag):
        if flag:
            x = x + 1
        if not Sized():
            x = x * 2
        if Plain():
            x = x - 3
        return x

    check(fn, tensor(2), Flag(True), operators=3, others=[(tensor(2), Flag(False))], all_graphs=2)


@programs(torch.ones(3), graphs=2, breaks=1, operators=5, others=[(-torch.ones(3),)], all_graphs=3)
def branch_on_data_with_values_on_the_stack(x):
    y = x * 2
    return [y, (y + 1 if y.sum() > 0 else y - 1), y * 3]


@programs(torch.ones(3), -torch.ones(3), graphs=None, others=[(-torch.ones(3), torch.ones(3))])
def and_or_not_of_data(x, y):
    a = x.sum() > 0 and y.sum() > 0
    b = x.sum() > 0 or y.sum() > 0
    c = not x.sum() > 0
    return x + 1, a, b, c


@programs(torch.ones(3), graphs=1, others=[(-torch.ones(3) * 5,)])
def assert_on_data(x):
    y = x + 1
    assert (y > 0).all(), "not positive"
    return y * 2


@programs(tensor(2), operators=1, others=[(tensor(2), tensor(2, seed=1)), (tensor(2), None, 3.0)], all_graphs=3)
def branch_on_none_and_is(x, y=None, z=None):
    if y is None:
        y = x
    if z is not None:
        y = y * z
    return y + 1, y is x


@programs(tensor(3, 2), operators=(4, 6))
def for_over_a_tensor(x):
    total = 0
    for row in x:
        total = total + row
    return total


WHAT = [2, 3, 4], {"k": 5, "l": 6}, "text", torch.float32, None


@programs(tensor(2), 1, operators=1, others=[(tensor(2), what) for what in WHAT])
def match_statement(x, what):
    match what:
        case 0 | 1:
            return x + 1
        case [a, b, *rest]:
            return x * a + b, rest
        case {"k": v, **others}:
            return x - v, others
        case str() as text if len(text) > 2:
            return x + len(text)
        case torch.float32:
            return x * 7
        case _:
            return x


def test_long_function_has_far_jumps():
    source = ["def fn(x, n):", "    if n > 0:"]
    source += [f"        x = x + {i}" for i in range(80)]
    source += ["    else:", "        x = x * 2", "    for i in range(2):"]
    source += [f"        a{i} = {i} if n else i" for i in range(200)]
    source += ["        x = x + a199", "    return x"]
    scope = {}
    exec("\n".join(source), scope)
    check(scope["fn"], tensor(2), 1, operators=82, others=[(tensor(2), 0)], all_graphs=2)


test_program = programs.test()
