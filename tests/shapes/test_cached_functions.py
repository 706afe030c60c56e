"""Cached functions of sizes. Of sizes that are specialized: counts, entries and objects of the caches are eager's. Of
symbolic sizes: the functions are traced through, so that one graph serves all sizes."""

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
    """Returns the results, and the statistics of the caches."""
    for each in CACHES:
        each.cache_clear()
    FACTOR[:] = [1]
    torch.manual_seed(0)
    call = wrap(fn)
    return [(call(tensor(n, 3)), [tuple(each.cache_info()) for each in CACHES]) for n in SIZES]


IN_ONE_EACH = (padded, a_shape, parts_of_what_is_cached, what_is_cached_is_returned, twice, after_random_numbers)
IN_MORE = (one_that_reads_what_changes, a_small_cache, what_is_cached_is_changed, one_of_tensors)


@pytest.mark.parametrize("fn", [*IN_ONE_EACH, *IN_MORE], ids=lambda fn: fn.__name__)
def test_caches_of_specialized_sizes_are_eagers(fn):
    recorder = Recorder()
    eager = run(fn, lambda fn: fn)
    compiled = run(fn, lambda fn: dl.compile(fn, backend=recorder, dynamic=False))
    Pairing().compare(eager, compiled, fn.__name__)
    if fn in IN_ONE_EACH:
        assert len(recorder.graphs) == len(set(SIZES)), recorder.graphs


@cached(maxsize=None)
def labelled(n, axes):
    """Calls another cached function with constants."""
    return {"label": f"{n} of {axes}", "size": n * rank(axes)}


@cached(maxsize=None)
def rank(axes):
    return len(axes.split())


def a_nested_one(x):
    return x * labelled(x.shape[0], "h w")["size"]


def a_text(x):
    return x + 1, labelled(x.shape[0], "h w")["label"]


def one_of_a_list_from_outside(x):
    return x * reordered(x.shape[0], RECIPE)[1][0], reordered(x.shape[0], RECIPE)[1] is RECIPE.order


class Recipe:
    def __init__(self):
        self.order = [2, 1]


RECIPE = Recipe()


@cached(maxsize=None)
def reordered(n, recipe):
    return [n * each for each in recipe.order], recipe.order


IN_TWO = (padded, a_shape, parts_of_what_is_cached, twice, a_nested_one, a_text, one_of_a_list_from_outside)


@pytest.mark.parametrize("fn", [*IN_TWO, after_random_numbers, one_that_raises], ids=lambda fn: fn.__name__)
def test_functions_of_symbolic_sizes_are_traced_through(fn):
    """The first size has one graph and all others share another. There is one more if the program branches on the
    size.
    """
    recorder = Recorder()
    eager, compiled = (run(fn, wrap) for wrap in (lambda fn: fn, lambda fn: dl.compile(fn, backend=recorder)))
    Pairing().compare([result for result, _ in eager], [result for result, _ in compiled], fn.__name__)
    assert len(recorder.graphs) == 2, recorder.graphs
    assert dl.counters.graph_breaks == 0


def a_result_is_stored(x, store):
    store[x.shape[0]] = described(x.shape[0])[0]
    return x + 1


def a_part_is_changed(x, store):
    described(x.shape[0])[1]["half"] += 1
    return x + described(x.shape[0])[1]["half"]


def a_part_is_passed_on(x, store):
    store.setdefault("parts", []).append(described(x.shape[0])[0])
    return x + 1


def a_part_survives_a_break(x, store):
    sizes = described(x.shape[0])[0]
    x = x + sizes[1]
    dl.graph_break()
    return x + len(sizes), sizes


@pytest.mark.parametrize("fn", [a_result_is_stored, a_part_is_changed, a_part_is_passed_on, a_part_survives_a_break])
def test_containers_that_callers_share_are_the_caches_own(fn):
    def program(wrap):
        store = {}
        call = wrap(fn)
        return run(lambda x: x, lambda _: lambda x: call(x, store)), store, described(7)

    (eager, *rest), (compiled, *others) = (
        program(wrap) for wrap in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager"))
    )
    Pairing().compare([result for result, _ in eager], [result for result, _ in compiled], "results")
    Pairing().compare(rest, others, "what is kept")


@cached(maxsize=None)
def counting(n):
    FACTOR.append(n)
    return n


def one_with_an_effect(x):
    return x * counting(x.shape[0]), len(FACTOR)


def test_one_with_an_effect_runs_as_often_as_in_eager():
    eager, compiled = (
        run(one_with_an_effect, wrap) for wrap in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager"))
    )
    Pairing().compare([result for result, _ in eager], [result for result, _ in compiled], "results")


def attention(x):
    import einops

    q, k, v = (einops.rearrange(each, "b n (h d) -> b h n d", h=2) for each in x.chunk(3, -1))
    weights = torch.softmax(q @ k.transpose(-1, -2), -1)
    return einops.rearrange(weights @ v, "b h n d -> b n (h d)"), einops.repeat(x, "b n d -> b r n d", r=2)


def test_einops_over_sizes():
    einops = pytest.importorskip("einops")

    def patches(x):
        return einops.rearrange(x, "b n (d p) -> b p (n d)", p=2), einops.reduce(x, "b (m 2) d -> b d", "max")

    for fn, sizes in ((attention, range(3, 13)), (patches, range(4, 16, 2))):
        fn(tensor(2, 2, 12))  # it looks for backends once
        dl.counters.reset()
        compiled = dl.compile(fn, backend="aot_eager")
        for n in sizes:
            x = tensor(2, n, 12)
            torch.testing.assert_close(compiled(x), fn(x))
        assert dl.counters.graphs == 2 and dl.counters.graph_breaks == 0, fn


@pytest.mark.filterwarnings("error")
def test_einops_looks_for_backends_once(monkeypatch):
    """The loop breaks the graph in the first call. It reaches no limit, and later calls run one graph."""
    backends = pytest.importorskip("einops._backends")
    monkeypatch.setattr(backends, "_loaded_backends", {})
    monkeypatch.setattr(backends, "_type2backend", {})
    compiled = dl.compile(attention, backend="eager")
    compiled(tensor(2, 3, 12))
    dl.counters.reset()
    for n in (4, 5, 6, 7):
        x = tensor(2, n, 12)
        torch.testing.assert_close(compiled(x), attention(x))
    assert dl.counters.graphs == 1 and dl.counters.graph_breaks == 0


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
