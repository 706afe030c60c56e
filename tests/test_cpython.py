"""A sample of CPython's own tests, with every frame offered to the translator; ``make cpython-tests`` runs the rest."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from cpython_tests import SAMPLE

PARTS = 3
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="CPython came without its tests")
@pytest.mark.parametrize("part", range(PARTS))
def test_sample(part):
    script = os.path.join(HERE, "cpython_tests.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(HERE), HERE])}
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    ran = subprocess.run(
        [sys.executable, script, *SAMPLE[part::PARTS]], env=environment, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(SAMPLE[part::PARTS])} modules" in ran.stdout
