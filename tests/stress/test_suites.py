"""A sample of `suites`: tests of einops, which are installed with it, or of zuko, if its archive can be had. ``make
suites`` runs whole suites, and other libraries'."""

from __future__ import annotations

import subprocess
import sys

import pytest

import selection
import suites


def test_sample(request):
    name = selection.drawn(request.config, sorted(suites.SAMPLES))
    command = [sys.executable, suites.__file__, name, "--count", "20", "-k", suites.SAMPLES[name]]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if name != "einops" and "did not run" in ran.stdout:
        pytest.skip(ran.stdout.splitlines()[-1])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith(name)]
    assert [row[1] for row in rows] == ["hook", "at-once"]
    for row in rows:
        passed, failed = int(row[3]), int(row[4])
        assert passed >= 20 and not failed
