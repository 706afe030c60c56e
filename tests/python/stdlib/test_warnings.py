"""``warnings.catch_warnings`` in compiled functions."""

from __future__ import annotations

import warnings

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor


@pytest.fixture(autouse=True)
def _filters():
    """A test leaves them as they were."""
    before = list(warnings.filters)
    yield
    assert warnings.filters == before


@pytest.mark.parametrize(
    "show",
    [
        lambda: warnings.filterwarnings("error", "abc", DeprecationWarning, "mod", 3),
        lambda: warnings.simplefilter("always"),
        lambda: warnings.resetwarnings(),
    ],
)
def test_filters_that_show_or_raise(show):
    def fn(x):
        with warnings.catch_warnings():
            show()
            y = x * 2
        return y + 1, len(warnings.filters)

    check(fn, tensor(3), graphs=None, breaks=None)


def test_a_break_has_a_name_and_a_hint():
    def fn(x):
        with warnings.catch_warnings(record=True):
            return x * 2

    with pytest.raises(dl.exc.Unsupported, match="lets the program observe warnings"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))


def test_what_warns_is_heard():
    def fn(x, heard):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            y = x * 2
            warnings.warn("told", heard, stacklevel=1)
        return y + 1

    for heard in (UserWarning, RuntimeWarning, int):
        check(fn, tensor(3), heard, graphs=None, breaks=None)


def test_filters_that_raise():
    def fn(x):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                y = x * 2
                warnings.warn("told", stacklevel=1)
        except UserWarning as error:
            return y, str(error)

    check(fn, tensor(3), graphs=None, breaks=None)


def test_operators_that_warn():
    def fn(x, w):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = torch.nn.functional.softmax(x)
            y = y + w.to(torch.complex64).to(torch.float32)
        return y + 1

    def heard(x, w):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            y = torch.nn.functional.softmax(x)
        return y + 1 + w

    check(fn, tensor(3, 3), tensor(3, 3, seed=1), graphs=None, breaks=None)
    check(heard, tensor(3, 3), tensor(3, 3, seed=1), graphs=None, breaks=None)


def test_a_break_within():
    def fn(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = x * 2
            print("within", warnings.filters[0][0])
            warnings.warn("unheard", stacklevel=1)
            y = y + 1
        return y * 3

    check(fn, tensor(3), graphs=None, breaks=None)


def test_left_by_an_exception():
    def fn(x):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = x * 2
                raise ValueError("left")
        except ValueError as error:
            return y + 1, str(error)

    check(fn, tensor(3), graphs=None, breaks=None)


@torch.library.custom_op("dynamo_lite_tests::warns_of_negatives", mutates_args=())
def warns_of_negatives(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        warnings.warn("negative", stacklevel=1)
    return x * 2


warns_of_negatives.register_fake(torch.empty_like)


def test_what_kernels_say_is_recorded():
    def fn(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            y = warns_of_negatives(x)
            x.add_(1)
        return y, [str(each.message) for each in found]

    check(fn, torch.ones(3), others=[(-torch.ones(3),), (torch.ones(3),)], graphs=None, breaks=None)


@pytest.mark.parametrize("catch", [{}, {"record": True}])
def test_filters_from_outside_decide_anew_in_each_call(catch):
    def fn(x):
        with warnings.catch_warnings(**catch):
            warnings.warn("told", stacklevel=1)
            return x * 2

    compiled = dl.compile(fn, backend="eager")
    for action in ("ignore", "always", "error", "ignore"):
        seen = []
        for each in (fn, compiled):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter(action)
                try:
                    each(tensor(3))
                    seen.append(len(found))
                except UserWarning as warning:
                    seen.append(str(warning))
        assert seen[0] == seen[1]
