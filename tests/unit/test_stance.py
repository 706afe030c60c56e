"""``dl.set_stance``: the effect on calls that need a compilation, and whether compiled code runs."""

from __future__ import annotations

import threading

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor
from shared_programs import breaks

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


@pytest.fixture(autouse=True)
def default_after():
    yield
    dl.set_stance("default")


def waves(x):
    return torch.sin(x) * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x) + 1


def compiled_to_count(fn, **settings):
    recorder = Recorder()
    return dl.compile(fn, backend=recorder, **settings), recorder


@pytest.mark.parametrize("fullgraph", [False, True])
def test_force_eager_as_function_block_and_decorator(fullgraph):
    compiled, recorder = compiled_to_count(waves, fullgraph=fullgraph)
    x = tensor(3)
    compiled(x)
    assert recorder.runs == 1

    @dl.set_stance("force_eager")
    def decorated():
        """Calls it."""
        return compiled(x), compiled(tensor(4))

    assert decorated.__doc__ == "Calls it."
    compiled(x)
    assert recorder.runs == 2  # the decorator alone changes nothing
    assert torch.equal(decorated()[0], waves(x))
    with dl.set_stance("force_eager"):
        assert torch.equal(compiled(x), waves(x))
    assert recorder.runs == 2 and len(recorder.graphs) == 1
    compiled(x)
    assert recorder.runs == 3
    dl.set_stance("force_eager")
    assert torch.equal(compiled(tensor(5)), waves(tensor(5)))
    dl.set_stance("default")
    assert recorder.runs == 3
    compiled(x)
    assert recorder.runs == 4


def test_force_eager_of_modules_blocks_and_threads():
    net = Net()
    compiled, recorder = compiled_to_count(net)
    x, found = tensor(2, 3), []
    expected = net(x)
    compiled(x)
    with dl.set_stance("force_eager"):
        assert torch.equal(compiled(x), expected)
        worker = threading.Thread(target=lambda: found.append(compiled(x)))
        worker.start()
        worker.join()
        with dl.enable(recorder):
            waves(x)
        with dl.optimize(recorder):
            waves(x)
    assert recorder.runs == 1 and torch.equal(found[0], expected)
    with dl.enable(recorder), dl.set_stance("force_eager"):
        waves(x)
    with dl.enable(recorder):
        waves(x)
    assert recorder.runs == 2


def test_running_frame_continues_under_a_new_stance():
    compiled, recorder = compiled_to_count(lambda x: inner(x + 1) * 2)

    def inner(x):
        dl.set_stance("force_eager")
        return x.sin()

    for _ in range(2):
        dl.set_stance("default")
        assert torch.equal(compiled(tensor(3)), (tensor(3) + 1).sin() * 2)
    assert recorder.runs


def test_eager_on_recompile():
    compiled, recorder = compiled_to_count(breaks)
    x, other = tensor(3), tensor(3, 4)
    with dl.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(x), breaks(x))
    assert not recorder.graphs  # the first compilation is one, too
    compiled(x)
    assert len(recorder.graphs) == 2 and recorder.runs == 2
    with dl.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(x), breaks(x))
        assert recorder.runs == 4
        assert torch.equal(compiled(other), breaks(other))
    assert len(recorder.graphs) == 2 and recorder.runs == 4
    compiled(other)
    assert len(recorder.graphs) == 4


def test_eager_on_recompile_with_fullgraph_and_of_equal_settings():
    compiled, recorder = compiled_to_count(waves, fullgraph=True)
    with dl.set_stance("eager_on_recompile"):
        compiled(tensor(3))
        assert not recorder.graphs
    compiled(tensor(3))
    again = dl.compile(waves, backend=recorder, fullgraph=True)
    with dl.set_stance("eager_on_recompile"):
        again(tensor(3))
    assert recorder.runs == 2  # what the first compiled holds


@pytest.mark.parametrize("fn", [waves, Net()], ids=["function", "module"])
def test_fail_on_recompile_names_the_guard(fn):
    compiled, recorder = compiled_to_count(fn)
    x = tensor(2, 3)
    with dl.set_stance("fail_on_recompile"):
        with pytest.raises(dl.exc.RecompileForbidden, match="isn't compiled yet") as first:
            compiled(x)
        assert first.value.change == ""
    compiled(x)
    with dl.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(x), fn(x))
        with pytest.raises(dl.exc.RecompileForbidden, match="dtype torch.float64 instead of torch.float32") as second:
            compiled(x.double())
        assert second.value.change == "x: dtype torch.float64 instead of torch.float32"
        assert __file__ in str(second.value) and "convert the inputs before the call" in str(second.value)
    assert len(recorder.graphs) == 1


def test_fail_on_recompile_leaves_frames_without_tensors_alone():
    compiled, _ = compiled_to_count(lambda n: [n, n + 1])
    with dl.set_stance("fail_on_recompile"):
        assert compiled(3) == [3, 4]
        with pytest.raises(dl.exc.RecompileForbidden):
            dl.compile(lambda: torch.ones(2), backend="eager")()


def test_fail_on_recompile_in_the_middle_leaves_blocks():
    left = []

    def fn(x):
        try:
            dl.graph_break()
            return x + 1
        finally:
            left.append(x)

    compiled, _ = compiled_to_count(fn)
    compiled(tensor(3))
    with dl.set_stance("fail_on_recompile"), pytest.raises(dl.exc.RecompileForbidden):
        compiled(tensor(3, 3))
    assert len(left) == 2
    with dl.set_stance("fail_on_recompile"):
        compiled(tensor(3))
    assert len(left) == 3


@pytest.mark.parametrize("stance", STANCES[1:])
def test_explain_and_export_refuse_under_force_eager(stance):
    with dl.set_stance(stance):
        for act in (lambda: dl.explain(waves)(tensor(3)), lambda: dl.export(waves, tensor(3))):
            with pytest.raises(dl.exc.Unsupported, match="set the stance to 'default'"):
                act()


def test_set_inside_breaks_the_graph():
    def fn(x):
        with dl.set_stance("default"):
            return x + 1

    found = dl.explain(fn)(tensor(3))
    assert found.break_count and "dl.set_stance" in found.breaks[0].reason.what()
    with pytest.raises(dl.exc.Unsupported, match="changes how the process compiles"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))


@pytest.mark.parametrize(
    "given, named, error, words",
    [
        (("eagre",), {}, ValueError, "no stance 'eagre'; there are: "),
        ((3,), {}, TypeError, r"a stance must be a name, not int \(3\)"),
        (("default",), {"skip_guard_eval_unsafe": True}, TypeError, "guards are never skipped"),
        (("default",), {"force_backend": "eager"}, TypeError, "a backend is dl.compile's"),
    ],
)
def test_other_arguments_are_refused(given, named, error, words):
    with pytest.raises(error, match=words):
        dl.set_stance(*given, **named)


def test_compile_disabled_returns_the_function():
    net = Net()
    assert dl.compile(waves, disable=True) is waves and dl.compile(net, disable=True) is net

    @dl.compile(backend="eager", disable=True)
    def fn(x):
        return dl.is_compiling(), x

    assert fn(3) == (False, 3)
    with pytest.raises(dl.exc.InvalidBackend):
        dl.compile(waves, backend="none", disable=True)
    for wrong in (1, None):
        with pytest.raises(TypeError, match="disable must be True or False"):
            dl.compile(waves, disable=wrong)
