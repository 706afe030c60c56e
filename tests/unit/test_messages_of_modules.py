"""Messages about a module's call name its ``forward``, with that method's line and parameters."""

from __future__ import annotations

import contextvars

import pytest
import torch

import dynamo_lite as dl


class Named(torch.nn.Module):
    """A module that compiles one version for each name."""

    def forward(self, x, name):
        return x + len(name)


LINE = Named.forward.__code__.co_firstlineno


def test_recompile_limit_message_names_forward_and_the_programs_line():
    compiled = dl.compile(Named(), backend="eager")
    with dl.config.patch(recompile_limit=2), pytest.warns(RuntimeWarning) as given:
        for name in ("a", "bb", "ccc"):
            compiled(torch.ones(2), name)
    (warning,) = given
    text = str(warning.message)
    assert text.startswith(f"Named.forward ({__file__}:{LINE}) has 2 compiled versions, the limit ")
    assert (
        "\n  1 of 2 entries: name == 'bb'\n" in text and "\nHint: each value or object is compiled separately" in text
    )
    assert warning.filename == __file__


def test_recompile_limit_under_fullgraph_names_forward():
    compiled = dl.compile(Named(), backend="eager", fullgraph=True)
    with dl.config.patch(recompile_limit=1), pytest.raises(dl.exc.RecompileLimitExceeded) as raised:
        for name in ("a", "bb"):
            compiled(torch.ones(2), name)
    assert str(raised.value).startswith(f"Named.forward ({__file__}:{LINE}) has 1 compiled version, ")
    assert "name == 'a'" in str(raised.value)


def test_logs_and_explanations_name_forward_and_its_parameters(caplog):
    with caplog.at_level("INFO", "dynamo_lite.graph"), caplog.at_level("INFO", "dynamo_lite.guards"):
        dl.compile(Named(), backend="eager")(torch.ones(2), "a")
    graph, guards = [each.getMessage() for each in caplog.records if each.name.startswith("dynamo_lite.")]
    assert graph.startswith(f"of Named.forward ({__file__}:{LINE}):\n")
    assert guards.startswith(f"of Named.forward ({__file__}:{LINE}):\n")
    explained = dl.explain(Named())(torch.ones(2), "a").guards
    for text in (guards.split("\n  "), explained):
        assert "name == 'a'" in text and "x is a torch.float32 tensor on cpu of shape (2,)" in text
        assert not [each for each in text if "args[" in each]


class Printing(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        print("now")
        return y * 2


class Halving(torch.nn.Module):
    def forward(self, x, y):
        return x.view(-1, 2).sum() + y.sum() if 2 * x.shape[0] > y.shape[0] + 3 else x.sum()


def test_message_of_a_condition_on_sizes_shows_the_sizes(caplog):
    compiled = dl.compile(Halving(), backend="eager", dynamic=True)
    with caplog.at_level("INFO", "dynamo_lite.recompiles"):
        compiled(torch.ones(6), torch.ones(4))
        compiled(torch.ones(6), torch.ones(14))
    (said,) = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.recompiles"]
    assert " is compiled again: " in said and " doesn't hold for " in said and "Hint: the function branches on" in said
    assert "x.size(0)" in said and "y.size(0)" in said and "args[" not in said


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Printing()

    def forward(self, x):
        return contextvars.copy_context().run(self.inner, x) * 2


def test_recompilation_names_the_change_instead_of_another_module(caplog):
    """Its part is called after it, in a frame of its own of the same code. The first call compiles nothing again."""
    compiled = dl.compile(Outer(), backend="eager")
    with caplog.at_level("INFO", "dynamo_lite.recompiles"):
        compiled(torch.ones(2))
        assert dl.counters.recompiles == 0
        compiled(torch.ones(3))
        with dl.set_stance("fail_on_recompile"), pytest.raises(dl.exc.RecompileForbidden) as raised:
            compiled(torch.ones(2, dtype=torch.double))
    said = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.recompiles"]
    assert said[0].startswith(f"Printing.forward ({__file__}:") and "`x` dim 0 was 2, now 3" in said[0]
    assert not [each for each in said if "the class " in each]
    assert raised.value.change == "x: dtype torch.float64 instead of torch.float32"


def test_recompilation_names_aliased_inputs(caplog):
    def added(x, y):
        return x.add_(y)

    compiled, x = dl.compile(added, backend="eager"), torch.ones(2)
    with caplog.at_level("INFO", "dynamo_lite.recompiles"):
        compiled(x, torch.ones(2))
        compiled(x, x)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.recompiles"]
    assert " is compiled again: two of its inputs are one object, and were different ones. Hint: " in said


def test_message_of_a_suppressed_error_names_forward():
    settings = pytest.importorskip("torch._dynamo").config

    def fails(gm, inputs):
        raise ValueError("no")

    with settings.patch(suppress_errors=True), pytest.warns(RuntimeWarning) as given:
        dl.compile(Named(), backend=fails)(torch.ones(2), "a")
    assert str(given[0].message).startswith("Named.forward runs in eager from now on, by ")
    assert given[0].filename == __file__


def test_entries_of_a_module_are_those_of_forward(capsys):
    compiled = dl.compile(Printing(), backend="eager")
    compiled(torch.ones(2))
    line = Printing.forward.__code__.co_firstlineno
    rest, first = sorted(compiled.entries(), key=lambda each: len(each.guards))
    for each in (rest, first):
        assert str(each).startswith(f"Printing.forward ({__file__}:{line}): 1 hit, ")
    assert "x is a torch.float32 tensor on cpu of shape (2,)" in first.guards
