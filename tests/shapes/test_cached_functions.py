"""Cached functions of sizes: one graph for each value; counts, entries and objects of the caches are eager's."""

from __future__ import annotations

import functools

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, tensor

SIZES = (2, 4, 5, 6, 4, 7, 5)
FACTOR = [1]
CACHES = []


def cached(**settings):
    def decorate(fn):
        wrapper = functools.lru_cache(**settings)(fn)
        CACHES.append(wrapper)
        return wrapper

    return decorate


@cached(maxsize=None)
def round_up(n, k):
    return (n + k - 1) // k * k


@cached(maxsize=None)
def described(n):
    return [n, n * 2], {"size": n, "half": n // 2}, (n, None, "n")


@cached(maxsize=2)
def following(n, *, step=1):
    return n + step


@cached(maxsize=None)
def not_five(n):
    if n == 5:
        raise ValueError(n)
    return n * 2


@cached(maxsize=None)
def scaled(n):
    return n * FACTOR[0]


@cached(maxsize=None)
def positions(n):
    return torch.arange(float(n))


@cached(typed=True)
def doubled(shape, dtype=None):
    return (shape[0] * 2, *shape[1:])


def padded(x):
    return torch.nn.functional.pad(x, (0, 0, 0, round_up(x.shape[0], 4) - x.shape[0]))


def a_shape(x):
    return torch.cat([x, x]).view(doubled(x.shape, dtype=x.dtype)), round_up(x.shape[1], k=2)


def parts_of_what_is_cached(x):
    sizes, names, rest = described(x.shape[0])
    return x + names["half"], sizes[1], rest[2]


def what_is_cached_is_returned(x):
    return x + 1, described(x.shape[0])


def what_is_cached_is_changed(x):
    sizes = described(x.shape[0])[0]
    sizes.append(1)
    return x + len(sizes), sizes


def twice(x):
    one, other = described(x.shape[0]), described(x.shape[0])
    return x + 1, one is other, one[0] is other[0]


def a_small_cache(x):
    n = x.shape[0]
    return x + following(n) + following(n, step=2) + following(n + 1) + following(n)


def one_that_raises(x):
    try:
        return x + not_five(x.shape[0])
    except ValueError as error:
        return x, error.args


def one_that_reads_what_changes(x):
    FACTOR[0] += 1
    return x + scaled(x.shape[0])


def one_of_tensors(x):
    return x + positions(x.shape[0])[:, None], positions(x.shape[0])


def after_random_numbers(x):
    return x * torch.rand(()) + round_up(x.shape[0], 8)


def run(fn, wrap):
    """Results, and what the caches say."""
    for each in CACHES:
        each.cache_clear()
    FACTOR[:] = [1]
    torch.manual_seed(0)
    call = wrap(fn)
    return [(call(tensor(n, 3)), [tuple(each.cache_info()) for each in CACHES]) for n in SIZES]


IN_ONE_EACH = (padded, a_shape, parts_of_what_is_cached, what_is_cached_is_returned, twice, after_random_numbers)
IN_MORE = (one_that_reads_what_changes, a_small_cache, what_is_cached_is_changed, one_of_tensors)


@pytest.mark.parametrize("fn", [*IN_ONE_EACH, *IN_MORE], ids=lambda fn: fn.__name__)
def test_caches_of_sizes(fn):
    recorder = Recorder()
    eager = run(fn, lambda fn: fn)
    compiled = run(fn, lambda fn: dl.compile(fn, backend=recorder))
    Pairing().compare(eager, compiled, fn.__name__)
    if fn in IN_ONE_EACH:
        assert len(recorder.graphs) == len(set(SIZES)), recorder.graphs


def test_one_that_raises_gives_the_same_results():
    eager, compiled = (
        run(one_that_raises, wrap) for wrap in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager"))
    )
    Pairing().compare([result for result, _ in eager], [result for result, _ in compiled], "results")


@pytest.mark.filterwarnings("ignore:.*has 8 compiled versions:RuntimeWarning")
def test_einops_over_sizes():
    """Its functions are cached ones: each size is specialized, up to the limit."""
    einops = pytest.importorskip("einops")

    def attention(x):
        q, k, v = (einops.rearrange(each, "b n (h d) -> b h n d", h=2) for each in x.chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        return einops.rearrange(weights @ v, "b h n d -> b n (h d)"), einops.repeat(x, "b n d -> b r n d", r=2)

    attention(tensor(2, 2, 12))  # it looks for backends once
    compiled = dl.compile(attention, backend="aot_eager")
    for n in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12):
        x = tensor(2, n, 12)
        torch.testing.assert_close(compiled(x), attention(x))
    assert dl.counters.graphs == dl.config.recompile_limit and dl.counters.graph_breaks == 0


def test_einops_raises_at_a_size_that_does_not_fit():
    einops = pytest.importorskip("einops")

    def halves(x):
        return einops.rearrange(x, "b (h n) -> b h n", h=2) + 1

    halves(tensor(2, 2))
    compiled = dl.compile(halves, backend="eager")
    for n in (4, 6, 8, 10):
        x = tensor(2, n)
        assert torch.equal(compiled(x), halves(x))
    messages = []
    for call in (halves, compiled):
        with pytest.raises(einops.EinopsError) as caught:
            call(tensor(2, 7))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
