"""Grammar-made programs from a fixed seed; ``make fuzz N=10000`` runs others."""

from __future__ import annotations

from collections import Counter

from fuzz import Totals, searching

PROGRAMS = 300


def test_generated_programs_match_eager():
    totals: Totals = Counter()
    searching(PROGRAMS, totals, derandomize=True)()
    assert totals["programs"] > 0.8 * PROGRAMS, totals
    assert totals["with graphs"] > 0.5 * totals["programs"], "the programs are to be captured"
    assert totals["with breaks"] > 0.2 * totals["programs"], "the programs are to break"
    assert totals["whole"] > 0.05 * totals["programs"], "some programs are to be one graph"
