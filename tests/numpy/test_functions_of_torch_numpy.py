"""Every function of numpy's that `torch._numpy` has, on ordinary items of each type: in a graph it gives numpy's
numbers, or the graph breaks."""

from __future__ import annotations

import types

import pytest
import torch._numpy

from arrays import check_arrays
from programs import repeated, tensor

np = pytest.importorskip("numpy")

KINDS = ["float64", "int64", "bool"]
_UFUNCS = sorted(
    name
    for name, function in vars(np).items()
    if isinstance(function, np.ufunc) and not function.signature and hasattr(torch._numpy, name)
)
_FUNCTIONS = sorted(
    name
    for name, function in vars(torch._numpy).items()
    if isinstance(function, types.FunctionType)
    and callable(getattr(np, name, None))
    and not isinstance(getattr(np, name), np.ufunc)
    and name not in ("empty", "empty_like", "dtype")  # whose items may be any, and which makes no array
)
_METHODS = """all any argmax argmin argsort astype clip conj copy cumprod cumsum diagonal dot flatten max mean min prod
ravel repeat reshape round squeeze std sum swapaxes take trace transpose var""".split()


def _samples(kind):
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        found = [0, 1, 2, 3, 7, 100, ends.max, ends.max - 1, ends.min]
        return np.array([*found, *((-1, -2, -7) if ends.min else ())], dtype)
    if dtype.kind == "c":
        return np.array([complex(one, other) for one in (0.5, 1.0, -2.5) for other in (0.0, 1.0, -2.5)], dtype)
    return np.array([0.0, 1.0, 2.5, -1.5, 0.25, -3.0, 7.0, np.nan], dtype)


def _compared(function, *given):
    """Compares with eager, unless eager raises."""
    try:
        with np.errstate(all="ignore"):
            function(*given)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        return
    check_arrays(repeated(1)(lambda x, *given: (x + 1, function(*given))), tensor(2), *given, graphs=None)


@pytest.mark.parametrize("name", _UFUNCS)
def test_functions_of_items(name):
    function = getattr(np, name)
    for kind in KINDS:
        items = _samples(kind)
        if function.nin == 1:
            _compared(function, items)
            _compared(lambda a: function(a[1]), items)
            continue
        one, other = (each.ravel() for each in np.meshgrid(items, items))
        _compared(function, one, other)
        for number in (2, -1, 1.5):
            _compared(lambda a, number=number: function(a, number), items)
            _compared(lambda a, number=number: function(number, a), items)


def _forms(items, more):
    yield from (
        (items,),
        (items, 1),
        (items, 0),
        (items, -1),
        (items, 2),
        (items, items),
        (items, items.T),
        (items[0],),
    )
    yield from ((items[0], items[1]), ([items, items],), (items, 1, 2), (items, (0, 1)), (items > 0, items, items * 2))
    yield from ((more,), (items, [0.25, 0.75]), (items, None), (2, 5), ([1, 2, 3],), (3,), (items[:, :1], (4, 6)))


@pytest.mark.parametrize("kind", ["float64", "int64"])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_arrays(name, kind):
    order = np.random.default_rng(0).permutation(24).reshape(4, 6) - 7
    items = (order * (0.37 if kind[0] in "fc" else 1)).astype(kind)
    for given in _forms(items, _samples(kind)):
        _compared(getattr(np, name), *given)


@pytest.mark.parametrize("name", _METHODS)
def test_methods(name):
    order = np.random.default_rng(0).permutation(24).reshape(4, 6) - 7
    for items in (order, order * 0.37, order.T * 1.5, np.where(order == 3, np.nan, order), order > 0):
        if name == "dot" and np.isnan(items).any():  # BLAS makes zeros of NaN times zero
            continue
        for given in ((), (0,), (1,), (-1,), (2,)):
            _compared(lambda a, given=given: getattr(a, name)(*given), items)
