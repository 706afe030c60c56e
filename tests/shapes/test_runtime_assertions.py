"""Runtime assertions on data that keep failing: each failure runs the frame again in eager."""

from __future__ import annotations

import copy

import torch

import dynamo_lite as dl
from programs import Recorder, compare, observe

FINE = torch.full((3, 4), 2.0)
ZERO = torch.eye(3, 4)


def _called(program, calls, backend=None, **settings):
    """Calls a program eagerly and compiled. Returns the graphs that ran in each call."""
    dl.reset()
    recorder = Recorder()
    compiled = dl.compile(program, backend=backend or recorder, **settings)
    ran = []
    for args in calls:
        before = recorder.runs
        compare(*(observe(fn, copy.deepcopy(args), {}, lambda: None, False) for fn in (program, compiled)))
        ran.append(recorder.runs - before)
    return recorder, ran


def _checked(a):
    b = a * 2 + 1
    c = b - a
    if (a == 0).any():
        raise ZeroDivisionError("a zero")
    return 0.5 / a + c, b.amax(1)


def test_repeated_failures_recompile_with_a_break():
    recorder, ran = _called(_checked, [(FINE,)] * 2 + [(ZERO,)] * 26)
    assert ran == [1] * 28 and len(recorder.graphs) == 1 and dl.counters.graph_breaks == 0
    assert len(recorder.graphs[0].graph.find_nodes(op="placeholder")) == 1


def test_rare_failures_keep_the_graph():
    recorder, ran = _called(_checked, [(FINE,), *[(ZERO,)] * 6] * 3)
    assert ran == [1] * 21 and len(recorder.graphs) == 1


def test_a_place_in_a_function_and_one_after_the_other():
    def quotient(a, b):
        if (b == 0).any():
            raise ZeroDivisionError("a zero")
        return a / b

    def program(a, b):
        c = quotient(a + 1, b)
        return c.max() + quotient(b, a), b.sort().values

    calls = [(FINE, FINE)] * 2 + [(FINE, ZERO)] * 20 + [(ZERO, FINE)] * 20 + [(ZERO, ZERO)] * 20 + [(FINE, FINE)]
    recorder, ran = _called(program, calls)
    assert max(ran) < 6 and len(recorder.graphs) < 40


def test_writes_are_undone_before_the_eager_run():
    def program(a, b):
        a += b
        if (b == 0).any():
            raise ZeroDivisionError("a zero")
        a += b
        return b * 2

    calls = [(torch.ones(3, 4), b) for b in (FINE, *[ZERO] * 20, FINE)]
    _called(program, calls)


def test_fullgraph_keeps_one_graph_despite_failures():
    recorder, ran = _called(_checked, [(FINE,)] + [(ZERO,)] * 20, fullgraph=True)
    assert len(recorder.graphs) == 1 and ran == [1] * 21


def test_failures_of_layers_that_share_compiled_code():
    class Layer(torch.nn.Module):
        def forward(self, a):
            return _checked(a)

    dl.reset()
    layers = [dl.compile(Layer(), backend="eager") for _ in range(3)]
    for data in (FINE, *[ZERO] * 20, FINE):
        for layer in layers:
            compare(*(observe(fn, (data,), {}, lambda: None, False) for fn in (Layer(), layer)))


def test_a_truth_value_that_a_function_returns():
    def has_zero(a):
        return bool((a == 0).any())

    def program(a):
        b = a + 1
        if has_zero(a):
            raise ZeroDivisionError("a zero")
        return b / a

    recorder, ran = _called(program, [(FINE,), (ZERO,), (FINE,)])
    assert ran == [1] * 3 and len(recorder.graphs) == 1 and dl.counters.graph_breaks == 0


def test_a_truth_value_that_is_branched_on_returned_and_counted():
    def has_zero(a):
        return bool((a == 0).any())

    def program(a):
        found = has_zero(a)
        a.add_(1)
        return (a * 2 if found else a - 1), found, has_zero(a), found + 1

    recorder, ran = _called(program, [(FINE,), (ZERO,), (FINE,)])
    assert max(ran) <= 3


def test_a_truth_value_of_several_numbers_is_refused():
    def program(a):
        try:
            return a + bool(a)
        except RuntimeError as error:
            return str(error)

    _called(program, [(FINE,), (FINE[0, :1],)])
