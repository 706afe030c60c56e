"""dtype promotion, Python scalars beside tensors, shapes and sizes, type information, factories."""

from __future__ import annotations

import math
import operator

import pytest
import torch

from programs import check, checked, ints, tensor

SCALARS = [2, -3, 0, True, False, 2.5, -0.0, float("inf"), float("nan"), 1e30, 2**40, 1 + 2j]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [torch.bool, torch.uint8, torch.int32, torch.int64, *FLOATS]
ARITHMETIC = [operator.add, operator.mul, operator.truediv, operator.pow, operator.eq, operator.lt, operator.mod]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_promotion_with_scalars(dtype):
    def fn(x):
        found = []
        for scalar in SCALARS:
            if isinstance(scalar, complex):
                is_half = torch.result_type(x, scalar).itemsize < 8  # torch warns of these once, or has no kernel
                found += [] if is_half else [x * scalar]
            elif not (isinstance(scalar, float) and math.isnan(scalar)):
                found += [x + scalar, scalar * x, scalar + x]
        return found

    check(fn, ints(3).to(dtype))


@pytest.mark.parametrize("op", ARITHMETIC)
def test_promotion_between_tensors_with_and_without_dimensions(op):
    args = (ints(3) + 1, tensor(3).abs() + 1, torch.tensor(2.0, dtype=torch.float64), torch.tensor(3))
    check(lambda x, y, s, t: (op(x, y), op(x, s), op(s, t), op(y, t), op(t, x)), *args)


@checked(tensor(3).abs() + 1)
def test_scalars_on_the_left_of_every_operator(x):
    return 2 - x, 2 / x, 2 // x, 2 % x, 2**x, 2 < x, 2 == x, -x, abs(x), +x, divmod(7, 2), 2.0 @ x if False else x


@checked(tensor(4) * 3, ints(5))
def test_powers_of_negative_numbers(x, n):
    return (-2.0) ** x, (-2) ** n, (-0.0) ** x, torch.pow(-2.0, x), -(2**x), (-1.5) ** (n * 1.0)


@checked(ints(4), ints(4, seed=1) + 1, graphs=(1, 2), breaks=None)
def test_integer_operators(x, y):
    return x & y, x | y, x ^ y, ~x, x << 1, x >> 1, 1 << x, 3 & x, x // 2, x % 3, -x, divmod(x, y)


@checked(ints(4) > 4, ints(4, seed=1) > 4)
def test_boolean_operators(x, y):
    return x & y, x | ~y, x ^ True, x.logical_and(y), torch.logical_not(x), x.any(), x.all(), x == y, x.sum()


@checked(tensor(3), 2, others=[(tensor(3), 3), (tensor(3), 2.5), (tensor(3), True)])
def test_reflected_and_inplace_with_numbers_that_change(x, n):
    x = x * n
    x += n
    return n - x


@checked(tensor(3))
def test_float_of_python_has_double_precision(x):
    third = 1.0 / 3.0
    return x * third, x + 1e-20, torch.tensor(third, dtype=torch.float64) - third, x.double() * third


@checked(ints(3), tensor(3), operators=1)
def test_result_type_and_promote_types(x, y):
    return (
        torch.result_type(x, 2.5),
        torch.result_type(x, y),
        torch.promote_types(x.dtype, torch.float16),
        torch.can_cast(torch.float64, torch.int32),
        x.to(torch.promote_types(x.dtype, y.dtype)),
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_finfo(dtype):
    def fn(x):
        info = torch.finfo(x.dtype)
        return x.clamp(info.min, info.max) + info.eps, info.tiny, info.bits, info.smallest_normal, info.dtype, info.max

    check(fn, tensor(3).to(dtype))


@checked(ints(3))
def test_iinfo(x):
    info = torch.iinfo(x.dtype)
    return x.clamp(info.min + 1, info.max), info.bits, torch.iinfo(torch.uint8).max, info.dtype


@checked(tensor(2, 3, 4), others=[(tensor(3, 2, 4),)], operators=1)
def test_size_in_every_guise(x):
    s = x.shape
    a, b, *rest = s
    return (
        s[0],
        s[-1],
        s[1:],
        s[::-1],
        len(s),
        s.numel(),
        list(s),
        tuple(s),
        s + (1,),
        (1, *s),
        s == torch.Size([2, 3, 4]),
        s == (2, 3, 4),
        s != [2, 3, 4],
        3 in s,
        s.index(3),
        s.count(2),
        max(s),
        sum(s),
        math.prod(s),
        [n * 2 for n in s],
        {n: i for i, n in enumerate(s)},
        x.size(),
        x.size(1),
        x.size(dim=-1),
        x.numel() // a // b,
        rest,
        isinstance(s, tuple),
        isinstance(s, torch.Size),
        type(s[:2]),
        str(s),
        f"{s}",
        hash(s) == hash((2, 3, 4)),
        x + 1,
    )


@checked(tensor(2, 3))
def test_shapes_as_arguments(x):
    a = x.new_zeros(x.shape)
    b = torch.ones(x.size(), dtype=x.dtype)
    c = torch.empty(*x.shape).fill_(1)
    d = x.reshape(x.shape[0], -1).view(x.shape)
    e = torch.zeros(x.shape[:-1] + (5,))
    f = x.expand(2, *x.shape)
    g = torch.zeros((x.size(0), 1)).expand(-1, x.size(1))
    return a, b, c, d, e, f, g, torch.Size((1, 2)) + x.shape, torch.broadcast_shapes(x.shape, (1, 3))


FACTORIES = {
    "zeros": lambda x: torch.zeros(2, 3),
    "ones_list": lambda x: torch.ones([2, 3], dtype=torch.int32),
    "full": lambda x: (torch.full((2,), 1), torch.full((2,), 1.5), torch.full((2,), True)),
    "arange": lambda x: (torch.arange(3), torch.arange(1, 2, 0.5), torch.arange(3.0), torch.arange(x.shape[0])),
    "linspace": lambda x: (torch.linspace(0, 1, 4), torch.logspace(0, 1, 3)),
    "eye": lambda x: (torch.eye(2), torch.eye(2, 3, dtype=torch.bool)),
    "tensor": lambda x: (torch.tensor(3), torch.tensor([1.0, 2]), torch.tensor([[True]]), torch.tensor([])),
    "tensor_of_shape": lambda x: torch.tensor(x.shape),
    "as_tensor": lambda x: (torch.as_tensor([1, 2]), torch.as_tensor(x)),
    "scalar_tensor": lambda x: torch.scalar_tensor(2),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int8), torch.full_like(x, 3)),
    "new": lambda x: (x.new_zeros(2), x.new_full((2,), 3), x.new_tensor([1, 2]), x.new_empty(0)),
    "device": lambda x: (torch.zeros(2, device="cpu"), torch.ones(2, device=x.device), x.to("cpu")),
    "meta": lambda x: torch.zeros(2, device="meta").shape,
    "requires_grad": lambda x: torch.zeros(2, requires_grad=True),
    "layout": lambda x: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride(),
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_factories(make):
    check(lambda x: (make(x), x + 1), tensor(2, 3), graphs=(1, 2), breaks=None)


@checked(tensor(3), torch.tensor([2**60 + 129, 16777217]))
def test_tensors_made_of_tensors_of_one_number(x, i):
    wide, half, flag = x.double(), x.half(), x > 0
    return (
        torch.tensor([x[0], x[1]]),
        torch.tensor([[x.max(), 2], (True, wide[0])]),
        torch.tensor([half[0], 0.5]),
        torch.tensor([i[0], i[1], 7]),
        torch.tensor([i[0], 0.1], dtype=torch.float64),
        torch.tensor([i[0], 1.0], device=x.device),
        torch.tensor([wide[0], x[0]], dtype=torch.float32),
        torch.tensor([flag[0], True]),
        torch.as_tensor((x.mean(), len(x)), dtype=None, device="cpu"),
        torch.Tensor([x[0], 1]),
        torch.DoubleTensor([[x[0]], [i[0]]]),
    )


@checked(tensor(3), torch.tensor([2j]), torch.tensor([2]), graphs=None, breaks=None)
def test_tensors_made_of_tensors_that_eager_refuses(x, y, i):
    found = [torch.tensor([x.half()[0], 1]), torch.tensor([x[0] > 0, i.byte()[0]])]
    found += [torch.tensor([y[0], 1]), torch.tensor([i[0], 1.5]), torch.tensor([x[:1].sum(), x[0]]).requires_grad]
    for items in ([x, x], [x[0], [1.0]], [x[0], i[0] * 1j]):
        try:
            found.append(torch.tensor(items))
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return found


@checked(tensor(4), graphs=(1, 4), breaks=None)
def test_constant_tensors_are_known(x):
    n = torch.tensor(3)
    if n > 2:
        x = x * n.item()
    return x[: int(n)], range(n)[-1], [0, 1, 2, 3][n]


@checked(tensor(3), graphs=(1, 3), breaks=None)
def test_dtype_methods_and_type_strings(x):
    return (
        x.int(),
        x.double().dtype,
        x.type(),
        x.type(torch.float64),
        x.type("torch.DoubleTensor"),
        x.type_as(x.half()),
        x.to(torch.int64, copy=True),
        x.to(x.half()),
        x.to(dtype=torch.float64, non_blocking=True),
        x.dtype.itemsize,
        x.dtype.is_signed,
        x.dtype.to_complex(),
        x.element_size(),
        str(x.device),
        x.get_device(),
    )


@checked(tensor(3), graphs=(0, 1), breaks=None)
def test_devices(x):
    d = torch.device("cpu", 0)
    e = torch.device(x.device)
    return (
        d.type,
        d.index,
        e == x.device,
        d == torch.device("cpu"),
        str(e),
        repr(d),
        x.to(e) is x,
        hash(e) == hash(e),
    )


@checked(tensor(3), graphs=(1, 2), breaks=None)
def test_comparison_with_other_things(x):
    return x == None, x != "a", x == x, x is None, x + 1  # noqa: E711


@checked(ints(3), torch.zeros(3, dtype=torch.int64), graphs=None, breaks=None)
def test_integer_division_by_zero_raises(x, y):
    return (x + 1) // y
