"""A sample of CPython's own tests, with every frame offered to the translator; ``make cpython-tests`` runs the rest."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

import cpython_tests

PARTS = 2


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="CPython came without its tests")
@pytest.mark.parametrize("part", range(PARTS))
def test_sample(part):
    environment = dict(os.environ)
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    modules = cpython_tests.SAMPLE[part::PARTS]
    ran = subprocess.run(
        [sys.executable, cpython_tests.__file__, *modules], env=environment, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(modules)} modules" in ran.stdout
