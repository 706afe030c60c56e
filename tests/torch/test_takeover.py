"""``dl.takeover``: calls of results of torch.compile go through dynamo_lite until the takeover ends."""

from __future__ import annotations

import functools
import gc
import inspect
import pickle
import threading
import traceback
import weakref

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.insight import notices
from programs import Recorder, tensor
from shared_programs import breaks, waves
from weights import seeded

torch._dynamo = pytest.importorskip("torch._dynamo")


@pytest.fixture(autouse=True)
def torch_compiled_nothing():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    said = set(notices.said)
    yield
    notices.said.clear()
    notices.said.update(said)
    torch._dynamo.reset()


def by_torch():
    """Returns how many graphs torch.compile has captured."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) + 1

    @functools.partial(torch.compile, backend="eager")
    def scaled(self, x):
        return self(x) * 3


@torch.compile(backend="eager", dynamic=True, fullgraph=True)
def decorated(x):
    """Decorates a function, as a library does at its import."""
    return x * x.shape[0]


def compiled_itself():
    net = seeded(Net())
    net.compile(backend="eager")
    return net


def with_hook():
    net = seeded(Net())
    net.register_forward_hook(lambda module, args, result: result * 3)
    return torch.compile(net, backend="eager")


SUBJECTS = {
    "function": lambda: torch.compile(waves, backend="eager"),
    "decorated": lambda: decorated,
    "module": lambda: torch.compile(seeded(Net()), backend="eager"),
    "library_module": lambda: torch.compile(seeded(nn.Linear(3, 3)), backend="eager"),
    "module_itself": compiled_itself,
    "with_hook": with_hook,
    "decorated_method": lambda: seeded(Net()).scaled,
    "bound_method": lambda: torch.compile(seeded(Net()).forward, backend="eager"),
    "operator": lambda: torch.compile(torch.sin, backend="eager"),
    "lambda_of_optimize": lambda: torch._dynamo.optimize("eager")(lambda x: x + 1),
    "compiled_twice": lambda: torch.compile(dl.compile(waves, backend="eager"), backend="eager"),
}


@pytest.mark.parametrize("when", ["before", "inside"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_all_that_torch_compile_returns(subject, when):
    x = tensor(2, 3, grad=True)
    with torch.compiler.set_stance("force_eager"):
        expected = SUBJECTS[subject]()(x)
    compiled = SUBJECTS[subject]() if when == "before" else None
    kind = type(SUBJECTS[subject]())
    dl.counters.reset()
    with dl.takeover() as taken:
        compiled = SUBJECTS[subject]() if compiled is None else compiled
        for _ in range(3):
            assert torch.equal(compiled(x), expected)
        assert by_torch() == 0 and dl.counters.graphs == 1 and taken.called == 1
        compiled(x).sum().backward()
    assert not _C.hook_installed() and type(compiled) is kind
    assert torch.equal(compiled(x), expected)
    assert by_torch() and dl.counters.graphs == 1


def test_fullgraph_dynamic_and_callables_as_backends():
    recorder = Recorder()
    whole = torch.compile(breaks, backend=recorder, fullgraph=True)
    sized = torch.compile(waves, backend=recorder, dynamic=True)
    unsized = torch.compile(lambda x: x + 1, backend=recorder, dynamic=False)
    with dl.takeover():
        with pytest.raises(dl.exc.Unsupported, match="dl.graph_break"):
            whole(tensor(3))
        for size in (3, 4, 5):
            sized(tensor(size))
        assert len(recorder.graphs) == 1
        for size in (3, 4, 5):
            unsized(tensor(size))
    assert len(recorder.graphs) == 4 and recorder.runs == 6 and by_torch() == 0


def test_arguments_reach_the_backend():
    given = []

    def backend(gm, example_inputs, *, mode=None, options=None):
        given.append((mode, options))
        return gm.forward

    compiled = [
        torch.compile(waves, backend=backend, mode="max-autotune"),
        torch.compile(waves, backend=backend, options={"level": 3}),
    ]
    with dl.takeover():
        for each in compiled:
            each(tensor(3))
    assert given == [("max-autotune", None), (None, {"level": 3})]


def test_a_guard_filter_is_taken_over():
    for more in ({}, {"level": 3}):
        given = []

        def backend(gm, example_inputs, options=None, given=given):
            given.append(options)
            return gm.forward

        options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe, **more}
        compiled = torch.compile(waves, backend=backend, options=options)
        with dl.takeover():
            for x in (tensor(3), tensor(3).double()):
                assert torch.equal(compiled(x), waves(x))
        assert given == [more or None]


def test_disable_is_nothing_to_take_over():
    compiled, disabled = torch.compile(waves, backend="eager", disable=True), torch.compiler.disable(waves)
    with dl.takeover() as taken:
        compiled(tensor(3))
        disabled(tensor(3))
    assert taken.called == dl.counters.graphs == 0


def test_disabled_code_under_takeover_is_compiled_by_torch():
    compiled = torch.compile(waves, backend="eager")
    with dl.takeover():
        assert torch.equal(dl.disable(lambda: compiled(tensor(3)))(), waves(tensor(3)))
    assert by_torch() and dl.counters.graphs == 0


def test_arguments_without_effect_are_named_once():
    known = inspect.signature(torch.compile).parameters
    for words, arguments in {
        "recompile_limit": dict(recompile_limit=2),
        "isolate_recompiles": dict(isolate_recompiles=True),
        "mode=…": dict(mode="reduce-overhead"),
    }.items():
        if not known.keys() >= arguments.keys():
            continue  # this torch has it not
        compiled = torch.compile(lambda x: x + 1, backend="eager", **arguments)
        with dl.takeover(), pytest.warns(RuntimeWarning, match=words) as told:
            compiled(tensor(3))
        assert told[0].filename == __file__


def test_arguments_and_errors_pass_through():
    @torch.compile(backend="eager")
    def fn(x, *more, scale=2, **named):
        if more:
            raise KeyError(len(more))
        return x * scale, named

    with dl.takeover():
        assert fn(tensor(3), scale=3, other=1)[1] == {"other": 1}
        with pytest.raises(KeyError) as error:
            fn(tensor(3), 1, 2)
        with pytest.raises(TypeError, match="fn.. missing 1 required positional"):
            fn()
    assert traceback.extract_tb(error.value.__traceback__)[-1].line == "raise KeyError(len(more))"


def test_called_within_functions_of_ours_and_of_torchs():
    inner = torch.compile(waves, backend="eager")

    def outer(x):
        return sorted([x, x], key=lambda each: float(inner(each).sum()))[0] + inner(x)

    @dl.compile(backend="eager")
    def skipped(x):
        return eval("inner(x)", {"inner": inner, "x": x})

    by_outer = torch.compile(outer, backend="eager")
    x = tensor(3)
    with dl.takeover():
        for _ in range(2):
            assert torch.equal(by_outer(x), x + waves(x)) and torch.equal(skipped(x), waves(x))
        assert by_torch() == 0
    for _ in range(2):
        assert torch.equal(by_outer(x), x + waves(x)) and torch.equal(skipped(x), waves(x))
    assert by_torch()


def test_on_all_threads_and_nested():
    compiled, found = torch.compile(waves, backend="eager"), []
    with dl.takeover():
        with dl.takeover():
            worker = threading.Thread(target=lambda: found.append(compiled(tensor(3))))
            worker.start()
            worker.join()
        assert torch.equal(compiled(tensor(3)), found[0])
        with dl.enable("eager"):
            compiled(tensor(4))
    assert by_torch() == 0 and dl.counters.graphs


def test_takeover_begun_and_ended_inside_torch_compile():
    """Frames that torch.compile has compiled are unchanged."""
    taken = dl.takeover()

    def change(x):
        if x is None:
            taken.__exit__(None, None, None)
        else:
            taken.__enter__()

    enter, leave = torch.compiler.disable(lambda: change(1)), torch.compiler.disable(lambda: change(None))

    @torch.compile(backend="eager")
    def theirs(x):
        y = waves(x)
        enter()
        y = waves(y)
        leave()
        return waves(y)

    for _ in range(2):
        assert torch.equal(theirs(tensor(3)), waves(waves(waves(tensor(3)))))
    assert not _C.hook_installed()


def test_stances_apply_under_takeover():
    compiled = torch.compile(waves, backend="eager")
    with dl.takeover():
        with torch.compiler.set_stance("force_eager"):
            compiled(tensor(3))
        assert dl.counters.graphs == 0
        compiled(tensor(3))
        with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(dl.exc.RecompileForbidden):
            compiled(tensor(3).double())


def test_nothing_is_kept_alive():
    net = Net()
    net.compile(backend="eager")
    died = weakref.ref(net)
    with dl.takeover():
        net(tensor(2, 3))
        del net
        gc.collect()
        assert died() is None


def test_results_of_torch_compile_keep_their_state():
    net = torch.compile(seeded(Net()), backend="eager")
    with dl.takeover():
        net(tensor(2, 3))
    assert list(net.state_dict()) == ["_orig_mod.linear.weight", "_orig_mod.linear.bias"]
    assert pickle.loads(pickle.dumps(net._orig_mod)).linear.weight.shape == (3, 3)
    assert "_dl_compiled" not in vars(net.forward)


def test_a_training_loop_with_a_compiled_step():
    """A program that calls torch.compile itself: the model compiles itself, and the optimizer's step is compiled."""

    def train():
        model = seeded(nn.Sequential(Net(), nn.ReLU(), nn.Linear(3, 1)))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        model.compile(backend="eager")

        @torch.compile(backend="eager", fullgraph=False)
        def step():
            optimizer.step()

        losses = []
        for at in range(4):
            optimizer.zero_grad()
            loss = model(tensor(8, 3, seed=at)).square().mean()
            loss.backward()
            step()
            losses.append(loss.detach())
        return torch.stack(losses)

    with torch.compiler.set_stance("force_eager"):
        expected = train()
    with dl.takeover() as taken:
        torch.testing.assert_close(train(), expected)
    assert by_torch() == 0 and taken.called == 2 and dl.counters.graphs >= 2
