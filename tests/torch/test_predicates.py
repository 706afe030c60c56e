"""Queries about tensors and the thread whose results are guarded: they don't break the graph."""

from __future__ import annotations

import pytest
import torch

from programs import check, ints, tensor

functorch = torch._C._functorch


def test_tensors_that_no_transform_wrapped():
    def fn(x):
        queries = functorch.is_batchedtensor, functorch.is_gradtrackingtensor, functorch.is_functorch_wrapped_tensor
        more = functorch.is_functionaltensor, functorch.is_legacy_batchedtensor
        levels = functorch.maybe_get_level, functorch.maybe_get_bdim
        y = x + 1
        of_x, of_y = ([query(each) for query in (*queries, *more, *levels)] for each in (x, y))
        return y, of_x, of_y, functorch.maybe_current_level(), functorch.peek_interpreter_stack()

    check(fn, tensor(3))
    check(fn, torch.nn.Parameter(tensor(3)))


def test_tensors_that_a_transform_wraps():
    def double_wrapped(x):
        return x * 2 if functorch.is_functorch_wrapped_tensor(x) else x * 3

    def fn(x):
        mapped = torch.vmap(lambda each: each * 2 if functorch.is_batchedtensor(each) else each * 3)(x)
        return mapped, torch.func.grad(lambda each: double_wrapped(each).sum())(x), double_wrapped(x)

    check(fn, tensor(3), graphs=None)


def test_query_of_something_else_raises():
    def fn(x, other):
        try:
            return functorch.is_batchedtensor(other)
        except TypeError:
            return x + 1

    check(fn, tensor(3), 3, graphs=None)
    check(fn, tensor(3), torch.nested.nested_tensor([tensor(2), tensor(3)], layout=torch.jagged), graphs=None)


@pytest.mark.parametrize("autocast", [False, True])
def test_any_autocast(autocast):
    def fn(x):
        before = torch._C._is_any_autocast_enabled()
        with torch.autocast("cpu", torch.bfloat16):
            return x + 1, before, torch._C._is_any_autocast_enabled()

    def around(x, enabled):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            return fn(x)

    check(around, tensor(3), autocast, others=[(tensor(3), not autocast)], all_graphs=2)


def test_optional_value_unwrapped():
    def fn(x, other):
        try:
            return torch.jit._unwrap_optional(x) + torch.jit._unwrap_optional(other)
        except AssertionError as error:
            return x * 2, str(error)

    check(fn, tensor(3), 4)
    check(fn, tensor(3), None)


def test_tensor_types():
    def fn(x, n, module):
        kinds = torch.FloatTensor, torch.DoubleTensor, torch.LongTensor, torch.BoolTensor, torch.sparse.FloatTensor
        values = x, n, x > 0, x.double(), torch.nn.Parameter(x.detach().clone()), module, 3, None
        return x + 1, [[isinstance(each, kind) for kind in kinds] for each in values], isinstance(n, kinds)

    check(fn, tensor(3), ints(3), torch.nn.ReLU())
    check(lambda x: x * 2 if isinstance(x, torch.FloatTensor) else x - 1, tensor(3), others=[(ints(3),)], all_graphs=2)
