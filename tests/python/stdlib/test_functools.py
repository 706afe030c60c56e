"""The module functools: partials, caches, dispatch, decorators with state."""

from __future__ import annotations

import functools
import operator
import sys
import typing

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from collector import Programs
from programs import built, check, checked, recompiling, tensor, watching

programs = Programs()


def scale(x, n=2, *, plus=0):
    return x * n + plus


outer_partial = functools.partial(scale, n=3)
nested_partial = functools.partial(functools.partial(scale, plus=1), n=4)


@programs(tensor(2), 3, others=[(tensor(2), 5)])
def partial_in_every_form(x, n):
    a = functools.partial(scale)(x)
    b = functools.partial(scale, x)(n)
    c = functools.partial(scale, plus=1)(x, n=n)
    d = functools.partial(scale, n=n)(x, n=7, plus=2)
    return a, b, c, d


@programs(tensor(2), operators=4)
def partial_from_outside(x):
    return (
        outer_partial(x),
        nested_partial(x),
        nested_partial.func is scale,
        nested_partial.keywords,
        nested_partial.args,
    )


@programs(tensor(2))
def partial_of_partial_is_flat(x):
    p = functools.partial(functools.partial(scale, x, n=2), n=3, plus=1)
    return p(), p.func is scale, p.keywords, len(p.args)


@programs(tensor(2))
def partial_returned_and_called(x):
    p = functools.partial(scale, plus=x)
    return p, p(x)


@programs(tensor(2), functools.partial(scale, n=3), others=[(tensor(2), functools.partial(scale, n=4, plus=1))])
def partial_as_an_argument(x, p):
    return p(x), p.keywords


class Shift:
    def __init__(self, by, twice=False):
        self.by = by * 2 if twice else by

    def apply(self, v, sign=1):
        return v + self.by * sign


@programs(tensor(2))
def partial_of_methods_builtins_and_classes(x):
    made = functools.partial(Shift, twice=True)(3)
    a = functools.partial(made.apply, sign=-1)(x)
    b = functools.partial(Shift.apply, made)(x)
    c = functools.partial(max, 3)(2, 5), functools.partial(int, base=2)("101")
    d = functools.partial(torch.add, alpha=2)(x, x)
    return a, b, c, d


@programs(tensor(2))
def partial_with_attributes(x):
    p = functools.partial(scale, n=3)
    p.note = "kept"
    p.calls = 0
    p.calls += 1
    return p(x), p.note, p.calls, p.__dict__


class WithPartialMethod:
    def __init__(self, base):
        self.base = base

    def set(self, x, value, *, double=False):
        return x * (self.base + value) * (2 if double else 1)

    set_one = functools.partialmethod(set, value=1)
    set_two = functools.partialmethod(set, value=2, double=True)


@programs(tensor(2), 3)
def partialmethod_binds(x, n):
    made = WithPartialMethod(n)
    return made.set_one(x), made.set_two(x), WithPartialMethod.set_one(made, x)


@programs(tensor(2), [1, 2, 3])
def reduce_in_every_form(x, items):
    a = functools.reduce(operator.add, items)
    b = functools.reduce(lambda p, q: p * q, items, x)
    c = functools.reduce(lambda p, q: {**p, q: len(p)}, "ab", {})
    d = functools.reduce(operator.add, [], 5), functools.reduce(operator.add, [7])
    return b, a, c, d


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return fn(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


@logged
def doubled(x):
    """Twice."""
    return x * 2


@programs(tensor(2), all_graphs=None)
@recompiling
@watching((doubled, "calls"))
def a_decorated_function_counts_its_calls(x):
    return doubled(doubled(x)), doubled.__name__, doubled.__doc__, doubled.__wrapped__ is not doubled


@programs(tensor(2))
def wraps_copies_what_a_function_has(x):
    def base(v: int) -> int:
        """Base."""
        return v

    base.mark = 5

    @functools.wraps(base)
    def outer(v):
        return base(v) * 2

    return outer(x), outer.__name__, outer.__doc__, outer.mark, outer.__wrapped__ is base, outer.__qualname__


@functools.lru_cache(maxsize=None)
def table_of(n):
    return [n, n + 1]


@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@programs(tensor(2), 3, others=[(tensor(2), 4)])
def a_cached_function_is_called(x, n):
    return x * table_of(n)[0], fibonacci(n + 2)


WITH_A_DICT = typing.Annotated[int, {}]


@programs(tensor(2), graphs=(1, 2), breaks=None)
def a_cached_function_is_called_with_what_has_no_hash(x):
    try:
        return table_of(WITH_A_DICT)
    except TypeError as error:
        return x * 2, str(error), typing.Optional[WITH_A_DICT]  # noqa: UP045 - calls a cached function


@programs(tensor(2), graphs=(0, 1))
@recompiling
def a_cached_result_is_returned_and_changed(x):
    table_of.cache_clear()
    first = table_of(70)
    first.append(9)
    return x + 1, table_of(70)


def test_a_cache_keeps_what_was_changed_between_calls():
    @functools.cache
    def row(n):
        return [n]

    def fn(x):
        return x * row(1)[0]

    def program(x, n):
        row(1)[0] = n
        return fn(x)

    check(program, tensor(2), 3, graphs=None, others=[(tensor(2), 4), (tensor(2), 3)])


@checked(tensor(2), graphs=(0, 2))
@built
@recompiling
def test_a_cached_function_with_an_effect_runs_it_once():
    calls = []

    @functools.cache
    def noisy(n):
        calls.append(n)
        return n * 2

    def fn(x):
        return x * noisy(3) + noisy(3), list(calls)

    return fn


class _ScaledLater(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * _factor(7)


_FACTORS = []


@functools.cache
def _factor(n):
    _FACTORS.append(n)
    return n * 2.0


def _in_backward(x):
    return _ScaledLater.apply(x).sum()


def _in_hook(x):
    y = x + 1
    y.register_hook(lambda grad: grad * _factor(61))
    return y.sum()


def _in_checkpoint(x):
    return checkpoint(lambda x: x.sin() * _factor(4), x, use_reentrant=False).sum()


def _in_vmap(x):
    return torch.vmap(lambda x: x * _factor(21))(x).sum()


@pytest.mark.parametrize("program", [_in_backward, _in_hook, _in_checkpoint, _in_vmap])
def test_a_cached_function_in_a_function_that_an_operator_runs(program):
    """It runs when eager runs it, and as often: a backward may never come."""

    def outcomes(fn):
        _factor.cache_clear()
        _FACTORS.clear()
        for call in range(3):
            x = tensor(2, grad=True)
            result = fn(x)
            yield result.item(), list(_FACTORS), _factor.cache_info()
            if call:
                result.backward()
                yield x.grad.tolist(), list(_FACTORS), _factor.cache_info()

    assert list(outcomes(dl.compile(program, backend="eager"))) == list(outcomes(program))


@checked(tensor(2), graphs=None)
@built
@recompiling
def test_a_cache_counts_its_hits():
    @functools.lru_cache(maxsize=2)
    def double(n):
        return n * 2

    def fn(x):
        return x * double(2) + double(3) + double(2), tuple(double.cache_info())

    return fn


@checked(tensor(2), graphs=None)
@built
@recompiling
def test_a_cache_of_tensors_gives_the_same_tensor():
    @functools.cache
    def ones(n):
        return torch.ones(n)

    def fn(x):
        return x + ones(2), ones(2) is ones(2), ones(2)

    return fn


def noise_after(before):
    """Returns a builder of a program: ``before`` draws or seeds, then a cached function draws."""

    def build():
        @functools.cache
        def noise(n):
            return torch.rand(n)

        def fn(x):
            y = before(x)
            return x + y, noise(2)

        return fn

    return build


@pytest.mark.parametrize(
    "before",
    [torch.rand_like, lambda x: F.dropout(x, 0.5), lambda x: x if torch.manual_seed(7) else None],
    ids=["drawn", "dropout", "seeded"],
)
def test_a_cached_function_draws_after_the_graph(before):
    check(built(recompiling(noise_after(before))), tensor(2), graphs=None)


@checked(tensor(2), graphs=1, breaks=0)
@built
@recompiling
def test_a_cached_function_that_draws_nothing_is_called_after_random_numbers():
    @functools.cache
    def positions(n):
        return torch.arange(n)

    return lambda x: F.dropout(x, 0.5) + positions(2)


@checked(tensor(2), graphs=None)
@built
@recompiling
def test_a_cached_method():
    class Model:
        def __init__(self):
            self.built = 0

        @functools.cache
        def mask(self, n):
            self.built += 1
            return n * 2

        def run(self, x):
            return x * self.mask(3) + self.mask(3), self.built

    return Model().run


@programs(tensor(2), graphs=None)
@recompiling
def a_cache_made_inside(x):
    calls = []

    @functools.lru_cache(maxsize=None)
    def square(n):
        calls.append(n)
        return n * n

    total = x * square(2) + square(3) + square(2)
    return total, calls


class Lazy:
    def __init__(self, n):
        self.n = n
        self.built = 0

    @functools.cached_property
    def weight(self):
        self.built += 1
        return torch.full((2,), float(self.n))

    @functools.cached_property
    def doubled(self):
        return self.weight * 2


@programs(tensor(2), Lazy(3))
def cached_property_of_an_argument(x, lazy):
    made = Lazy(2)
    return x + lazy.doubled, lazy.built, lazy, made.weight is made.weight, made.built, made.__dict__


@programs(tensor(2), Lazy(3))
def cached_property_deleted_and_set(x, lazy):
    a = x + lazy.weight
    del lazy.weight
    b = a + lazy.weight
    lazy.weight = x
    return b, lazy.built, lazy.weight is x


@functools.singledispatch
def describe(value, x):
    return x + 0


@describe.register
def _(value: int, x):
    return x + value


@describe.register(list)
def _(value, x):
    for each in value:
        x = describe(each, x)
    return x * 2


@describe.register(torch.Tensor)
def _(value, x):
    return x - value


@programs(tensor(2), [1, "a", [True]], graphs=None)
def singledispatch_by_type(x, value):
    return describe(value, x), describe(x, x), describe.dispatch(bool) is describe.dispatch(int)


class Dispatching:
    @functools.singledispatchmethod
    def apply(self, value, x):
        return x

    @apply.register
    def _(self, value: int, x):
        return x * value

    @apply.register
    def _(self, value: str, x):
        return x + len(value)


@programs(tensor(2), graphs=None)
def singledispatchmethod_by_type(x):
    made = Dispatching()
    return made.apply(3, x), made.apply("ab", x), made.apply(None, x) is x


@programs(tensor(2), [3, 1, 2])
def cmp_to_key_sorts(x, items):
    down = functools.cmp_to_key(lambda a, b: b - a)
    a = sorted(items, key=down)
    b = max(items, key=down), min(items, key=down)
    c = down(1) < down(2), down(1) == down(1)
    return x + a[0], a, b, c


@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return self.parts == other.parts if isinstance(other, Version) else NotImplemented

    def __lt__(self, other):
        return self.parts < other.parts if isinstance(other, Version) else NotImplemented

    def __hash__(self):
        return hash(self.parts)


@programs(tensor(2))
def total_ordering_fills_in(x):
    a, b = Version(1, 2), Version(1, 10)
    facts = a < b, a <= b, a > b, a >= b, a == b, a != b, a <= Version(1, 2), max(a, b).parts
    return x + 1, facts, sorted([b, a])[0] is a


test_functools = programs.test()


# -- cached functions that raise ---------------------------------------------------------------------------------------

CALLED: list = []


@functools.lru_cache(maxsize=None)
def checked(n, *rest, scale=1):
    CALLED.append(n)
    if n > 1:
        raise ValueError(n * scale)  # it shows in the traceback
    return n * scale


def caught(x, n):
    try:
        found = checked(n, 2, scale=3)
    except ValueError as error:
        found = error.args[0] * 10
    return x + found


def raised_inside(x, n):
    def inner(n):
        return checked(n) + 1

    return x * inner(n)


@pytest.mark.parametrize("fn", [caught, raised_inside, lambda x, n: x * checked(n)], ids=["caught", "inside", "raised"])
@pytest.mark.parametrize("n", [1, 2])
def test_cached_function_that_raises_runs_once(fn, n):
    """The function's cache is empty before each run of the calls."""

    def build():
        checked.cache_clear()
        return fn

    check(built(watching("CALLED")(build)), tensor(3), n, graphs=None, others=[(tensor(3), n + 5)])


REFUSED: set[int] = set()


@functools.lru_cache(maxsize=None)
def refusing(n):
    CALLED.append(n)
    if n in REFUSED:
        raise ValueError(n)
    return n


def test_cached_function_that_raised_in_a_call_that_failed(monkeypatch):
    """An exception of the failed call doesn't affect the next call."""
    monkeypatch.setattr(sys.modules[__name__], "CALLED", [])
    failures = [RuntimeError("no")]

    def backend(gm, example_inputs):
        if failures:
            raise failures.pop()
        return gm.forward

    def fn(x, n):
        return (x + 1) * refusing(n)

    refusing.cache_clear()
    compiled = dl.compile(fn, backend=backend)
    REFUSED.add(3)
    with pytest.raises(dl.exc.BackendCompilerFailed):
        compiled(tensor(2), 3)
    REFUSED.clear()
    assert torch.equal(compiled(tensor(2), 3), (tensor(2) + 1) * 3)


def test_cached_functions_of_functions_in_c_and_modules():
    @functools.lru_cache
    def length(of):
        return len(str(type(of)))

    def fn(x):
        return x + length(len) + length(torch) + length(torch.sin)

    length.cache_clear()
    check(fn, tensor(2), operators=3)
