"""Hooks of modules: those of forward are traced, those of backward and of state keep working."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from changing_modules import check_changes
from dynamo_lite.insight.break_reasons import UserGraphBreak
from programs import Recorder, built, check, checked, recompiling, tensor, with_gradients
from weights import seeded


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, x, scale=1.0):
        return self.second(self.first(x)) * scale


def two():
    return seeded(Two())


@checked(tensor(2, 3), operators=3)
@built
@recompiling
def test_pre_hook_that_returns_nothing_but_notes():
    m, seen = two(), []
    m.first.register_forward_pre_hook(lambda module, args: seen.append((type(module).__name__, args[0].shape)))
    return lambda x: (m(x), list(seen))


def test_pre_hook_with_keywords_changes_them():
    m = nn.Sequential(two())

    def before(module, args, kwargs):
        return args, {**kwargs, "scale": 5.0}

    m[0].register_forward_pre_hook(before, with_kwargs=True)
    check(m, tensor(2, 3), operators=3)


def test_forward_hook_replaces_a_tuple():
    class Pair(nn.Module):
        def forward(self, x):
            return x + 1, x + 2

    m = nn.Sequential(Pair())
    m[0].register_forward_hook(lambda module, args, out: {"sum": out[0] + out[1]})
    check(m, tensor(3), operators=3)


def test_hook_is_a_method_of_another_module():
    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.scale = nn.Parameter(torch.ones(3) * 2)
            self.inner.register_forward_hook(self.after)

        def after(self, module, args, out):
            return out * self.scale

        def forward(self, x):
            return self.inner(x)

    check(with_gradients(seeded(Spy())), tensor(2, 3), operators=2)


def test_hook_that_raises():
    m = two()

    def after(module, args, out):
        raise ValueError("from a hook")

    m.first.register_forward_hook(after)

    def fn(m, x):
        try:
            return m(x)
        except ValueError as error:
            return x * 2, str(error)

    check(fn, m, tensor(2, 3), graphs=1, operators=(1, 2))


def test_always_called_hook_runs_when_forward_raises():
    class Raises(nn.Module):
        def forward(self, x):
            raise KeyError("inside")

    def build():
        m, seen = Raises(), []
        m.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)

        def fn(x):
            try:
                m(x)
            except KeyError:
                return x + len(seen), list(seen)

        return fn

    check(built(recompiling(build)), tensor(3), graphs=None)


def test_hook_registered_on_the_module_that_is_compiled():
    m = two()
    m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    m.register_forward_hook(lambda module, args, out: out * 3)
    check(m, tensor(2, 3), graphs=(1, 3))


def test_hooks_added_and_removed_between_calls():
    def build():
        m, handles = two(), []

        def program(x, what):
            if what == "add":
                handles.append(m.first.register_forward_hook(lambda module, args, out: out * 10))
            elif what == "pre":
                handles.append(m.second.register_forward_pre_hook(lambda module, args: args[0] + 10))
            elif what == "remove":
                handles.pop(0).remove()
            return call(x)

        def call(x):
            return m(x)

        return program

    x = tensor(2, 3)
    check(built(build), x, None, graphs=None, others=[(x, w) for w in ("add", "pre", "remove", "remove", None)])


def test_hooks_for_all_modules():
    def build():
        m = two()

        def fn(x, on):
            handle = None
            if on:
                handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out + 1)
            try:
                return call(x)
            finally:
                if handle is not None:
                    handle.remove()

        def call(x):
            return m(x)

        return fn

    x = tensor(2, 3)
    check(built(build), x, False, graphs=None, others=[(x, True), (x, False), (x, True)])


@checked(tensor(2, 3), graphs=None)
@built
@recompiling
def test_hooks_of_state_dictionaries_are_left_alone():
    m, seen = two(), []
    m.register_state_dict_post_hook(lambda module, state, prefix, local: seen.append("saved"))
    m.register_load_state_dict_post_hook(lambda module, keys: seen.append("loaded"))

    def fn(x):
        y = m(x)
        m.load_state_dict(m.state_dict())
        return y, list(seen)

    return fn


@pytest.mark.parametrize("train", [True, False])
def test_hook_asks_for_the_mode(train):
    m = two().train(train)
    m.first.register_forward_hook(lambda module, args, out: out * 2 if module.training else out - 1)
    check(m, tensor(2, 3), operators=4)


def test_call_of_a_class_whose_call_is_replaced():
    class Patched(nn.Module):
        def forward(self, x):
            return x + 1

    def patch(m):
        Patched.__call__ = lambda self, x: x * 100

    def restore(m):
        Patched.__call__ = nn.Module.__call__

    check_changes(Patched, patch, restore, patch, restore)


# -- hooks that break the graph ----------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, name="layer"):
        super().__init__()
        self.linear, self.norm, self.name = nn.Linear(3, 3), nn.LayerNorm(3), name

    def forward(self, x):
        if self.name == "none":
            return x
        return x + self.norm(self.linear(x)).relu()


class Breaking:
    """Hooks before and after, an object of its own for each module."""

    def __init__(self, module):
        self.calls = 0
        module.register_forward_pre_hook(self.before, with_kwargs=True)
        module.register_forward_hook(self.after)

    def before(self, module, args, kwargs):
        dl.graph_break()
        self.calls += 1
        return args, kwargs

    def after(self, module, args, out):
        dl.graph_break()
        self.calls += 1
        return out


def hooked(names):
    """Layers of these names with hooks that break; and these."""
    model = seeded(nn.Sequential(*map(Layer, names)))
    return model, [Breaking(layer) for layer in model]


@pytest.fixture
def no_limit():
    """Nothing comes to the limit of recompiles."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*recompile_limit")
        yield


def test_layers_whose_hooks_break_share_one_graph(no_limit):
    def build():
        model, hooks = hooked(["layer"] * 12)
        return lambda x: (model(x), [each.calls for each in hooks])

    recorder = check(built(with_gradients(build)), tensor(2, 3, grad=True), graphs=1, breaks=(1, 12))
    assert recorder.runs == 12 * 2


def test_layers_that_differ_have_versions_of_their_own(no_limit):
    def build():
        model, hooks = hooked(map(str, range(12)))
        return lambda x: (model(x), [each.calls for each in hooks])

    recorder = check(built(build), tensor(2, 3, grad=True), graphs=12, breaks=None)
    assert recorder.runs == 12 * 2


def test_versions_in_all_are_limited():
    model, _ = hooked(map(str, range(6)))
    recorder = Recorder()
    with (
        dl.config.patch(recompile_limit=2, total_recompile_limit=4),
        pytest.warns(RuntimeWarning, match="has 4 compiled"),
    ):
        dl.compile(model, backend=recorder)(tensor(2, 3, grad=True))
    assert len(recorder.graphs) == 4


def test_one_module_has_no_more_versions_than_a_function():
    layer = Layer()
    compiled = dl.compile(layer, backend="eager", dynamic=False)
    with dl.config.patch(recompile_limit=2), pytest.warns(RuntimeWarning, match="has 2 compiled versions"):
        for size in (2, 3, 4, 5):
            compiled(tensor(size, 3))
    assert dl.counters.graphs == 2


def test_what_is_told_of_a_hook_that_breaks():
    model, _ = hooked(["layer"])
    explained = dl.explain(model)(tensor(2, 3))
    breaks = zip(explained.breaks, explained.break_times)
    told = [(type(each.reason), each.user_stack[-1].name.rpartition(".")[2], times) for each, times in breaks]
    assert told == [(UserGraphBreak, "before", 2), (UserGraphBreak, "after", 1)], told
    with pytest.raises(dl.exc.Unsupported, match="graph_break"):
        dl.compile(model, backend="eager", fullgraph=True)(tensor(2, 3))
