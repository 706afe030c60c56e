"""Streams and events of a GPU: one graph, in which work has the program's order."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
LONG = 200_000_000
"""Cycles of a kernel that runs for about a tenth of a second."""


@pytest.fixture
def stream():
    return torch.cuda.Stream()


def compiled_whole(fn):
    return dl.compile(fn, backend="eager", fullgraph=True)


def test_work_queued_on_the_stream_before(stream):
    buffer = torch.zeros(1000, device="cuda")

    @compiled_whole
    def fn(buffer, stream):
        with torch.cuda.stream(stream):
            y = buffer * 2
        torch.cuda.current_stream().wait_stream(stream)
        return y + 1

    for value in (1.0, 2.0):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LONG)
            buffer.fill_(value)
        assert torch.equal(fn(buffer, stream), torch.full_like(buffer, value * 2 + 1))


def test_work_queued_on_the_stream_after(stream):
    source, buffer = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")

    @compiled_whole
    def fn(source, buffer, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            buffer.copy_(source * 3)

    for value in (1.0, 2.0):
        torch.cuda._sleep(LONG)
        source.fill_(value)
        fn(source, buffer, stream)
        with torch.cuda.stream(stream):
            y = buffer + 1
        stream.synchronize()
        assert y.tolist() == [value * 3 + 1] * 1000


def test_event_of_the_callers(stream):
    buffer = torch.zeros(1000, device="cuda")

    @compiled_whole
    def fn(buffer, event):
        event.wait()
        return buffer + 1

    for value in (1.0, 2.0):
        event = torch.cuda.Event()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LONG)
            buffer.fill_(value)
            event.record()
        assert torch.equal(fn(buffer, event), torch.full_like(buffer, value + 1))


def test_event_that_is_returned(stream):
    buffer = torch.zeros(1000, device="cuda")

    @compiled_whole
    def fn(buffer):
        buffer.add_(1)
        event = torch.cuda.Event()
        event.record()
        return event

    for value in (1.0, 2.0):
        torch.cuda._sleep(LONG)
        event = fn(buffer)
        with torch.cuda.stream(stream):
            event.wait()
            y = buffer * 10
        stream.synchronize()
        assert y.tolist() == [value * 10] * 1000


def test_stream_that_is_returned():
    source = torch.zeros(1000, device="cuda")

    @compiled_whole
    def fn(source):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = source * 10
        return y, stream

    for value in (1.0, 2.0):
        torch.cuda._sleep(LONG)
        source.fill_(value)
        y, stream = fn(source)
        with torch.cuda.stream(stream):
            z = y + 1
        stream.synchronize()
        assert z.tolist() == [value * 10 + 1] * 1000


def test_host_waits_for_the_graph():
    @compiled_whole
    def fn(x):
        y = x + 1
        torch.cuda.current_stream().synchronize()
        return y

    x = torch.zeros(1000, device="cuda")
    fn(x)
    torch.cuda._sleep(LONG)
    fn(x)
    assert torch.cuda.current_stream().query()


def test_set_stream_is_left_set(stream):
    before = torch.cuda.current_stream()

    @compiled_whole
    def fn(x, stream):
        torch.cuda.set_stream(stream)
        return x + 1

    try:
        for _ in range(2):
            torch.cuda.set_stream(before)
            fn(torch.zeros(3, device="cuda"), stream)
            assert torch.cuda.current_stream() == stream
    finally:
        torch.cuda.set_stream(before)


def test_set_stream_and_back(stream):
    @compiled_whole
    def fn(x, stream):
        before = torch.cuda.current_stream()
        torch.cuda.set_stream(stream)
        y = x + 1
        torch.cuda.set_stream(before)
        before.wait_stream(stream)
        return y * 2

    before = torch.cuda.current_stream()
    for _ in range(2):
        assert fn(torch.zeros(3, device="cuda"), stream).tolist() == [2, 2, 2]
        assert torch.cuda.current_stream() == before


def test_break_in_a_streams_context(stream):
    seen = []

    def fn(x, stream):
        with torch.cuda.stream(stream):
            y = x + 1
            seen.append(torch.cuda.current_stream())
            dl.graph_break()
            seen.append(torch.cuda.current_stream())
            y = y * 2
        torch.cuda.current_stream().wait_stream(stream)
        seen.append(torch.cuda.current_stream())
        return y + 1

    compiled = dl.compile(fn, backend="eager")
    before = torch.cuda.current_stream()
    for _ in range(2):
        assert compiled(torch.zeros(3, device="cuda"), stream).tolist() == [3, 3, 3]
        assert seen[-3:] == [stream, stream, before]
        assert torch.cuda.current_stream() == before


def test_copy_to_the_host_that_is_waited_for(stream):
    """Operators of the graph that read the copy must come after the wait."""

    def fn(x, host, stream):
        host.copy_(x, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return host + 1

    host = torch.zeros(1000, device="cpu").pin_memory()
    compiled = dl.compile(fn, backend="eager")
    for value in (1.0, 2.0):
        x = torch.full((1000,), value, device="cuda")
        torch.cuda._sleep(LONG)
        assert compiled(x, host, stream).tolist() == [value + 1] * 1000
    assert dl.counters.graph_breaks


@pytest.mark.parametrize("value", ["query", "elapsed_time", "timing"])
def test_what_only_the_host_can_see_breaks(value):
    def fn(x, event):
        if value == "query":
            return x + 1 if event.query() else x + 1
        if value == "elapsed_time":
            return x + 1, event.elapsed_time(event)
        timer = torch.cuda.Event(enable_timing=True)
        y = x + 1
        timer.record()
        return y, timer

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    event.synchronize()
    dl.compile(fn, backend="eager")(torch.zeros(3, device="cuda"), event)
    assert dl.counters.graph_breaks


def test_inside_of_a_captured_cuda_graph(stream):
    """The frame runs in eager, so that the capture sees the program's own streams."""

    def fn(x, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(stream)
        return y + 1

    compiled = dl.compile(fn, backend="eager")
    x = torch.ones(3, device="cuda")
    assert compiled(x, stream).tolist() == [3, 3, 3]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x, stream)
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [9, 9, 9]
    assert compiled(x, stream).tolist() == [9, 9, 9]


def test_compiled_code_in_a_captured_cuda_graph():
    compiled = dl.compile(lambda x: torch.relu(x @ x) + 1, fullgraph=True)
    x = torch.eye(8, device="cuda")
    compiled(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x)
    x.mul_(2)
    graph.replay()
    torch.testing.assert_close(y, torch.relu(x @ x) + 1)


def test_graphed_callables_of_compiled_code():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).cuda()
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    with torch.no_grad():
        expected = model(x)
    graphed = torch.cuda.make_graphed_callables(dl.compile(model, backend="aot_eager"), (x.detach().requires_grad_(),))
    found = graphed(x)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert x.grad is not None


def test_a_gradient_through_a_side_stream(stream):
    def fn(x, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = (x @ x).sin()
        torch.cuda.current_stream().wait_stream(stream)
        return y.sum()

    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    (expected,) = torch.autograd.grad(fn(x, stream), x)
    for backend in ("eager", "aot_eager", "inductor"):
        compiled = dl.compile(fn, backend=backend, fullgraph=True)
        (found,) = torch.autograd.grad(compiled(x, stream), x)
        torch.testing.assert_close(found, expected)


def test_current_device_and_its_context():
    @compiled_whole
    def fn(x):
        with torch.cuda.device(x.device), torch.cuda.device(0), torch.cuda.device_of(x):
            y = x + torch.ones(3, device="cuda") + torch.cuda.current_device()
        return y * torch.cuda.get_device_properties(0).major, torch.cuda.get_device_capability()

    y, capability = fn(torch.zeros(3, device="cuda"))
    assert capability == torch.cuda.get_device_capability()
    assert y.tolist() == [capability[0]] * 3


def test_nvtx_ranges():
    @compiled_whole
    def fn(x):
        with torch.cuda.nvtx.range("product"):
            y = x @ x
        torch.cuda.nvtx.range_push("sum")
        y = y + 1
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.mark("done")
        return y

    x = torch.eye(3, device="cuda")
    assert torch.equal(fn(x), x @ x + 1)


def test_seeds_and_states_of_the_device():
    @compiled_whole
    def fn(x):
        with torch.random.fork_rng(devices=[0]):
            torch.cuda.manual_seed(3)
            return torch.rand_like(x)

    x = torch.zeros(100, device="cuda")
    torch.cuda.manual_seed(9)
    expected = torch.rand_like(x)
    torch.cuda.manual_seed(9)
    assert torch.equal(fn(x), fn(x))
    assert torch.equal(torch.rand_like(x), expected)


@pytest.mark.parametrize("device", ["cuda:0", 0, torch.device("cuda"), None])
def test_a_device_given_in_each_form(device):
    @compiled_whole
    def fn(x):
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(stream)
        return y + 1, stream

    x = torch.ones(3, device="cuda")
    y, stream = fn(x)
    assert y.tolist() == [3.0] * 3 and stream.device == torch.device("cuda", 0)
