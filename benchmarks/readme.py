"""The figures of the README: runs the benchmarks several times, and prints its table of their medians.

    python benchmarks/readme.py [--runs N] [--suite] [--write]
    python benchmarks/readme.py --print

Each run is a process of its own. ``--suite`` runs the 83 architectures too, which takes an hour. ``--write`` keeps the
runs in benchmarks/figures.json, and puts the table into README.md and the plot into docs/figures.svg; ``--print``
prints the table of the runs that are kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "benchmarks" / "figures.json"
PLOT = ROOT / "docs" / "figures.svg"
BEGIN, END = "<!-- benchmarks/readme.py -->\n", "<!-- end -->\n"

Runs = dict[str, list[float]]
"""Figure -> what each run measured."""


class Row(NamedTuple):
    """A row of the table. ``keys``: the names of its figures, without the tool's."""

    what: str
    keys: tuple[str, ...]
    unit: str
    command: str


ROWS = (
    Row("added to a call of `x + 1` ({one.bare} µs in eager)", ("one",), "µs", "overhead.py"),
    Row("added to a call of GPT-2, 12 layers", ("gpt2",), "µs", "overhead.py"),
    Row("tracing GPT-2; Llama", ("trace-gpt2", "trace-llama"), "s", "capture.py"),
    Row("83 architectures: how many are one graph", ("whole",), "", "capture.py --suite transformers"),
    Row("83 architectures: tracing them all", ("traced",), "s", "capture.py --suite transformers"),
    Row("a call of a softmax that Inductor compiled", ("softmax",), "µs", "launch.py"),
)
TOOLS = {"ours": "dynamo_lite", "torch": "torch.compile"}


def median(runs: Runs, key: str) -> float:
    return statistics.median(runs[key])


def shown(number: float) -> str:
    """Three digits at most, whole numbers whole."""
    return f"{number:.0f}" if number >= 100 or number == int(number) else f"{number:.3g}"


def table(runs: Runs) -> str:
    """The README's table, in Markdown."""
    lines = [f"| what | {' | '.join(TOOLS.values())} | command |", "|---|---|---|---|"]
    for row in ROWS:
        what = row.what.replace("{one.bare}", shown(median(runs, "one.bare")))
        cells = [
            "; ".join(f"{shown(median(runs, f'{key}.{tool}'))} {row.unit}".strip() for key in row.keys)
            for tool in TOOLS
        ]
        lines.append(f"| {what} | {' | '.join(cells)} | `python benchmarks/{row.command}` |")
    return "\n".join(lines) + "\n"


_BAR, _STEP, _LEFT, _WIDTH = 9, 54, 12, 640
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1b1f24; } text.faint { font-size: 11px; fill: #5c6672; }
.ours { fill: #3b76c4; } .torch { fill: #c9ced6; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ec; } text.faint { fill: #9aa5b1; } .torch { fill: #4a535e; }
}"""
_PLOTTED = (
    ("one", "added to a call of x + 1", "µs"),
    ("gpt2", "added to a call of GPT-2, 12 layers", "µs"),
    ("softmax", "a call of a softmax that Inductor compiled", "µs"),
    ("trace-llama", "tracing Llama", "s"),
    ("traced", "tracing 83 architectures", "s"),
)


def plot(runs: Runs) -> str:
    """Bars of both tools, in parts of torch.compile's, as SVG."""
    height = len(_PLOTTED) * _STEP + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Times of dynamo_lite beside torch.compile">\n<style>\n{_STYLE}\n</style>',
        f'<rect class="ours" x="{_LEFT}" y="6" width="12" height="12"/>'
        f'<text x="{_LEFT + 18}" y="17">dynamo_lite</text>',
        f'<rect class="torch" x="{_LEFT + 120}" y="6" width="12" height="12"/>'
        f'<text x="{_LEFT + 138}" y="17">torch.compile</text>'
        f'<text class="faint" x="{_LEFT + 250}" y="17">shorter is better</text>',
    ]
    widest = _WIDTH - 2 * _LEFT - 70
    for at, (key, title, unit) in enumerate(_PLOTTED):
        top = 30 + at * _STEP
        parts.append(f'<text x="{_LEFT}" y="{top + 12}">{title}</text>')
        whole = median(runs, f"{key}.torch")
        for line, tool in enumerate(TOOLS):
            value = median(runs, f"{key}.{tool}")
            width, y = max(1.0, widest * value / whole), top + 18 + line * (_BAR + 4)
            label = f"{shown(value)} {unit}"
            parts.append(f'<rect class="{tool}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}"/>')
            parts.append(f'<text class="faint" x="{_LEFT + width + 5:.1f}" y="{y + _BAR}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def one_run(with_suite: bool) -> dict[str, float]:
    """All figures, measured once in this process."""
    import capture
    import launch
    import overhead
    import torch
    from alternate import added, alternate

    found: dict[str, float] = {}
    with torch.no_grad():
        for key in ("one", "gpt2"):
            case = overhead.CASES[key]()
            turns = alternate(case.fns, number=case.number, rounds=case.rounds, less=case.less)
            found |= {f"{key}.{tool}": 1e6 * added(turns[tool], turns["bare"]) for tool in TOOLS}
            found[f"{key}.bare"] = 1e6 * statistics.median(turns["bare"])
        measured = launch.measure(launch.CASES["softmax"]("cpu"), "cpu", 15)
        found |= {f"softmax.{tool}": measured[tool] for tool in TOOLS}
    tools = [capture.Ours(), capture.Theirs()]
    for key in ("gpt2", "llama"):
        both = capture.measure(capture.MODELS[key](), tools, 3, False)
        found |= {f"trace-{key}.{tool}": each.seconds for tool, each in zip(TOOLS, both, strict=True)}
    return found | (_suite(tools) if with_suite else {})


def _suite(tools: list[object]) -> dict[str, float]:
    import capture

    models = [make() for make in capture.SUITES["transformers"].values()]
    modes = [[capture.measure(model, tools, 1, train) for train in (False, True)] for model in models]
    found: dict[str, float] = {}
    for at, tool in enumerate(TOOLS):
        taken = [[each[at] for each in both] for both in modes]
        found[f"whole.{tool}"] = sum(all(each.graphs == 1 and not each.breaks for each in both) for both in taken)
        found[f"traced.{tool}"] = sum(each.seconds for both in taken for each in both)
    return found


def measured(count: int, with_suite: bool) -> Runs:
    """``count`` runs, each in a new process."""
    command = [sys.executable, __file__, "--one", *(["--suite"] if with_suite else [])]
    runs: Runs = {}
    for at in range(1, count + 1):
        print(f"run {at} of {count}", file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for key, value in json.loads(done.stdout.splitlines()[-1]).items():
            runs.setdefault(key, []).append(value)
    return runs


def readme(text: str, runs: Runs) -> str:
    """The README with this table."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table(runs)}{END}{rest.partition(END)[2]}"


def _kept() -> Iterator[tuple[str, list[float]]]:
    yield from json.loads(KEPT.read_text()).items()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--suite", action="store_true", help="measure the 83 architectures, too")
    parser.add_argument("--write", action="store_true", help="keep the runs, and write README.md and docs/figures.svg")
    parser.add_argument("--print", action="store_true", help="measure nothing")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_run(options.suite)))
        return
    runs = dict(_kept())
    if not options.print:
        runs |= measured(options.runs, options.suite)
    if options.write:
        KEPT.write_text(json.dumps(runs, indent=1) + "\n")
        path = ROOT / "README.md"
        path.write_text(readme(path.read_text(), runs))
        PLOT.write_text(plot(runs))
    print(table(runs), end="")


if __name__ == "__main__":
    main()
