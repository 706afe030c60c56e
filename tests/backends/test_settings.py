"""Modes and options: they reach the backend, are checked when dl.compile is called, and leave no trace elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch._inductor import config

import dynamo_lite as dl


def program(x):
    return (x.sin() + 1).sum()


class Spy:
    """A pass over Inductor's graphs that records Inductor's configuration."""

    def __init__(self, *names):
        self.names = names
        self.seen = []

    def __call__(self, graph):
        self.seen.append(tuple(config.get_config_copy()[name] for name in self.names))


@pytest.fixture(autouse=True)
def configuration_stays_as_it_is():
    before = config.get_config_copy()
    yield
    assert config.get_config_copy() == before


def gradient(fn, x):
    given = x.clone().requires_grad_()
    fn(given).backward()
    return given.grad


@pytest.mark.parametrize("name", ["max_fusion_size", "max-fusion-size"])
def test_options_reach_forward_and_the_backward_that_is_compiled_later(name):
    spy = Spy("max_fusion_size")
    options = {name: 3, "post_grad_custom_pre_pass": spy, "fx_graph_cache": False}
    before = config.get_config_copy()
    x = torch.randn(8)
    found = dl.compile(program, options=options)(x.requires_grad_())
    assert spy.seen == [(3,)] and config.get_config_copy() == before
    found.backward()
    assert spy.seen == [(3,), (3,)]
    torch.testing.assert_close(x.grad, x.cos())
    assert list(options) == [name, "post_grad_custom_pre_pass", "fx_graph_cache"], "the program's dict stays its own"


@pytest.mark.parametrize(
    "mode, expected",
    [
        ("default", (False, False)),
        ("reduce-overhead", (False, True)),
        ("max-autotune", (True, True)),
        ("max-autotune-no-cudagraphs", (True, False)),
    ],
)
def test_modes_are_inductors_sets_of_options(mode, expected):
    spy = Spy("max_autotune", "triton.cudagraphs")
    x = torch.randn(8)
    with config.patch(post_grad_custom_pre_pass=spy, fx_graph_cache=False):
        torch.testing.assert_close(gradient(dl.compile(program, mode=mode), x), x.cos())
    assert spy.seen == [expected, expected]


def test_two_compiles_of_one_function_have_options_of_their_own():
    spy = Spy("max_fusion_size")
    default = config.max_fusion_size
    for compiled in (
        dl.compile(program, options={"max_fusion_size": 5}),
        dl.compile(program),
        dl.compile(options={"max_fusion_size": 6})(program),
        dl.compile(torch.nn.Linear(8, 8), options={"max_fusion_size": 7}),
    ):
        with torch.no_grad(), config.patch(post_grad_custom_pre_pass=spy, fx_graph_cache=False):
            compiled(torch.randn(8))
    assert spy.seen == [(5,), (default,), (6,), (7,)]


def test_nothing_stays_when_inductor_fails():
    def broken(graph):
        raise RuntimeError("no such luck")

    options = {"post_grad_custom_pre_pass": broken, "max_fusion_size": 3, "fx_graph_cache": False}
    before = config.get_config_copy()
    with pytest.raises(dl.exc.BackendCompilerFailed, match="no such luck"):
        dl.compile(program, options=options)(torch.randn(8))
    assert config.get_config_copy() == before


@pytest.mark.parametrize(
    "settings, error, message",
    [
        ({"mode": "reduce-overheads"}, ValueError, "no mode 'reduce-overheads'; did you mean 'reduce-overhead'[?]"),
        ({"mode": 3}, TypeError, "mode must be a name, not int"),
        (
            {"options": {"max_autotun": True}},
            ValueError,
            "Inductor has no option 'max_autotun'; similar ones are 'max_autotune'",
        ),
        (
            {"options": {"max-autotune": 3}},
            TypeError,
            r"'max-autotune' of Inductor must be of type bool, not int \(3\)",
        ),
        ({"options": {3: True}}, TypeError, "an option's name must be a string, not int"),
        ({"options": ["max_autotune"]}, TypeError, "options must be a dict of names to values, not list"),
        ({"mode": "default", "options": {}}, ValueError, "pass mode or options, not both"),
        ({"mode": "max-autotune", "options": {"debug": True}}, ValueError, "pass mode or options, not both"),
        ({"backend": "eager", "mode": "max-autotune"}, TypeError, "backend 'eager' takes no mode: mode='max-autotune'"),
        ({"backend": "aot_eager", "options": {"a": 1}}, TypeError, "backend 'aot_eager' takes no options"),
        ({"mode": ""}, ValueError, "no mode ''"),
        ({"options": {"triton": {"cudagraphs": True}}}, ValueError, "similar ones are .*'triton.cudagraphs'"),
        ({"backend": "Inductor"}, ValueError, "no backend 'Inductor'; did you mean 'inductor'[?] There are: "),
        ({"backend": ""}, ValueError, "no backend ''; there are: "),
        ({"backend": 3}, TypeError, "backend must be a name or a callable, not int"),
        ({"dynamic": "yes"}, TypeError, "dynamic must be True, False or None, not 'yes'"),
        ({"fullgraph": None}, TypeError, "fullgraph must be True or False, not None"),
    ],
)
def test_wrong_settings_are_errors_of_dl_compile(settings, error, message):
    with pytest.raises(error, match=message):
        dl.compile(program, **settings)


def test_a_class_is_a_backend_if_its_instances_are_what_it_compiles_to():
    class Compiled:
        def __init__(self, gm, example_inputs):
            self.gm = gm

        def __call__(self, *inputs):
            return self.gm.forward(*inputs)

    class Backend:
        def __call__(self, gm, example_inputs):
            return gm.forward

    assert dl.compile(program, backend=Compiled)(torch.zeros(2)) == 2
    assert dl.compile(program, backend=Backend())(torch.zeros(2)) == 2
    with pytest.raises(TypeError, match=r"graph and example inputs, and Backend\(\) doesn't take both"):
        dl.compile(program, backend=Backend)


def test_settings_that_say_nothing_suit_every_backend():
    for settings in ({"mode": "default"}, {"options": {}}):
        assert dl.compile(program, backend="eager", **settings)(torch.zeros(2)) == 2


def test_other_backends_get_what_is_given_as_keyword_arguments():
    got = []

    def named(gm, example_inputs, *, options=None):
        got.append(options)
        return gm.forward

    def any_of_them(gm, example_inputs, **settings):
        got.append(settings)
        return gm.forward

    assert dl.compile(program, backend=named, options={"level": 3})(torch.zeros(2)) == 2
    assert dl.compile(program, backend=any_of_them, mode="fast")(torch.zeros(2)) == 2
    assert dl.compile(program, backend=any_of_them)(torch.zeros(2)) == 2
    assert got == [{"level": 3}, {"mode": "fast"}, {}]
    with pytest.raises(TypeError, match="backend 'named' takes no mode"):
        dl.compile(program, backend=named, mode="fast")


def test_a_backend_may_check_its_settings_itself():
    class Mine:
        def __init__(self, level=0):
            self.level = level

        def configure(self, mode, options):
            if options is None or set(options) != {"level"}:
                raise ValueError("level is all there is")
            return Mine(options["level"])

        def __call__(self, gm, example_inputs):
            return lambda *inputs: [result + self.level for result in gm.forward(*inputs)]

    assert dl.compile(program, backend=Mine(), options={"level": 3})(torch.zeros(2)) == 5
    assert dl.compile(program, backend=Mine())(torch.zeros(2)) == 2
    with pytest.raises(ValueError, match="level is all there is"):
        dl.compile(program, backend=Mine(), mode="fast")


def test_reset_tells_the_backend():
    class Mine:
        resets = 0

        def __call__(self, gm, example_inputs):
            return gm.forward

        def reset(self):
            self.resets += 1

    mine = Mine()
    compiled = dl.compile(program, backend=mine)
    compiled(torch.zeros(2))
    dl.reset()
    assert mine.resets == 1
    assert compiled(torch.zeros(2)) == 2
