"""A sample of `suites`: tests of einops, which are installed with it; ``make suites`` runs other libraries'."""

from __future__ import annotations

import subprocess
import sys

import suites


def test_einops():
    command = [sys.executable, suites.__file__, "einops", "--count", "20", "-k", suites.SAMPLE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith("einops")]
    assert [row[1] for row in rows] == ["hook", "at-once"]
    for row in rows:
        passed, failed = int(row[3]), int(row[4])
        assert passed >= 20 and not failed
