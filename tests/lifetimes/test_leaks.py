"""Nothing is kept alive (arguments, models, old code), and no reference is dropped too often."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch

import dynamo_lite as dl


def gm_forward(gm, inputs):
    return gm.forward


class Token:
    """An object whose references are counted."""


def settled(count: int = 3) -> int:
    """Returns the number of tracked objects after the collector finds no more garbage."""
    for _ in range(count):
        gc.collect()
    return len(gc.get_objects())


def counts(*objects: object) -> list[int]:
    return [sys.getrefcount(each) for each in objects]


def breaking(x, token, n=1):
    y = x + n
    dl.graph_break()
    return y * 2, token


def raising(x, token, n=1):
    y = x + n
    raise ValueError(token)


def looping(x, token, n=1):
    kept = [token]

    def inner(v):
        return v + n, kept

    for _ in range(2):
        x, _ = inner(x)
    return x, kept


def call_quietly(fn, *args):
    try:
        fn(*args)
    except ValueError:
        pass


@pytest.mark.parametrize("fn", [breaking, raising, looping], ids=lambda fn: fn.__name__)
def test_ten_thousand_calls(fn):
    compiled = dl.compile(fn, backend=gm_forward)
    x, token, n = torch.ones(2), Token(), 10**6
    for _ in range(20):
        call_quietly(compiled, x, token, n)
    watched = (x, token, n, fn, fn.__code__, compiled, None, True, gm_forward)
    objects, before = settled(), counts(*watched)
    for _ in range(10_000):
        call_quietly(compiled, x, token, n)
    after = counts(*watched)
    grown = settled() - objects
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True)), (before, after)
    assert grown < 100, f"{grown} objects more after 10,000 calls"


def test_ten_thousand_hits_of_a_closure_and_a_method():
    scale = torch.full((2,), 2.0)

    class Thing:
        def __init__(self):
            self.offset = torch.ones(2)

        def go(self, x, *args, key=None, **kwargs):
            return x * scale + self.offset, args, kwargs, key

    thing, token = Thing(), Token()
    compiled = dl.compile(thing.go, backend=gm_forward)
    x = torch.ones(2)
    for _ in range(20):
        compiled(x, token, key=token, other=token)
    watched = (x, token, thing, thing.offset, scale, Thing.go)
    objects, before = settled(), counts(*watched)
    for _ in range(10_000):
        compiled(x, token, key=token, other=token)
    assert counts(*watched) == before
    assert settled() - objects < 100


def test_misses_do_not_leak_arguments():
    compiled = dl.compile(lambda x, token, n: (x + n, token), backend=gm_forward)
    token, x = Token(), torch.ones(2)
    with dl.config.patch(recompile_limit=4):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for n in range(6):
                compiled(x, token, n)
            before = counts(token, x)
            for n in range(2_000):
                compiled(x, token, n)
    assert all(abs(a - b) < 20 for a, b in zip(counts(token, x), before, strict=True))


def test_compile_and_reset_cycles():
    def fn(x, n):
        y = x + n
        dl.graph_break()
        return [y * i for i in range(3)]

    x = torch.ones(2)
    compiled = dl.compile(fn, backend=gm_forward)

    def cycle(times):
        for n in range(times):
            compiled(x, n % 3)
            dl.reset()

    cycle(10)
    objects, before = settled(), counts(x, fn, fn.__code__, gm_forward)
    cycle(60)
    grown = settled() - objects
    assert all(abs(a - b) < 15 for a, b in zip(counts(x, fn, fn.__code__, gm_forward), before, strict=True))
    assert grown < 600, f"{grown} objects more after 60 compilations, {grown / 60:.0f} each"


def test_dropped_compiled_functions_are_freed():
    def cycle(times):
        for _ in range(times):
            scope = {}
            exec("def fn(x):\n    return x * 2 + 1", scope)
            dl.compile(scope["fn"], backend=gm_forward)(torch.ones(2))

    cycle(10)
    objects = settled()
    cycle(60)
    grown = settled() - objects
    assert grown < 600, f"{grown} objects more after 60 dropped functions, {grown / 60:.0f} each"


def test_code_object_is_freed_with_its_entries():
    class Backend:
        def __call__(self, gm, inputs):
            return gm.forward

    backend = Backend()
    scope = {}
    exec("def fn(x):\n    return x * 2", scope)
    compiled = dl.compile(scope["fn"], backend=backend)
    compiled(torch.ones(2))
    code, held = weakref.ref(scope["fn"].__code__), weakref.ref(backend)
    del scope, compiled, backend
    gc.collect()
    assert code() is None
    assert held() is None


def test_dropped_function_and_closure_are_freed():
    token = Token()

    def make(token, x):
        def fn(v):
            return v * x, token

        return fn

    x = torch.ones(2)
    fn = make(token, x)
    compiled = dl.compile(fn, backend=gm_forward)
    compiled(torch.ones(2))
    refs = [weakref.ref(each) for each in (token, fn, x)]
    del token, fn, x, compiled
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None]


def test_results_are_freed_without_the_collector():
    compiled = dl.compile(lambda x: x + 1, backend=gm_forward)
    x = torch.ones(3)
    compiled(x)
    gc.disable()
    try:
        out = compiled(x)
        ref = weakref.ref(out)
        del out
        assert ref() is None, "a result is part of a cycle"
    finally:
        gc.enable()


def with_cells(x):
    def scaled(by):
        return x * by

    return scaled(2) + sum(scaled(each) for each in range(3))


def with_a_break_inside(x):
    def inner(y):
        y = y + 1
        dl.graph_break()
        return y * x

    return inner(x * 2)


def with_a_generator_left(x):
    items = (x * each for each in range(9))
    return next(items) + next(items)


@pytest.mark.parametrize("fn", [with_cells, with_a_break_inside, with_a_generator_left])
def test_traces_are_freed_without_the_collector(fn):
    compiled = dl.compile(fn, backend=gm_forward)
    x = torch.ones(3)
    gc.collect()
    gc.disable()
    try:
        compiled(x)
        ref = weakref.ref(x)
        del x
        assert ref() is None, "an argument is part of a cycle"
    finally:
        gc.enable()


def test_backend_failure_keeps_nothing():
    def broken(gm, inputs):
        raise KeyError

    compiled = dl.compile(lambda x, t: (x + 1, t), backend=broken)
    token = Token()
    ref = weakref.ref(token)
    for _ in range(3):
        with pytest.raises(dl.exc.BackendCompilerFailed):
            compiled(torch.ones(2), token)
    del token
    gc.collect()
    assert ref() is None


def test_graphs_are_freed_on_reset():
    recorder_graphs = []

    def backend(gm, inputs):
        recorder_graphs.append(weakref.ref(gm))
        return gm.forward

    compiled = dl.compile(breaking, backend=backend)
    compiled(torch.ones(2), None)
    assert len(recorder_graphs) == 2
    dl.reset()
    gc.collect()
    assert [ref() for ref in recorder_graphs] == [None, None]
    assert torch.equal(compiled(torch.ones(2), None)[0], torch.full((2,), 4.0))


class Trainer:
    """Compiles its own method with its own backend, whose results refer to the trainer."""

    def __init__(self, has_break):
        self.weight, self.has_break = torch.ones(3, requires_grad=True), has_break
        self.step = dl.compile(self._step, backend=self._backend)

    def _backend(self, gm, example_inputs):
        def run(*inputs):
            self.runs = getattr(self, "runs", 0) + 1
            return gm.forward(*inputs)

        return run

    def _step(self, x):
        y = x * self.weight
        if self.has_break:
            dl.graph_break()
        return (y + 1).sum()


@pytest.mark.parametrize("has_break", [False, True])
def test_object_that_its_backends_results_refer_to_is_collected(has_break):
    trainers = [Trainer(has_break) for _ in range(3)]
    for each in trainers:
        assert each.step(torch.ones(3)) == each.step(torch.ones(3)) == 6
        assert each.runs == (4 if has_break else 2)
    gc.collect()
    assert [each.step(torch.ones(3)).item() for each in trainers] == [6, 6, 6]  # the collector took nothing in use
    held = [weakref.ref(each) for each in trainers]
    del each, trainers
    gc.collect()
    assert [ref() for ref in held] == [None] * 3


def test_module_that_its_backends_results_refer_to_is_collected():
    class Layer(torch.nn.Linear):
        def compiled(self):
            kept = dl.compile(self, backend=lambda gm, inputs: lambda *given: self and gm.forward(*given))
            object.__setattr__(self, "call", kept)
            return kept

    layer = Layer(3, 3)
    x = torch.ones(3)
    assert torch.equal(layer.compiled()(x), layer(x))
    held = weakref.ref(layer)
    del layer
    gc.collect()
    assert held() is None


def test_object_is_kept_while_a_frame_runs_the_code_that_refers_to_it():
    class Holder:
        def backend(self, gm, example_inputs):
            return lambda *inputs: self.forward(gm, *inputs)

        def forward(self, gm, *inputs):
            gc.collect()
            return gm.forward(*inputs)

    def program(x, collect):
        y = x + 1
        collect()
        return y * 2

    def drop():
        calls.clear()
        gc.collect()

    holder = Holder()
    calls = [dl.compile(program, backend=holder.backend)]
    held = weakref.ref(holder)
    del holder
    assert torch.equal(calls[0](torch.ones(2), gc.collect), torch.full((2,), 4.0))
    assert torch.equal(calls[0](torch.ones(2), drop), torch.full((2,), 4.0))
    gc.collect()
    assert held() is None
