"""A part of a sample of CPython's own tests, with every frame offered to the translator; ``make cpython-tests`` runs
them all."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

import cpython_tests
import selection

PARTS = 2


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="CPython came without its tests")
def test_sample(request):
    environment = dict(os.environ)
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    modules = cpython_tests.SAMPLE[selection.drawn(request.config, range(PARTS)) :: PARTS]
    ran = subprocess.run(
        [sys.executable, cpython_tests.__file__, *modules], env=environment, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(modules)} modules" in ran.stdout
