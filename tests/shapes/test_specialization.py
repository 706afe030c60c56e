"""Programs that need the value of a symbolic number: it is specialized, without another break."""

import collections
import copy
import enum
import functools
import math
import operator

import numpy as np
import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.compiler.frame_compiler import FrameCompiler
from equality import Pairing
from programs import tensor
from sweeps import sweep, swept


@functools.lru_cache(None)
def doubled(n):
    return n * 2


@functools.lru_cache(None)
def ones(n):
    return torch.ones(n)


class Level(enum.IntEnum):
    TWO = 2
    THREE = 3
    FOUR = 4


class Count(int):
    pass


PROGRAMS = {
    "key of a cache": lambda x: x * doubled(x.size(0)) + ones(x.size(0))[0],
    "member of an enum": lambda x: x * Level(x.size(0)),
    "subclass of int": lambda x: x * Count(x.size(0)),
    "array": lambda x: torch.from_numpy((x + 1).numpy()[:5].sum(0)),  # of twice the size other rows are taken
    "new array": lambda x: torch.from_numpy(np.zeros(x.shape, dtype=np.float32)) + x,
    "scalar of numpy": lambda x: x + np.float32(x.size(0)),
    "text": lambda x: (x + 1, f"{x.size(0):>5} {x.shape} %d" % x.size(0), "{0!r}".format(x.shape), str(x.size(0) / 2)),
    "index": lambda x: (x * [1, 2, 3, 4, 5][x.size(0)], "abcdef"[x.size(0)], [1, 2, 3, 4][: x.size(0)]),
    "key": lambda x: x * {2: 1, 3: 2, 4: 5}[x.size(0)] + len({x.size(0), 3}),
    "bits": lambda x: x * (x.size(0) & 3) + (x.size(0) << 1) + x.size(0).bit_length(),
    "repeated": lambda x: (x + 1, bytes(x.size(0)), "a" * x.size(0), [0] * x.size(0)),
    "function of integers": lambda x: (x * math.gcd(x.size(0), 6), divmod(x.size(0), 2), pow(x.size(0), 2, 3)),
    "complex": lambda x: x * complex(x.size(0)) + 2 ** x.size(0),
    "containers": lambda x: x * collections.Counter([x.size(0)])[3] + sorted([x.size(0), 3, 1])[1],
    "hash": lambda x: (x + 1, hash(x.shape), x.shape.index(3), chr(x.size(0) + 60)),
    "rounded": lambda x: x * round(x.size(0) / 3, 1) + float(str(x.size(0))),
    "methods": lambda x: x * x.size(0).__int__() + x.size(0).__add__(1) + x.size(0).real,
    "nested": lambda x: torch.tensor([[x.size(0), 1], [2, 3]]),
    "product": lambda x: x * functools.reduce(operator.mul, x.shape) * next(iter(x.shape)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.on_cpu
def test_no_more_graphs_than_with_known_sizes(name):
    fn = PROGRAMS[name]
    made = []
    for dynamic in (False, True):
        for cache in (doubled, ones):
            cache.cache_clear()
        compiled = dl.compile(fn, backend="eager", dynamic=dynamic)
        before = dl.counters.graphs, dl.counters.graph_breaks
        compiled(tensor(2, 3))
        made.append((dl.counters.graphs - before[0], dl.counters.graph_breaks - before[1]))
        for n in (2, 3, 4):
            Pairing().compare(fn(tensor(n, 3)), compiled(tensor(n, 3)), name)
    assert made[0] == made[1]


def test_only_the_number_that_is_needed_is_specialized():
    def fn(x, n, f):
        y = x.sum() + np.float64(n)
        return y * f + x.size(0), np.float64(f)

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for rows in (3, 4, 5):
        Pairing().compare(fn(tensor(rows), 4, 0.5), compiled(tensor(rows), 4, 0.5), "result")
    assert (dl.counters.graphs, dl.counters.graph_breaks) == (1, 0)
    Pairing().compare(fn(tensor(3), 5, 0.5), compiled(tensor(3), 5, 0.5), "result")
    Pairing().compare(fn(tensor(3), 5, 0.25), compiled(tensor(3), 5, 0.25), "result")
    assert dl.counters.graphs == 3


def test_breaks_that_no_number_would_spare():
    def fn(x, n):
        y = x * n
        print(end="")
        return y.view(-1) + x.size(0)

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for n in (2, 3, 4):
        Pairing().compare(fn(tensor(n, 3), n + 1), compiled(tensor(n, 3), n + 1), "result")
    assert (dl.counters.graphs, dl.counters.graph_breaks) == (2, 1)


@pytest.mark.on_cpu
@swept([(tensor(n, 3),) for n in (2, 3, 4)], graphs=None, dynamic=True)
def test_refused_whatever_the_sizes_are(x):
    y = x + 1
    return y.numpy().astype("U3").size + x.size(0), y


def test_specialized_numbers_keep_their_identity():
    def fn(x, a, b):
        one, other = copy.deepcopy([a, b])
        return x + (one is other)

    for make in (lambda: int("1000000"), lambda: float("0.5")):
        a, b = make(), make()
        for pairs in ([(a, b), (a, a)], [(a, a), (a, b)]):
            dl.reset()
            sweep(fn, [(tensor(2), *pair) for pair in pairs], graphs=None, dynamic=True)


@pytest.mark.parametrize("name, wanted", [("scalar of numpy", [1, 2, 1]), ("array", [1, 4, 1])])
@pytest.mark.on_cpu
def test_specialized_numbers_are_remembered_by_later_compilations(name, wanted, monkeypatch):
    attempts = []

    monkeypatch.setattr(FrameCompiler, "prepare", lambda compiler, attempt: attempts.append(attempt))
    compiled = dl.compile(PROGRAMS[name], backend="eager")
    made = []
    for n in (2, 3, 4):
        Pairing().compare(PROGRAMS[name](tensor(n, 3)), compiled(tensor(n, 3)), name)
        made.append(len(attempts) - sum(made))
    assert made == wanted


WAYS = [(3, 3, False), (3, 4, False), (3, 5, False), (3, 6, True), (4, 7, True), (5, 8, True), (6, 9, False)]


@swept([(tensor(size), n, flag) for size, n, flag in WAYS], graphs=6)
def test_specializations_of_one_branch_do_not_affect_another(x, n, flag):
    if flag:
        return x * n + x.size(0)
    return x * np.float32(n) + x.size(0)


def _dropped(x):
    return torch.nn.functional.dropout(x, 0.5)


TRANSFORMS = {
    "rows of their own": lambda x: torch.vmap(_dropped, randomness="different")(x),
    "the same for all rows": lambda x: torch.vmap(_dropped, randomness="same")(x),
    "in chunks": lambda x: torch.vmap(_dropped, randomness="different", chunk_size=2)(x),
    "a gradient": lambda x: torch.func.grad(lambda y: _dropped(y).sum())(x),
    "products": lambda x: torch.vmap(lambda row: _dropped(row @ row.t()).sum(), randomness="same")(x[:, :, None]),
}


@pytest.mark.parametrize("fn", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_whose_kernels_need_the_sizes(fn):
    """torch's dropout asks for the number of elements where torch.func transforms it, except in chunks."""
    if fn is not TRANSFORMS["in chunks"]:
        with pytest.raises(dl.exc.Unsupported, match="DL0454"):
            dl.compile(fn, backend="eager", dynamic=True, fullgraph=True)(tensor(3, 4))
    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for shape in ((3, 4), (5, 4), (7, 6), (2, 9)):
        x = tensor(*shape)
        torch.manual_seed(1)
        expected = fn(x)
        torch.manual_seed(1)
        assert torch.equal(compiled(x), expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_in_eval_mode_returns_its_argument(backend):
    def fn(x):
        y = torch.nn.functional.dropout(x, 0.1, training=False)
        y.add_(1)
        return y is x, x * 2, y

    for dynamic in (None, True):
        compiled = dl.compile(fn, backend=backend, dynamic=dynamic)
        for size in (4, 5, 7):
            one, other = tensor(size), tensor(size)
            same, double, found = compiled(other)
            fn(one)
            assert same and found is other and torch.equal(one, other) and torch.equal(double, one * 2)


def test_rows_of_a_computed_number():
    """The number of rows is known before the rows are taken. Otherwise torch would guard on an assumption of each
    row.
    """

    def total(x):
        found = 0
        for each in torch.flatten(x[2:]):
            found = found + each
        return found

    compiled = dl.compile(total, backend="eager")
    for rows, columns in ((7, 4), (8, 5), (8, 6)):
        x = tensor(rows, columns)
        assert torch.equal(compiled(x), total(x))
    newest, *_ = compiled.owner.entries(total.__code__)
    assert dl.counters.graphs == 3
    assert sum(kind == "symbolic" for _, kind, _ in newest.tree.checks()) <= 3
