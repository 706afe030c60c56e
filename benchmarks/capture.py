"""Time to trace, graphs, breaks and operators of real models: dynamo_lite beside torch.compile, in turns.

    python benchmarks/capture.py [model ...] [--train]

The backend returns ``gm.forward`` for both, so nearly all of the time is capture. Each is traced once to warm up.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from architectures import MODELS, Model
from rich.console import Console
from rich.table import Table

import dynamo_lite as dl


@dataclass
class Capture:
    """What one tool did with one model. ``seconds``: the first call, without the run of the graph."""

    seconds: float
    graphs: int
    breaks: int
    operators: int


class Recorder:
    """A backend that keeps the graphs it is given."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward

    def operators(self) -> int:
        return sum(node.op.startswith("call_") for gm in self.graphs for node in gm.graph.nodes)


def _first_call(call: Callable[[], Any]) -> float:
    """Seconds of a call less those of the next, which only runs what the first one made."""
    began = time.perf_counter()
    call()
    first = time.perf_counter() - began
    began = time.perf_counter()
    call()
    return first - (time.perf_counter() - began)


def ours(model: Model) -> Capture:
    dl.reset()
    dl.counters.reset()
    recorder = Recorder()
    compiled = dl.compile(model.module, backend=recorder)
    taken = _first_call(lambda: compiled(**model.inputs))
    return Capture(taken, len(recorder.graphs), dl.counters.graph_breaks, recorder.operators())


def theirs(model: Model) -> Capture:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    recorder = Recorder()
    compiled = torch.compile(model.module, backend=recorder)
    taken = _first_call(lambda: compiled(**model.inputs))
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return Capture(taken, len(recorder.graphs), breaks, recorder.operators())


def measure(model: Model, rounds: int) -> tuple[Capture, Capture]:
    """The last capture of each, with the median of the seconds."""
    ours(model)
    theirs(model)
    pairs = [(ours(model), theirs(model)) for _ in range(rounds)]
    found = []
    for each in zip(*pairs):
        each[-1].seconds = statistics.median(capture.seconds for capture in each)
        found.append(each[-1])
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"which of {', '.join(MODELS)}; all by default")
    parser.add_argument("--train", action="store_true", help="in training mode with gradients")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are: {', '.join(MODELS)}")
    table = Table("model", "ours s", "torch s", "ratio", "graphs", "breaks", "operators", "torch's")
    for name in options.models or MODELS:
        model = MODELS[name]()
        model.module.train(options.train)
        with torch.set_grad_enabled(options.train):
            mine, reference = measure(model, options.rounds)
        counts = f"{reference.graphs}, {reference.breaks}, {reference.operators}"
        row = (f"{mine.seconds:.3f}", f"{reference.seconds:.3f}", f"{mine.seconds / reference.seconds:.2f}")
        table.add_row(model.name, *row, str(mine.graphs), str(mine.breaks), str(mine.operators), counts)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
