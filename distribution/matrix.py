"""Runs everything on each pair of an interpreter and a torch, and prints the rows of the table in docs/install.md.

    python distribution/matrix.py --python python3.11 python3.12 --torch 2.13 2.15

What runs is the wheel of a pair, in the environment that it was built in: all tests, CPython's own tests beside plain
CPython, and the figures of the hot path. What they print is in build/matrix, a file a pair. The figures need a machine
that does nothing else. Exits with 1 if a pair couldn't be run, or a test failed. With ``--sample 0.05``, a twentieth of
the tests runs, no long ones, and of CPython's own those that continuous integration runs; the row says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from wheels import ROOT, build_wheel, make_environment, try_wheel

NOT_RUN = "–"
BROKEN_OFF = "broken off"
"""What a cell says if there is no result to read; the log has the reason."""
HEADER = """\
| CPython | torch | tests that pass | CPython's own tests | `x + 1` | GPT-2 | Python calls |
|---|---|---|---|---|---|---|"""


@dataclass
class Row:
    """What was found on one pair; cells of the table."""

    python: str
    torch: str
    tests: str = NOT_RUN
    own_tests: str = NOT_RUN
    figures: tuple[str, str, str] = (NOT_RUN, NOT_RUN, NOT_RUN)
    failed: bool = False

    def __str__(self) -> str:
        return f"| {' | '.join([self.python, self.torch, self.tests, self.own_tests, *self.figures])} |"


def tests_cell(output: str) -> str:
    """How many tests pass, by pytest's summary: "all 5,210"."""
    summary = last_line(r"\d+ \w+.* in [\d.]+s\b", output)
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?)\b", summary)}
    passed, run = counts.get("passed", 0), sum(counts.values())
    if not run:
        return BROKEN_OFF
    return f"all {passed:,}" if passed == run else f"{passed:,} of {run:,}"


def own_tests_cell(output: str) -> str:
    """What ``tests/support/cpython_tests.py`` found: "8,254 pass, none differs"."""
    summary = last_line(r"\d+ modules, ", output)
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|differences)", summary)}
    if counts.keys() != {"passed", "differences"}:
        return BROKEN_OFF
    found = f"{counts['differences']} differ" if counts["differences"] else "none differs"
    return f"{counts['passed']:,} pass, {found}"


def figures_cells(output: str) -> tuple[str, str, str]:
    """What ``benchmarks/overhead.py --json`` printed: the ratios, and of Python calls torch.compile's in brackets."""
    times = json.loads(last_line(r"\{", output))
    one, gpt2 = (times[key]["ours added"] / times[key]["torch added"] for key in ("one", "gpt2"))
    ours, theirs = (times["calls"][tool] / times["calls"]["bare"] for tool in ("ours", "torch"))
    return f"{one:.2f}", f"{gpt2:.2f}", f"{ours:.2f} ({theirs:.2f})"


def last_line(begins: str, output: str) -> str:
    """The last line that begins so. After what a program prints come lines of make, and of libraries that end."""
    found = [line for line in output.splitlines() if re.match(begins, line)]
    return found[-1] if found else ""


def sample_prefix(sample: float | None) -> str:
    """How a cell begins whose tests are a part of all: "a sample of 5 %: "."""
    return "" if sample is None else f"a sample of {sample * 100:g} %: "


def run_pair(python: str, torch: str, environments: Path, unity: bool, sample: float | None) -> Row | None:
    """Build, install and run one pair; None if there is no such torch for the interpreter."""
    environment = make_environment(environments, python, torch)
    if environment is None:
        return None
    try_wheel(environment, build_wheel(environment, environment / "dist", unity))
    log = ROOT / "build" / "matrix" / f"{environment.name}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    row = Row(f"3.{environment.name[3:5]}", torch)
    runs = str(environment / "bin" / "python")
    tree = environment / "tree"
    # In the order of what is worth knowing: the tests also copy the tree in which the others run.
    which = ["MARKS="] if sample is None else [f"PART={sample}"]
    status, output = logged(log, "make", "test-wheel", f"WHEEL_ENVIRONMENT={environment}", *which, cwd=ROOT)
    row.tests, row.failed = sample_prefix(sample) + tests_cell(output), bool(status)
    which, prefix = ([], "") if sample is None else (["--sample"], "a sample: ")
    status, output = logged(log, runs, "tests/support/cpython_tests.py", *which, cwd=tree)
    row.own_tests, row.failed = prefix + own_tests_cell(output), row.failed or bool(status)
    status, output = logged(log, runs, "benchmarks/overhead.py", "--json", "one", "gpt2", "calls", cwd=tree)
    if status:
        row.failed = True
    else:
        row.figures = figures_cells(output)
    return row


def logged(log: Path, *command: str, cwd: Path) -> tuple[int, str]:
    """Run a command; its status and output, which is also added to a file."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quiet())
    with log.open("a") as file:
        file.write(f"== {' '.join(command)}\n{done.stdout}")
    return done.returncode, done.stdout


def quiet() -> dict[str, str]:
    """The environment, without what would let a run import this tree, or color what is read."""
    return {**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Run everything on each pair of an interpreter and a torch.")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    parser.add_argument("--torch", nargs="+", required=True, help="minor versions, for example 2.14 2.15")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "wheels", help="where they are built")
    parser.add_argument("--unity", action="store_true", help="build faster what calls slower")
    parser.add_argument("--sample", type=float, metavar="FRACTION", help="run this part of the tests, no long ones")
    options = parser.parse_args()
    failed = False
    print(HEADER, flush=True)
    for python in options.python:
        for torch in options.torch:
            row = run_pair(python, torch, options.environments.resolve(), options.unity, options.sample)
            if row is None:
                print(f"{python}: there is no torch {torch}", file=sys.stderr)
                continue
            print(row, flush=True)
            failed |= row.failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
