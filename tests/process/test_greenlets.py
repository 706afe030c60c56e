"""Greenlets that are switched inside compiled calls: each continues with its own state."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch._guards import TracingContext

import dynamo_lite as dl
from dynamo_lite import _C
from programs import Recorder

greenlet = pytest.importorskip("greenlet")


def switch():
    """Switches to the greenlet that started this one."""
    return greenlet.getcurrent().parent.switch()


def stops_between_graphs(number):
    def program(x):
        y = x * number
        switch()
        y = y + 1
        switch()
        return y * 2

    return program


def test_calls_end_in_the_order_in_which_they_began():
    recorders = [Recorder() for _ in range(3)]
    calls = [dl.compile(stops_between_graphs(n), backend=recorder) for n, recorder in enumerate(recorders)]
    greenlets = [greenlet.greenlet(call) for call in calls]
    for each in greenlets:
        each.switch(torch.ones(2))
        assert _C.current_owner() is None
    for each in greenlets:
        each.switch()
        assert _C.current_owner() is None
    for number, each in enumerate(greenlets):
        assert torch.equal(each.switch(), torch.full((2,), 2.0 * (number + 1)))
        assert each.dead and _C.current_owner() is None
    assert [len(recorder.graphs) for recorder in recorders] == [3, 3, 3]
    assert not _C.hook_installed()


def test_frames_go_to_the_owner_of_their_own_greenlet():
    def inner(x):
        return x - 1

    def outer(x):
        y = x * 2
        switch()
        return inner(y)

    mine, theirs = Recorder(), Recorder()
    first = greenlet.greenlet(dl.compile(outer, backend=mine))
    first.switch(torch.ones(2))
    assert torch.equal(inner(torch.ones(2)), torch.zeros(2))  # nobody compiles this one
    assert torch.equal(dl.compile(inner, backend=theirs)(torch.ones(2)), torch.zeros(2))
    assert torch.equal(first.switch(), torch.ones(2))
    assert (mine.runs, theirs.runs) == (2, 1)
    assert dl.counters.frames == 3


def test_a_switch_while_a_graph_runs():
    switches = []

    def backend(gm, example_inputs):
        def call(*inputs):
            switches.append(len(switches))
            switch()
            return gm.forward(*inputs)

        return call

    recorder = Recorder()
    calls = [dl.compile(lambda x: x + 1, backend=backend), dl.compile(lambda x: x + 2, backend=backend)]
    greenlets = [greenlet.greenlet(call) for call in calls]
    other = dl.compile(stops_between_graphs(3), backend=recorder)
    for each in greenlets:
        each.switch(torch.ones(2))
    third = greenlet.greenlet(other)
    third.switch(torch.ones(2))
    assert torch.equal(greenlets[0].switch(), torch.full((2,), 2.0))
    third.switch()
    assert torch.equal(greenlets[1].switch(), torch.full((2,), 3.0))
    assert torch.equal(third.switch(), torch.full((2,), 8.0))
    assert len(recorder.graphs) == 3 and switches == [0, 1]
    assert _C.current_owner() is None and not _C.hook_installed()


class Switching(Recorder):
    """A backend that switches greenlets while it compiles."""

    def __call__(self, gm, example_inputs):
        compiled = super().__call__(gm, example_inputs)
        switch()
        return compiled


def test_a_switch_while_a_graph_is_compiled():
    """Waiting for the other greenlet would deadlock: it is on the same thread, whose state torch's compiler sets."""
    recorder, unused = Switching(), Recorder()
    compiled = dl.compile(lambda x: x * 3 + 1, backend=recorder)
    first = greenlet.greenlet(compiled)
    first.switch(torch.ones(2))
    for call in compiled, dl.compile(lambda x: x * 3 + 1, backend=unused):
        assert torch.equal(greenlet.greenlet(call).switch(torch.ones(2)), torch.full((2,), 4.0))
    assert unused.graphs == [] and recorder.runs == 0
    assert torch.equal(first.switch(), torch.full((2,), 4.0)) and recorder.runs == 1
    assert len(recorder.graphs) == len(compiled.owner.entries(compiled.__wrapped__.__code__)) == 1
    assert _C.current_owner() is None and not _C.hook_installed() and gc.isenabled()
    assert TracingContext.try_get() is None


def test_fullgraph_call_while_another_greenlet_compiles():
    compiled = dl.compile(lambda x: x * 3 + 1, backend=Switching(), fullgraph=True)
    first, second = greenlet.greenlet(compiled), greenlet.greenlet(compiled)
    first.switch(torch.ones(2))
    with pytest.raises(dl.exc.Unsupported, match="DL0805.*another greenlet"):
        second.switch(torch.ones(2))
    assert torch.equal(first.switch(), torch.full((2,), 4.0))


def test_greenlet_killed_while_it_compiles():
    compiled = dl.compile(lambda x: x * 3 + 1, backend=Switching())
    first = greenlet.greenlet(compiled)
    first.switch(torch.ones(2))
    first.throw()
    assert TracingContext.try_get() is None
    recorder = Recorder()
    assert torch.equal(dl.compile(lambda x: x + 1, backend=recorder)(torch.ones(2)), torch.full((2,), 2.0))
    assert recorder.runs == 1


def test_greenlet_with_several_chunks_of_data_stack():
    """The owner belongs to the greenlet, however many chunks its data stack has."""

    def leaf(x):
        switch()
        return x + 1

    def down(x, depth):
        if depth == 0:
            return leaf(x)
        torch.get_num_threads()
        return down(x, depth - 1)

    recorder = Recorder()
    compiled = dl.compile(down, backend=recorder)
    greenlets = [greenlet.greenlet(compiled) for _ in range(3)]
    for number, each in enumerate(greenlets):
        each.switch(torch.ones(2), 30 * number + 5)
        assert _C.current_owner() is None
    for each in greenlets:
        assert torch.equal(each.switch(), torch.full((2,), 2.0))
    assert _C.current_owner() is None and not _C.hook_installed()


def test_greenlet_killed_inside_a_compiled_call():
    greenlets = [greenlet.greenlet(dl.compile(stops_between_graphs(n), backend=Recorder())) for n in range(2)]
    for each in greenlets:
        each.switch(torch.ones(2))
    greenlets[0].throw()
    assert _C.hook_installed()
    del each, greenlets
    gc.collect()
    assert _C.current_owner() is None and not _C.hook_installed()


def test_greenlet_that_raises_while_another_continues():
    def program(x):
        y = x * 2
        switch()
        raise ValueError(y)

    good = greenlet.greenlet(dl.compile(stops_between_graphs(1), backend=Recorder()))
    bad = greenlet.greenlet(dl.compile(program, backend=Recorder()))
    for each in good, bad, good:
        each.switch(*[torch.ones(2)] if not each else [])
    with pytest.raises(ValueError, match="2., 2."):
        bad.switch()
    assert torch.equal(good.switch(), torch.full((2,), 4.0))
    assert _C.current_owner() is None and not _C.hook_installed()


def test_blocks_that_compile_the_current_thread():
    """A greenlet counts as its own thread."""

    def program(x):
        return x + 1

    def run(recorder):
        with dl.optimize(recorder):
            switch()
            return program(torch.ones(2))

    recorders = [Recorder() for _ in range(2)]
    greenlets = [greenlet.greenlet(run) for _ in recorders]
    for each, recorder in zip(greenlets, recorders, strict=True):
        each.switch(recorder)
        program(torch.ones(2))
    for each in greenlets:
        assert torch.equal(each.switch(), torch.full((2,), 2.0))
    program(torch.ones(2))
    assert [recorder.runs for recorder in recorders] == [1, 1]
    assert _C.current_owner() is None and not _C.hook_installed()


def test_a_thread_that_ends_beside_greenlets_that_never_do():
    left = []

    def run():
        for number in range(2):
            left.append(greenlet.greenlet(dl.compile(stops_between_graphs(number), backend=Recorder())))
            left[-1].switch(torch.ones(2))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not _C.hook_installed()
    left.clear()
    gc.collect()
    assert not _C.hook_installed() and _C.current_owner() is None


def test_many_on_several_threads():
    recorder = Recorder()
    compiled = dl.compile(stops_between_graphs(2), backend=recorder)
    found = []

    def run():
        greenlets = [greenlet.greenlet(compiled) for _ in range(30)]
        for each in greenlets:
            each.switch(torch.ones(2))
        for each in reversed(greenlets):
            each.switch()
        found.extend([each.switch() for each in greenlets])
        assert _C.current_owner() is None

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(found) == 120 and all(torch.equal(each, torch.full((2,), 6.0)) for each in found)
    assert len(recorder.graphs) == 3 and recorder.runs == 360
