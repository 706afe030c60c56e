"""The protocol of ``__torch_function__``: which classes are called, in which order, and what a library's own function
does with it."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    wrap_torch_function,
)

import dynamo_lite as dl
from programs import check, tensor

CALLS: list[str] = []


class Copied(torch.Tensor):
    def __deepcopy__(self, memo):
        with torch._C.DisableTorchFunctionSubclass():
            return memo.setdefault(id(self), torch.Tensor.clone(self).as_subclass(type(self)))


class Left(Copied):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CALLS.append(f"{cls.__name__} of {[each.__name__ for each in types]}")
        return super().__torch_function__(func, types, args, kwargs)


class Right(Copied):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


class Derived(Left):
    pass


class Default(Copied):
    pass


class Handler:
    """Not a tensor. Handles `library_function`, and every function of ``Left``."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.ones(3) if func is library_function or Left in types else NotImplemented


class HandlerByAttribute:
    def __init__(self):
        self.__torch_function__ = lambda *args, **kwargs: torch.zeros(3)


def made(cls, seed=0):
    return tensor(3, seed=seed).as_subclass(cls)


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: torch.cat([a, b]),
    lambda a, b: a.add_(b),
    lambda a, b: torch.where(a > 0, a, b),
    lambda a, b: torch.nn.functional.mse_loss(a, b),
]


def outcome(fn, *args):
    CALLS.clear()
    try:
        result = fn(*args)
    except TypeError as error:
        result = str(error)
    return result, list(CALLS), [each.as_subclass(torch.Tensor).clone() for each in args]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("classes", [(Left, Right), (Right, Left), (Default, Left), (Left, Default)])
def test_unrelated_classes_refuse_each_other(operation, classes):
    args = [[made(cls) for cls in classes] for _ in range(2)]
    error, calls, after = outcome(operation, *args[0])
    assert isinstance(error, str)
    given, given_calls, given_after = outcome(dl.compile(operation, backend="eager"), *args[1])
    assert (given, given_calls) == (error, calls)
    assert all(map(torch.equal, given_after, after))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("classes", [(Left, Derived), (Derived, Left), (Left, Left), (Derived, torch.nn.Parameter)])
def test_subclass_is_called_before_its_base_class(operation, classes):
    def fn(a, b):
        CALLS.clear()
        return operation(a, b), list(CALLS)

    is_parameter = torch.nn.Parameter in classes
    second = torch.nn.Parameter(tensor(3), requires_grad=False) if is_parameter else made(classes[1])
    check(fn, made(classes[0]), second)


def test_class_that_returns_not_implemented_passes_to_the_next():
    check(lambda d, x: (x + d, torch.add(d, x), torch.add(x, d)), Handler(), made(Left))


def test_refusal_is_caught_by_the_program():
    def fn(a, b):
        try:
            return a * b
        except TypeError as error:
            return str(error)

    check(fn, made(Left), made(Right), graphs=None)


@pytest.mark.parametrize("types", [(int,), (Derived,), [Left, Right], (torch.Tensor,), (Left,), (), iter([int])])
def test_default_handler_called_with_types(types):
    kinds = list(types)
    check(lambda x: Left.__torch_function__(torch.sin, kinds, (x,)), tensor(3), graphs=None)
    check(lambda x: torch.Tensor.__torch_function__(torch.sin, tuple(kinds), (x,)), tensor(3), graphs=None)


def test_default_handler_called_with_something_else_than_types():
    check(lambda x: Left.__torch_function__(torch.sin, (3,), (x,)), tensor(3), graphs=None)


def library_function(a, b):
    if has_torch_function((a, b)):
        return handle_torch_function(library_function, (a, b), a, b=b)
    return a - 1


@wrap_torch_function(lambda a, b: (a, b))
def wrapped_function(a, b):
    return a - 1


@pytest.mark.parametrize("function", [library_function, wrapped_function])
@pytest.mark.parametrize(
    "kind", [Left, Derived, Default, Handler, HandlerByAttribute, torch.nn.Parameter, torch.Tensor, list]
)
def test_function_of_a_library_dispatches(function, kind):
    def fn(x, other):
        CALLS.clear()
        try:
            return function(x, other), CALLS[:]
        except TypeError:
            return x * 2

    other = tensor(3).as_subclass(kind) if issubclass(kind, torch.Tensor) else kind()
    check(lambda x: fn(x, other), tensor(3), graphs=None)
    if kind in (Left, Derived, Default, HandlerByAttribute):
        compiled = dl.compile(lambda x: function(x, other), backend="eager", fullgraph=True)
        assert torch.equal(compiled(tensor(3)), function(tensor(3), other))


def test_queries_look_at_each_argument():
    def fn(x, p, handler, by_attribute):
        values = [x, p, handler, by_attribute, 3, "text", None, [p], (p,), {1: p}, Left, int, len, torch.nn.Linear]
        one_by_one = [has_torch_function_unary(each) for each in values]
        together = has_torch_function_variadic(x, 3), has_torch_function_variadic(x, p), has_torch_function_variadic()
        nested = has_torch_function([[p], x]), has_torch_function((x, p)), has_torch_function([])
        with torch._C.DisableTorchFunctionSubclass():
            disabled = has_torch_function((p, handler))
        return one_by_one, together, nested, disabled, x + 1

    p = made(Left)
    handlers = Handler(), HandlerByAttribute()
    check(lambda x: fn(x, p, *handlers), tensor(3))


def test_query_of_a_tensor_that_cannot_be_in_a_graph():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    check(lambda x: (has_torch_function_unary(nested), has_torch_function((x, nested)), x + 1), tensor(3))
