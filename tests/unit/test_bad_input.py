"""Bad input raises one clear sentence at once: which argument, what is expected, what was given."""

from __future__ import annotations

import warnings

import pytest
import torch

import dynamo_lite as dl


def add(x, y=1):
    return x + y


def two(x, y):
    return x * y


def backend(gm, example_inputs):
    return gm.forward


def tensor():
    return torch.ones(2, 3)


def patched(**changes):
    with dl.config.patch(**changes):
        pass


CASES = {
    "a backend's name that is no string": (
        lambda: dl.register_backend(backend, name=3),
        TypeError,
        r"^a backend's name is a string, not int \(3\)$",
    ),
    "the decorator's": (
        lambda: dl.register_backend(name=3),
        TypeError,
        r"^a backend's name is a string, not int \(3\)$",
    ),
    "an empty one": (
        lambda: dl.register_backend(backend, name=""),
        ValueError,
        "^a backend's name must not be empty$",
    ),
    "a backend that can't be called": (
        lambda: dl.register_backend("eager"),
        TypeError,
        r"^a backend is a callable, not str \('eager'\)$",
    ),
    "a limit that is no number": (
        lambda: patched(recompile_limit="many"),
        TypeError,
        r"^dl\.config\.recompile_limit is an integer, not 'many'$",
    ),
    "a limit that is a boolean": (
        lambda: setattr(dl.config, "inline_limit", True),
        TypeError,
        r"^dl\.config\.inline_limit is an integer, not True$",
    ),
    "a time that is a text": (
        lambda: patched(enable_allowance="1"),
        TypeError,
        r"^dl\.config\.enable_allowance is a number of seconds, not '1'$",
    ),
    "a time that is no number": (
        lambda: patched(enable_allowance=float("nan")),
        ValueError,
        r"^dl\.config\.enable_allowance is a limit of at least 0, not nan$",
    ),
    "a negative limit": (
        lambda: patched(recompile_limit=-1),
        ValueError,
        r"^dl\.config\.recompile_limit is a limit of at least 0, not -1$",
    ),
    "a switch that is a number": (
        lambda: setattr(dl.config, "capture_scalar_outputs", 1),
        TypeError,
        r"^dl\.config\.capture_scalar_outputs is True or False, not 1$",
    ),
    "a misspelt setting": (
        lambda: setattr(dl.config, "recompile_limt", 3),
        AttributeError,
        r"^dl\.config has no setting 'recompile_limt'; did you mean 'recompile_limit'\?$",
    ),
    "a misspelt setting of a block": (
        lambda: patched(recompile_limt=3),
        AttributeError,
        r"^dl\.config has no setting 'recompile_limt'; did you mean 'recompile_limit'\?$",
    ),
    "a setting of another compiler's": (
        lambda: patched(suppress_errors=True),
        AttributeError,
        r"^dl\.config has no setting 'suppress_errors'; there are: recompile_limit, ",
    ),
    "export's dynamic": (
        lambda: dl.export(add, tensor(), dynamic="x"),
        TypeError,
        "^dynamic is True or False, not 'x'$",
    ),
    "export's aten_graph": (
        lambda: dl.export(add, tensor(), aten_graph=1),
        TypeError,
        "^aten_graph is True or False, not 1$",
    ),
    "export's arguments in a tuple": (
        lambda: dl.export(torch.relu, (tensor(),)),
        TypeError,
        r"^dl\.export takes the arguments one by one, dl\.export\(fn, \*args\), not all in one tuple; with",
    ),
    "a module's arguments in a tuple": (
        lambda: dl.export(torch.nn.Linear(3, 3), (tensor(),)),
        TypeError,
        r"^dl\.export takes the arguments one by one",
    ),
    "a tuple where the program does arithmetic": (
        lambda: dl.export(add, (tensor(),)),
        TypeError,
        r"^dl\.export takes the arguments one by one",
    ),
    "a tuple of all arguments": (
        lambda: dl.export(two, (tensor(), tensor())),
        TypeError,
        r"^dl\.export takes the arguments one by one",
    ),
    "allow_in_graph": (
        lambda: dl.allow_in_graph(3),
        TypeError,
        r"^dl\.allow_in_graph takes a callable, not int \(3\)$",
    ),
    "disallow_in_graph": (
        lambda: dl.disallow_in_graph("a"),
        TypeError,
        r"^dl\.disallow_in_graph takes a callable, not str \('a'\)$",
    ),
    "disable": (
        lambda: dl.disable(3),
        TypeError,
        r"^dl\.disable takes a callable, not int \(3\)$",
    ),
    "graph_break": (
        lambda: dl.graph_break(3),
        TypeError,
        r"^dl\.graph_break takes a message, a string, not int \(3\)$",
    ),
    "graph_break, compiled": (
        lambda: dl.compile(lambda x: dl.graph_break(3), backend="eager")(tensor()),
        TypeError,
        r"^dl\.graph_break takes a message, a string, not int \(3\)$",
    ),
    "explain": (
        lambda: dl.explain(3),
        TypeError,
        r"^dl\.explain takes a callable, not int \(3\)$",
    ),
    "a dimension to mark that is a boolean": (
        lambda: dl.mark_dynamic(tensor(), True),
        TypeError,
        r"^a dimension is an integer, not bool \(True\)$",
    ),
    "one to specialize": (
        lambda: dl.mark_static(tensor(), [0, False]),
        TypeError,
        r"^a dimension is an integer, not bool \(False\)$",
    ),
    "a bound that is a boolean": (
        lambda: dl.mark_dynamic(tensor(), 0, max=True),
        TypeError,
        r"^min and max are integers or None, not bool \(True\)$",
    ),
}


@pytest.mark.parametrize("call, kind, sentence", CASES.values(), ids=CASES)
def test_bad_input(call, kind, sentence):
    backends, settings = dl.list_backends(), dl.config.values()
    with pytest.raises(kind, match=sentence) as caught:
        call()
    assert caught.type is kind and "\n" not in str(caught.value)
    assert dl.list_backends() == backends and dl.config.values() == settings


def test_a_block_with_one_wrong_setting_sets_none():
    with pytest.raises(TypeError), dl.config.patch(inline_limit=3, recompile_limit=None):
        pass
    assert dl.config.inline_limit == 60


def test_a_program_that_takes_a_tuple_is_exported():
    gm, _ = dl.export(lambda pair: pair[0] + pair[1], (tensor(), tensor()))
    assert torch.equal(gm((tensor(), tensor())), tensor() * 2)
    with pytest.raises(dl.exc.Unsupported, match="print"):
        dl.export(lambda pair: print(pair[0].sum()), (tensor(),))


def test_the_limit_under_fullgraph_is_an_error_and_no_promise_of_eager():
    @dl.compile(backend="eager", fullgraph=True)
    def scaled(x, n):
        return x * n

    with dl.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled(tensor(), "2".isdigit())
        with pytest.raises(dl.exc.RecompileLimitExceeded, match="fullgraph=True forbids eager") as caught:
            scaled(tensor().double(), True)
    assert "run eager from now on" not in str(caught.value)
    assert "dtype" in str(caught.value) or "float32" in str(caught.value)


def generates(x):
    yield x + 1


async def awaits(x):
    return x + 1


class Generates(torch.nn.Module):
    def forward(self, x):
        yield x + 1


@pytest.mark.parametrize(
    "fn", [generates, awaits, Generates().forward, Generates()], ids=["generator", "coroutine", "method", "module"]
)
def test_what_runs_later_is_never_one_graph(fn, caplog):
    for call in (
        lambda: dl.compile(fn, fullgraph=True),
        lambda: dl.optimize("eager", fullgraph=True)(fn),
        lambda: dl.explain(fn),
        lambda: dl.export(fn, tensor()),
    ):
        with pytest.raises(dl.exc.Unsupported, match="(?s)DL0805.*runs later.*compile the functions that"):
            call()
    assert caplog.text == ""
    dl.compile(fn, backend="eager")
    assert "runs in eager: its body runs later" in caplog.text
