"""The example's Llama with hand-written kernels, trained for some steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from processes import run_program

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "triton_kernels.py"


def test_llama_is_trained_in_one_graph():
    pytest.importorskip("triton", reason="Triton isn't installed")
    pytest.importorskip("users_kernels", exc_type=ImportError)
    program = f"""
import runpy
runpy.run_path({str(EXAMPLE)!r})["main"](["--steps", "3", "--backend", "aot_eager"])
"""
    ran = run_program(program)
    assert ran.returncode == 0, ran.stderr
    assert "graphs: 1, breaks: 0" in ran.stdout, ran.stdout
    found = re.search(r"loss from (\S+) to (\S+) in eager, to (\S+) compiled", ran.stdout)
    assert found is not None, ran.stdout
    first, eager, compiled = map(float, found.groups())
    assert eager < first and compiled == pytest.approx(eager, rel=1e-3)
