"""The public names: their arguments, their results, and their errors for invalid arguments."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import pickle
import re
import threading

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Recorder, tensor
from shared_programs import breaks


class Net(nn.Module):
    """A small net."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        return self.drop(self.linear(x))

    def extra(self):
        return "extra"


def plus(x, n=1):
    """Adds."""
    return x + n


def test_public_names():
    for name in (
        "compile optimize enable disable graph_break allow_in_graph disallow_in_graph is_compiling run reset explain "
        "counters config exc register_backend list_backends lookup_backend"
    ).split():
        assert hasattr(dl, name), name
        assert name in dl.__all__, name


@pytest.mark.parametrize("thing", [3, "text", [1], object(), 2.5])
def test_compile_of_what_can_not_be_called(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        dl.compile(thing)


def test_compiled_function_looks_like_its_original():
    compiled = dl.compile(plus, backend="eager")
    assert compiled.__name__ == "plus"
    assert compiled.__qualname__ == "plus"
    assert compiled.__doc__ == "Adds."
    assert compiled.__module__ == __name__
    assert compiled.__wrapped__ is plus
    assert inspect.signature(compiled) == inspect.signature(plus)
    compiled.note = 1
    assert compiled.note == 1


def test_compiled_function_binds_as_a_method():
    class Thing:
        n = 3

        @dl.compile(backend="eager")
        def times(self, x):
            return x * self.n

        @staticmethod
        @dl.compile(backend="eager")
        def static(x):
            return x + 1

        @classmethod
        @dl.compile(backend="eager")
        def klass(cls, x):
            return x * cls.n

    x = tensor(2)
    assert torch.equal(Thing().times(x), x * 3)
    assert torch.equal(Thing.times(Thing(), x), x * 3)
    assert torch.equal(Thing.static(x), x + 1)
    assert torch.equal(Thing.klass(x), x * 3)


def test_compile_of_methods_partials_and_callable_objects():
    class Thing:
        def __init__(self, n):
            self.n = n

        def times(self, x):
            return x * self.n

        def __call__(self, x):
            return x + self.n

    recorder = Recorder()
    x = tensor(2)
    assert torch.equal(dl.compile(Thing(3).times, backend=recorder)(x), x * 3)
    assert torch.equal(dl.compile(Thing(4), backend=recorder)(x), x + 4)
    assert torch.equal(dl.compile(functools.partial(plus, n=5), backend=recorder)(x), x + 5)
    assert len(recorder.graphs) == 3


def test_original_function_stays_uncompiled():
    recorder = Recorder()
    compiled = dl.compile(plus, backend=recorder)
    plus(tensor(2))
    assert recorder.graphs == []
    compiled(tensor(2))
    runs = recorder.runs
    plus(tensor(2))
    assert recorder.runs == runs


def test_compile_of_a_compiled_function():
    recorder = Recorder()
    twice = dl.compile(dl.compile(plus, backend="eager"), backend=recorder)
    assert torch.equal(twice(tensor(2)), tensor(2) + 1)
    assert len(recorder.graphs) == 1


def test_backend_gets_a_graph_module_and_example_inputs():
    got = []

    def backend(gm, example_inputs):
        got.append((gm, example_inputs))
        return gm.forward

    x = tensor(2, 3)
    dl.compile(plus, backend=backend)(x)
    gm, example_inputs = got[0]
    assert isinstance(gm, torch.fx.GraphModule)
    assert isinstance(example_inputs, list) and example_inputs[0].shape == (2, 3)
    assert all("example_value" in node.meta for node in gm.graph.nodes if node.op != "output")
    assert gm(x)[0].equal(x + 1)


def test_backend_that_raises():
    def broken(gm, inputs):
        raise KeyError("backend bug")

    log = []

    def fn(x):
        log.append("seen")
        y = x + 1
        x.add_(1)
        return y

    x = torch.zeros(2)
    with pytest.raises(dl.exc.BackendCompilerFailed) as caught:
        dl.compile(fn, backend=broken)(x)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "backend bug" in str(caught.value) and "broken" in str(caught.value)
    assert log == [] and torch.equal(x, torch.zeros(2)), "the program's state is as if the call had not begun"
    assert torch.is_grad_enabled()
    assert torch.equal(dl.compile(fn, backend="eager")(x), torch.ones(2))


def test_backend_that_raises_leaves_random_state_and_globals():
    def broken(gm, inputs):
        raise ValueError

    def fn(x):
        global WRITTEN
        WRITTEN = "by fn"
        return x + torch.rand(2)

    before = torch.get_rng_state()
    with pytest.raises(dl.exc.BackendCompilerFailed):
        dl.compile(fn, backend=broken)(tensor(2))
    assert WRITTEN == "at first"
    assert torch.equal(before, torch.get_rng_state())


WRITTEN = "at first"


def test_backend_that_returns_no_callable():
    with pytest.raises((TypeError, dl.exc.BackendCompilerFailed)):
        dl.compile(plus, backend=lambda gm, inputs: 3)(tensor(2))


def test_error_of_compiled_code_is_its_own():
    def runs_badly(gm, inputs):
        def run(*args):
            raise ZeroDivisionError("at run time")

        return run

    with pytest.raises(ZeroDivisionError, match="at run time"):
        dl.compile(plus, backend=runs_badly)(tensor(2))


def test_fullgraph_accepts_functions_without_tensors():
    def fn(items):
        return [list(pair) for pair in itertools.pairwise(items)]

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for items in ([1, 1, 2], [1, 1, 2], [3]):
        assert compiled(items) == fn(items)


def test_fullgraph_leaves_no_effects_behind():
    def fn(x, log):
        log.append(1)
        x.add_(1)
        dl.graph_break()
        return x

    x, log = torch.zeros(2), []
    with pytest.raises(dl.exc.Unsupported):
        dl.compile(fn, backend="eager", fullgraph=True)(x, log)
    assert log == [] and torch.equal(x, torch.zeros(2))


def test_disable():
    recorder = Recorder()

    @dl.disable
    def inner(x):
        return deeper(x) * 2

    def deeper(x):
        return x + 1

    def fn(x):
        return inner(x) - 3

    compiled = dl.compile(fn, backend=recorder)
    assert torch.equal(compiled(tensor(2)), fn(tensor(2)))
    assert recorder.operators == 1
    assert inner.__name__ == "inner" and torch.equal(inner(tensor(2)), (tensor(2) + 1) * 2)


def test_disallow_in_graph():
    def helper(x):
        return x * 2

    dl.disallow_in_graph(helper)
    recorder = Recorder()

    def fn(x):
        return helper(x + 1) - 3

    assert torch.equal(dl.compile(fn, backend=recorder)(tensor(2)), fn(tensor(2)))
    assert recorder.targets(0) == ["add"]
    assert len(recorder.graphs) >= 2


def test_graph_break_and_is_compiling_outside_do_nothing():
    assert dl.graph_break() is None
    assert dl.graph_break("why") is None
    assert dl.is_compiling() is False


def test_is_compiling_inside():
    assert dl.compile(lambda x: (x + 1, dl.is_compiling()), backend="eager")(tensor(2))[1] is True
    assert dl.is_compiling() is False


def test_optimize_as_decorator_and_context():
    recorder = Recorder()

    @dl.optimize(recorder)
    def one(x):
        return x + 1

    assert torch.equal(one(tensor(2)), tensor(2) + 1)
    assert len(recorder.graphs) == 1
    with dl.optimize(recorder):
        assert torch.equal(plus(tensor(2)), tensor(2) + 1)
    assert len(recorder.graphs) == 2
    plus(tensor(3))
    assert len(recorder.graphs) == 2


def test_enable_covers_threads_started_inside():
    recorder = Recorder()
    results = []
    with dl.enable(recorder):
        thread = threading.Thread(target=lambda: results.append(plus(tensor(2))))
        thread.start()
        thread.join(30)
        plus(tensor(2))
    assert torch.equal(results[0], tensor(2) + 1)
    assert any("add" in recorder.targets(i) for i in range(len(recorder.graphs)))
    assert recorder.runs >= 2


def test_enable_of_the_current_thread_only():
    recorder = Recorder()
    seen = []

    def other_thread():
        plus(tensor(2))
        seen.append(recorder.runs)

    with dl.enable(recorder, threads="current"):
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join(30)
        plus(tensor(2))
    assert seen == [0]
    assert recorder.runs >= 1


def test_enable_refuses_an_unknown_argument():
    with pytest.raises(ValueError, match="current"), dl.enable("eager", threads="some"):
        pass


def test_enable_ends_on_an_exception():
    recorder = Recorder()
    with pytest.raises(KeyError), dl.enable(recorder):
        raise KeyError
    plus(tensor(2))
    assert recorder.runs == 0


def test_run_uses_what_is_compiled_and_compiles_nothing():
    recorder = Recorder()
    compiled = dl.compile(plus, backend=recorder)
    compiled(tensor(2))
    cached = dl.run(compiled)
    assert torch.equal(cached(tensor(2)), tensor(2) + 1)
    assert recorder.runs == 2
    assert torch.equal(cached(tensor(5)), tensor(5) + 1)
    assert len(recorder.graphs) == 1
    with pytest.raises(TypeError):
        dl.run(plus)


def test_counters():
    dl.compile(breaks, backend="eager")(tensor(2))
    c = dl.counters
    assert (c.graphs, c.operators, c.graph_breaks, c.frames) == (2, 2, 1, 2)
    assert c.trace_seconds > 0 and c.backend_seconds >= 0
    assert sum(c.break_reasons.values()) == 1
    assert "graph_break" in next(iter(c.break_reasons))
    c.reset()
    assert (c.graphs, c.operators, c.graph_breaks, sum(c.break_reasons.values())) == (0, 0, 0, 0)


def test_config_patch():
    with dl.config.patch(recompile_limit=3):
        assert dl.config.recompile_limit == 3
    assert dl.config.recompile_limit == 8
    with pytest.raises(AttributeError, match="recompile_limit"), dl.config.patch(recompile_limt=1):
        pass


def test_explain():
    def fn(x, n):
        y = x * n
        print("here")
        return y + 1

    found = dl.explain(fn)(tensor(2), 3)
    assert (found.graph_count, found.break_count, found.operator_count) == (2, 1, 2)
    assert all(isinstance(gm, torch.fx.GraphModule) for gm in found.graphs)
    (only,) = found.breaks
    assert only.filename == __file__
    assert only.lineno == inspect.getsourcelines(fn)[1] + 2
    assert "print" in str(only.reason) and only.hint
    assert only.user_stack[-1].name.split(".")[-1] == "fn"
    assert any("x" in g and "float32" in g for g in found.guards) and any("n == 3" in g for g in found.guards)
    text = str(found)
    assert text.startswith("2 graphs, 1 break") and f"{__file__}:{only.lineno}" in text and "print" in text


def test_explain_of_a_module_and_of_one_graph():
    found = dl.explain(Net().eval())(tensor(3))
    assert found.graph_count == 1 and found.breaks == []
    assert found.operator_count in (1, 2)
    assert re.match("1 graphs?, 0 breaks", str(found))


# -- compiled modules --------------------------------------------------------------------------------------------


def test_module_is_a_module_of_its_class():
    m = Net()
    c = dl.compile(m, backend="eager")
    assert isinstance(c, nn.Module) and isinstance(c, Net)
    assert c.extra() == "extra"
    assert type(c).__name__ == "Net" and c.__doc__ == "A small net."
    assert c.linear is m.linear
    assert repr(c.linear) in repr(c)


def test_module_has_the_originals_state():
    m = Net()
    c = dl.compile(m, backend="eager")
    assert list(c.state_dict()) == list(m.state_dict()) == ["count", "linear.weight", "linear.bias"]
    assert [n for n, _ in c.named_parameters()] == [n for n, _ in m.named_parameters()]
    assert all(a is b for a, b in zip(c.parameters(), m.parameters(), strict=True))
    assert [n for n, _ in c.named_modules()] == [n for n, _ in m.named_modules()]
    state = {k: v + 1 for k, v in m.state_dict().items()}
    c.load_state_dict(state)
    assert torch.equal(m.linear.weight, state["linear.weight"])


def test_module_train_and_eval():
    m = Net()
    recorder = Recorder()
    c = dl.compile(m, backend=recorder)
    x = torch.ones(64, 3)
    assert c.eval() is c
    assert not m.training and not m.drop.training
    assert torch.equal(c(x), m(x))
    c.train()
    assert m.training and m.drop.training
    torch.manual_seed(0)
    wanted = m(x)
    torch.manual_seed(0)
    assert torch.equal(c(x), wanted)
    assert len(recorder.graphs) == 2


def test_module_to_another_dtype():
    m = Net().eval()
    recorder = Recorder()
    c = dl.compile(m, backend=recorder)
    c(tensor(3))
    assert c.to(torch.float64) is c
    assert m.linear.weight.dtype is torch.float64
    assert c(tensor(3, dtype=torch.float64)).dtype is torch.float64
    assert c.double().half().float().linear.weight.dtype is torch.float32


def test_module_attributes_are_shared():
    m = Net().eval()
    c = dl.compile(m, backend="eager")
    c.note = 5
    assert m.note == 5
    m.linear = nn.Linear(3, 4)
    assert c(tensor(3)).shape == (4,)
    del c.note
    assert not hasattr(m, "note")


def test_module_hooks():
    m = Net().eval()
    recorder = Recorder()
    c = dl.compile(m, backend=recorder)
    log = []
    handle = c.register_forward_hook(lambda module, args, out: log.append(type(module)) or out * 2)
    before = c.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    x = tensor(3)
    assert torch.equal(c(x), m.linear(x + 1) * 2)
    handle.remove()
    before.remove()
    log.clear()
    assert torch.equal(c(x), m.linear(x))
    assert log == []


def test_module_deepcopy_and_pickle():
    m = Net().eval()
    recorder = Recorder()
    c = dl.compile(m, backend=recorder)
    c(tensor(3))
    d = copy.deepcopy(c)
    assert isinstance(d, Net) and d.linear.weight is not m.linear.weight
    with torch.no_grad():
        d.linear.weight.zero_()
        d.linear.bias.zero_()
    assert torch.equal(d(tensor(3)), torch.zeros(2))
    assert torch.equal(c(tensor(3)), m(tensor(3)))
    other = dl.compile(Net().eval(), backend="eager")
    again = pickle.loads(pickle.dumps(other))
    assert torch.equal(again(tensor(3)), other(tensor(3)))


def test_module_inside_a_module():
    recorder = Recorder()
    m = nn.Sequential(dl.compile(nn.Linear(3, 3), backend=recorder), nn.ReLU())
    assert m(tensor(3)).shape == (3,)
    assert len(recorder.graphs) == 1
    whole = Recorder()
    assert torch.equal(dl.compile(m, backend=whole)(tensor(3)), m(tensor(3)))
    assert list(m.state_dict()) == ["0.weight", "0.bias"]


def test_module_compiled_twice():
    one, other = Recorder(), Recorder()
    m = Net().eval()
    a = dl.compile(m, backend=one)
    b = dl.compile(a, backend=other)
    assert torch.equal(a(tensor(3)), b(tensor(3)))
    assert (len(one.graphs), len(other.graphs)) == (1, 1)


def test_modules_do_not_queue_up_behind_each_other():
    recorder = Recorder()
    models = [dl.compile(nn.Linear(3, n), backend=recorder) for n in range(1, 13)]
    for _ in range(2):
        for n, model in enumerate(models, 1):
            assert model(tensor(3)).shape == (n,)
    assert len(recorder.graphs) == 12
