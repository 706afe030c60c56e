"""A test marked ``fullgraph`` that imports what it calls: code that runs during an import is not part of the test."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

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
TEST = """
import pytest
import torch


@pytest.mark.fullgraph
def test_scaled(capture):
    from a_library import Scaled

    assert Scaled()(torch.ones(3)).tolist() == [0.0, 2.0, 4.0]
    assert len(capture.graphs) == 1
"""


def test_an_import_in_a_test(pytester: pytest.Pytester):
    pytester.makepyfile(a_library=LIBRARY, test_it=TEST)
    options = ["-q", "-p", "pytest_dynamo_lite", "-p", "no:cacheprovider"]
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)
