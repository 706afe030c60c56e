"""What a call of compiled code costs over the graph it runs: dynamo_lite beside torch.compile, in turns.

    python benchmarks/overhead.py [--json] [case ...]

The backend returns ``gm.forward`` for both, so the kernels are eager's. Where those take milliseconds their noise hides
the rest: of GPT-2 the time within the graph is not counted, though the kernels do run, and push everything else out of
the caches; one case leaves them out.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
from alternate import Stopwatch, added, alternate
from architectures import gpt2
from rich.console import Console
from rich.table import Table

import dynamo_lite as dl


def forward(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The backend of these measurements."""
    return gm.forward


def recall(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """A backend whose code runs no kernel: it gives what the graph gave the first time."""
    kept: list[Any] = []

    def call(*inputs: Any) -> Any:
        if not kept:
            kept.append(gm.forward(*inputs))
        return kept[0]

    return call


class Case:
    """A measurement: the bare program, and the same compiled by each, ``rounds`` times ``number`` calls in turns."""

    less: Stopwatch | None = None
    """What it counts is left out."""

    def __init__(self, name: str, reach: str, number: int, rounds: int, fns: dict[str, Callable[[], Any]]) -> None:
        self.name = name
        self.reach = reach
        self.number = number
        self.rounds = rounds
        self.fns = fns


def one_operator() -> Case:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.randn(3)
    ours, theirs = dl.compile(fn, backend=forward), torch.compile(fn, backend=forward)
    return _case("x + 1", "0.5 us", 20000, lambda: fn(x), lambda: ours(x), lambda: theirs(x))


def eight_entries() -> Case:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n

    x = torch.randn(3)
    ours, theirs = dl.compile(fn, backend=forward), torch.compile(fn, backend=forward, dynamic=False)
    for n in range(8):
        ours(x, n)
        theirs(x, n)
    return _case("x + n, 8 entries", "as with one", 20000, lambda: fn(x, 0), lambda: ours(x, 0), lambda: theirs(x, 0))


def _bare_graph(fn: Callable[[], Any], backend: Callable[..., Any] = forward) -> Callable[[], Any]:
    """The captured graph of one call as the backend leaves it, with its inputs bound."""
    kept: list[Callable[[], Any]] = []

    def keep(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        call, inputs = backend(gm, example_inputs), list(example_inputs)
        kept.append(lambda: call(*inputs))
        return call

    dl.compile(fn, backend=keep)()
    (found,) = kept
    return found


def sequential() -> Case:
    module = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(50)))
    x = torch.randn(2, 8)
    ours, theirs = dl.compile(module, backend=forward), torch.compile(module, backend=forward)
    bare = _bare_graph(lambda: module(x))
    return _case("50 Linear", "-", 500, bare, lambda: ours(x), lambda: theirs(x))


def gpt2_12_layers(name: str, number: int, rounds: int, backend: Callable[..., Any]) -> Case:
    model = gpt2(layers=12, width=32)
    module, inputs = model.module.eval(), {**model.inputs, "use_cache": False, "return_dict": False}
    ours, theirs = dl.compile(module, backend=backend), torch.compile(module, backend=backend)
    bare = _bare_graph(lambda: module(**inputs), backend)
    return _case(name, "25 us", number, bare, lambda: ours(**inputs), lambda: theirs(**inputs), rounds)


def gpt2_outside_of_its_graph() -> Case:
    within = Stopwatch()

    def timed(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return within.around(gm.forward)

    case = gpt2_12_layers("GPT-2, 12 layers, outside of its graph", 3, 300, timed)
    case.less = within
    return case


def python_calls() -> Case:
    def leaf(n: int) -> int:
        return n + 1

    def program() -> int:
        total = 0
        for n in range(20000):
            total += leaf(n)
        return total

    ours, theirs = dl.optimize(forward)(program), torch._dynamo.optimize(forward)(program)
    return _case("20,000 Python calls", "1.5x", 3, program, ours, theirs)


def _case(name: str, reach: str, number: int, bare: Any, ours: Any, theirs: Any, rounds: int = 15) -> Case:
    return Case(name, reach, number, rounds, {"bare": bare, "ours": ours, "torch": theirs})


CASES = {
    "one": one_operator,
    "eight": eight_entries,
    "sequential": sequential,
    "gpt2": gpt2_outside_of_its_graph,
    "gpt2-guards": functools.partial(gpt2_12_layers, "the same, no kernels", 500, 15, recall),
    "calls": python_calls,
}


def measure(key: str) -> tuple[Case, dict[str, float]]:
    """A case, and the microseconds of its calls: bare, ours, torch, ours added, torch added."""
    case = CASES[key]()
    turns = alternate(case.fns, number=case.number, rounds=case.rounds, less=case.less)
    times = {name: 1e6 * statistics.median(seconds) for name, seconds in turns.items()}
    for name in ("ours", "torch"):
        times[f"{name} added"] = 1e6 * added(turns[name], turns["bare"])
    return case, times


def show(measured: dict[str, tuple[Case, dict[str, float]]]) -> None:
    table = Table("case", "bare us", "ours us", "torch us", "ours added us", "torch added us", "ratio", "reach")
    for key, (case, times) in measured.items():
        if key == "calls":
            ratio = f"{times['ours'] / times['bare']:.2f}x, torch {times['torch'] / times['bare']:.2f}x"
        else:
            theirs = times["torch added"]
            ratio = f"{times['ours added'] / theirs:.3f}" if theirs > 0 else "-"
        table.add_row(case.name, *(f"{number:,.2f}" for number in times.values()), ratio, case.reach)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"which of {', '.join(CASES)}; all by default")
    parser.add_argument("--json", action="store_true", help="print the microseconds of each case on one line")
    options = parser.parse_args()
    chosen = options.cases or list(CASES)
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are: {', '.join(CASES)}")
    with torch.no_grad():
        measured = {key: measure(key) for key in chosen}
    if options.json:
        print(json.dumps({key: times for key, (_, times) in measured.items()}))
    else:
        show(measured)


if __name__ == "__main__":
    main()
