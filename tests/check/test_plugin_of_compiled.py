"""Tests marked ``fullgraph`` that call compiled code, expect errors, or import modules."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

COMPILED = """
import pytest
import torch

import dynamo_lite as dl


def whole(x):
    return x * 2


def broken(x):
    y = x * 2
    print("so far")
    return y + 1


class Whole(torch.nn.Module):
    def forward(self, x):
        return x * 2


of_module, torchs_of_module = dl.compile(Whole(), backend="eager"), torch.compile(Whole(), backend="eager")
ours, ours_broken = dl.compile(whole, backend="eager"), dl.compile(broken, backend="eager", dynamic=True)
torchs, torchs_broken = torch.compile(whole, backend="eager"), torch.compile(broken, backend="eager")
ours_broken(torch.ones(2))  # before the tests


@pytest.mark.parametrize("compiled", [ours, torchs, dl.optimize("eager")(whole), of_module, torchs_of_module])
@pytest.mark.fullgraph
def test_whole(compiled, capture):
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0] and len(capture.graphs) == 1


@pytest.mark.fullgraph
@pytest.mark.parametrize("compiled", [ours_broken, torchs_broken])
def test_broken(compiled):
    whole(torch.ones(2))
    compiled(torch.ones(2))


@pytest.mark.fullgraph
@pytest.mark.parametrize("compile", [dl.compile, torch.compile, dl.optimize("eager")])
def test_compiled_in_the_test(compile):
    assert compile(whole)(torch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.fullgraph
@pytest.mark.parametrize("compile", [dl.compile, torch.compile])
def test_broken_compiled_in_the_test(compile):
    compile(broken, fullgraph=True, backend="eager")(torch.ones(2))


@pytest.mark.fullgraph
def test_wrong_settings():
    with pytest.raises(ValueError, match="no backend"):
        dl.compile(whole, backend="misspelt")


@pytest.mark.fullgraph
def test_a_block():
    with dl.optimize("eager"):
        broken(torch.ones(2))


def halves(x):
    y = x / 2
    if len(x) > 2:
        raise ValueError("too long")
    return y


@pytest.mark.fullgraph
def test_an_error_that_is_meant():
    with pytest.raises(ValueError, match="too long"):
        halves(torch.ones(3))


@pytest.mark.fullgraph
def test_what_an_import_runs(capture):
    from a_library import Scaled

    assert Scaled()(torch.ones(3)).tolist() == [0.0, 2.0, 4.0]
    assert len(capture.graphs) == 1


def test_afterwards():
    assert ours_broken(torch.ones(2)).tolist() == [3.0, 3.0] and len(ours_broken.entries()) == 2
"""
LIBRARY = """
import os

import torch


def registered(cls):
    os.environ["LIBRARY_HAS"] = cls.__name__
    return cls


def table():
    print("so far")
    return torch.arange(3.0) * 2


@registered
class Scaled(torch.nn.Module):
    by = table()

    def forward(self, x):
        return x * self.by
"""


def test_captured_calls_of_compiled_code(pytester: pytest.Pytester):
    pytester.makepyfile(a_library=LIBRARY, test_it=COMPILED)
    result = pytester.runpytest_subprocess("-q", "-rN", "-p", "pytest_dynamo_lite", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=11, failed=6)
    text = result.stdout.str()
    assert text.count("DL0202 print()") == 4 and "leave that out" in text
    assert text.count("nothing-captured: no graph was captured in ") == 1, "of the test of wrong settings"
