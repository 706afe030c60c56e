"""CUDA graphs: which graphs may be recorded, static addresses, and where a step begins. A CPU records nothing."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters
from torch._guards import TracingContext
from torch._inductor import cudagraph_trees

import dynamo_lite as dl
from dynamo_lite.backends import cudagraphs
from shared_programs import breaks
from small_models import InTuple, ResNetLike

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="records on CUDA devices")


@pytest.fixture
def manager():
    """Creates a tree of CUDA graphs that has recorded nothing."""
    made = object.__new__(cudagraph_trees.CUDAGraphTreeManager)
    made.current_gen = -1
    made.running_forwards_with_pending_backwards = False
    container = cudagraph_trees.get_container(0)
    container.tree_manager = made
    yield made
    container.tree_manager = None


@pytest.fixture
def recording(manager):
    """A backend whose code runs in steps. It notes for each graph whether earlier results may be overwritten."""
    steps = []

    def backend(gm, example_inputs):
        def recorded(*inputs):
            steps.append(manager.can_start_new_generation())
            manager.update_generation()
            return gm.forward(*inputs)

        return cudagraphs.with_step_per_call(recorded)

    backend.steps = steps
    return backend


def test_each_outermost_call_is_a_step(recording):
    compiled = dl.compile(breaks, backend=recording)
    for _ in range(3):
        compiled(torch.ones(2))
    assert recording.steps == [True, False] * 3


def test_calls_inside_compiled_code_begin_no_step(recording):
    inner = dl.compile(breaks, backend=recording)

    def outer(x):
        x = torch.sin(x)
        dl.graph_break()
        return dl.disable(inner)(x) + inner(x)

    compiled = dl.compile(outer, backend=recording)
    compiled(torch.ones(2))
    first = len(recording.steps)
    compiled(torch.ones(2))
    assert recording.steps[0] and recording.steps.count(True) == 2 and recording.steps[first]


def test_pending_backward_keeps_its_saved_tensors(recording, manager):
    compiled = dl.compile(breaks, backend=recording)
    manager.running_forwards_with_pending_backwards = True
    compiled(torch.ones(2))
    assert recording.steps == [False, False]


def test_a_with_block_is_one_step(recording):
    def fn(x):
        return x + 1

    for _ in range(2):
        with dl.optimize(recording):
            fn(torch.ones(2))
            fn(torch.ones(2))
    assert recording.steps == [True, False, True, False]


def static_inputs(backend, fn, *args):
    """Returns the positions and the number of the inputs that AOTAutograd takes as static."""
    found = []

    def noting(gm, example_inputs):
        cudagraphs.mark_static_inputs(gm)
        compiled = backend(gm, example_inputs)
        found.append((TracingContext.get().fw_metadata.static_input_indices, len(example_inputs)))
        return compiled

    dl.compile(fn, backend=noting)(*args)
    return found


@pytest.mark.parametrize("train", [True, False])
def test_parameters_and_buffers_stay_where_they_are(train):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).train(train)
    ((found, count),) = static_inputs(dl.lookup_backend("aot_eager"), module, torch.randn(3, 4))
    assert count == 1 + 4 + (3 if train else 2) and len(found) == count - 1


def test_marked_tensors_do_and_others_do_not():
    marked, held = torch.randn(3), torch.randn(3)
    torch._dynamo.mark_static_address(marked)

    def fn(x):
        return x + marked * held

    ((found, count),) = static_inputs(dl.lookup_backend("aot_eager"), fn, torch.randn(3))
    assert len(found) == 1 and count == 3


def test_graphs_compiled_by_users_of_the_backend_are_unchanged():
    """A user of the backend may compile a module's graph. torch.compile tells the backend about static inputs in
    another way.
    """
    module = torch.nn.Linear(4, 4).requires_grad_(False)

    x = torch.randn(2, 4)
    backend = dl.lookup_backend("cudagraphs")
    torch.testing.assert_close(backend(torch.fx.symbolic_trace(InTuple(module)), [x])(x)[0], module(x))
    torch.testing.assert_close(torch.compile(module, backend=backend)(x), module(x))


def test_on_a_cpu_it_runs_without_cuda_graphs_and_warns(caplog):
    counters.clear()
    compiled = dl.compile(breaks, backend="cudagraphs")
    with caplog.at_level("WARNING"):
        assert compiled(torch.ones(2)).tolist() == [4, 4]
    assert counters["inductor"]["cudagraph_skips"] == 2


@pytest.mark.parametrize(
    "fn, written",
    [
        (lambda x, y: [torch.ops.aten.add_.Tensor(x, y)], {0}),
        (lambda x, y: [torch.ops.aten.copy_.default(torch.ops.aten.view.default(y, [-1]), x)], {1}),
        (lambda x, y: [torch.ops.aten.add.out(x, x, out=y)], {1}),
        (lambda x, y: [torch.ops.aten._foreach_add_.List([x, y], [y, x])], {0, 1}),
        (lambda x, y: [torch.ops.aten.add.Tensor(x, y)], set()),
        (lambda x, y: [torch.ops.aten.add_.Tensor(torch.ops.aten.clone.default(x), y)], set()),
    ],
)
def test_mutated_inputs(fn, written):
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        gm = make_fx(fn)(torch.ones(4), torch.ones(4))
    assert cudagraphs.mutated_inputs(gm.graph) == written


@needs_cuda
@pytest.mark.parametrize("settings", [{"backend": "cudagraphs"}, {"mode": "reduce-overhead"}])
def test_steps_of_inference_record_once(settings):
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda().eval()
    compiled = dl.compile(module, **settings)
    kept = []
    with torch.no_grad():
        for seed in range(8):
            x = torch.full((4, 64), float(seed), device="cuda")
            found = compiled(x)
            torch.testing.assert_close(found, module(x), rtol=1e-3, atol=1e-3)
            kept.append(found)  # still there when the next step begins
        recorded = cudagraph_trees.get_manager(0)
        assert recorded.new_graph_id().id <= 2
    dl.reset()


@needs_cuda
@pytest.mark.parametrize("settings", [{"backend": "cudagraphs"}, {"mode": "reduce-overhead"}])
def test_training_follows_eager(settings):
    torch.manual_seed(0)
    mine = ResNetLike().cuda()
    torch.manual_seed(0)
    theirs = ResNetLike().cuda()
    compiled = dl.compile(mine, **settings)
    for seed in range(6):
        torch.manual_seed(seed)
        x = torch.randn(4, 3, 16, 16, device="cuda")
        for module, call in ((mine, compiled), (theirs, theirs)):
            module.zero_grad()
            call(x).square().mean().backward()
        for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-2, atol=1e-3)
    dl.reset()
