"""What is captured of real models, how fast, and whether it is right: dynamo_lite beside torch.compile, in turns.

    python benchmarks/capture.py [model ...] [--suite basic|transformers|research] [--no-torch] [--rounds N]

Each model is captured twice: its forward in eval mode without gradients, and a step of training with the gradients of
its parameters. The backend returns ``gm.forward``, so nearly all of the time is capture: seconds are those of the first
call less those of the next, after one capture to warm up. A model is called once as it is before anything else.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import research
import torch
import transformers_other
import transformers_text
from architectures import MODELS, Model, leaves_of

import dynamo_lite as dl

SUITES: dict[str, dict[str, Callable[[], Model]]] = {
    "basic": MODELS,
    "transformers": {row.key: row for row in [*transformers_text.ROWS, *transformers_other.ROWS]},
    "research": research.PROGRAMS,
}


@dataclass
class Capture:
    """What one tool did with one model in one mode. ``wrong``: what differs from eager, or the error."""

    seconds: float
    graphs: int
    breaks: int
    operators: int
    wrong: str


class Recorder:
    """A backend that keeps the graphs it is given."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward

    def operators(self) -> int:
        return sum(node.op.startswith("call_") for gm in self.graphs for node in gm.graph.nodes)


class Tool:
    """One that captures."""

    def reset(self) -> None:
        raise NotImplementedError

    def compile(self, module: torch.nn.Module, backend: Recorder) -> Any:
        raise NotImplementedError

    def breaks(self) -> int:
        raise NotImplementedError


class Ours(Tool):
    def reset(self) -> None:
        dl.reset()
        dl.counters.reset()

    def compile(self, module: torch.nn.Module, backend: Recorder) -> Any:
        return dl.compile(module, backend=backend)

    def breaks(self) -> int:
        return dl.counters.graph_breaks


class Theirs(Tool):
    def reset(self) -> None:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()

    def compile(self, module: torch.nn.Module, backend: Recorder) -> Any:
        return torch.compile(module, backend=backend)

    def breaks(self) -> int:
        return sum(torch._dynamo.utils.counters["graph_break"].values())


@dataclass
class Run:
    """A call of a model: output, gradients of its parameters (in training) and buffers after it."""

    output: Any
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]
    seconds: float


def run(model: Model, module: torch.nn.Module, call: Callable[..., Any], train: bool) -> Run:
    """One call from a fixed random state; a backward pass and its gradients where ``train``."""
    torch.manual_seed(1)
    module.zero_grad()
    inputs = copy.deepcopy(model.inputs)
    began = time.thread_time()  # this thread's own work: the machine may be busy
    with contextlib.nullcontext() if train else torch.no_grad():
        output = call(**inputs)
    taken = time.thread_time() - began
    if train:
        model.loss(output).backward()
    gradients = {name: each.grad for name, each in module.named_parameters()} if train else {}
    return Run(output, gradients, {name: each.clone() for name, each in module.named_buffers()}, taken)


def difference(eager: Run, other: Run) -> str:
    """What differs; empty where nothing does."""
    if type(eager.output) is not type(other.output):
        return "type of the result"
    for what, one, two in (
        ("result", list(leaves_of(eager.output)), list(leaves_of(other.output))),
        ("gradient", eager.gradients.values(), other.gradients.values()),
        ("buffer", eager.buffers.values(), other.buffers.values()),
    ):
        if not _all_close(one, two):
            return what
    return ""


def _all_close(one: Iterable[Any], other: Iterable[Any]) -> bool:
    with contextlib.suppress(ValueError):  # of other lengths
        return all(_close(a, b) for a, b in zip(one, other, strict=True))
    return False


def _close(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and one == other
    alike = one.shape == other.shape and one.dtype is other.dtype
    return alike and torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def capture(tool: Tool, model: Model, train: bool) -> Capture:
    """A first call of a fresh copy of the model, held against the model itself, and a second one for its time."""
    eager, module = copy.deepcopy(model.module).train(train), copy.deepcopy(model.module).train(train)
    expected = run(model, eager, eager, train)
    tool.reset()
    recorder = Recorder()
    compiled = tool.compile(module, recorder)
    try:
        first = run(model, module, compiled, train)
        wrong = difference(expected, first)
        breaks, graphs, operators = tool.breaks(), len(recorder.graphs), recorder.operators()
        again = run(model, module, compiled, train)
    except Exception as error:  # a model that fails is a row of the table
        return Capture(0.0, len(recorder.graphs), tool.breaks(), recorder.operators(), type(error).__name__)
    return Capture(first.seconds - again.seconds, graphs, breaks, operators, wrong)


def measure(model: Model, tools: list[Tool], rounds: int, train: bool) -> list[Capture]:
    """The last capture by each, with the median of the seconds."""
    for tool in tools:
        capture(tool, model, train)
    turns = [[capture(tool, model, train) for tool in tools] for _ in range(rounds)]
    found = []
    for each in zip(*turns, strict=True):
        each[-1].seconds = statistics.median(one.seconds for one in each)
        found.append(each[-1])
    return found


def cells(capture: Capture) -> str:
    """Whether it is right, graphs and breaks, operators and seconds."""
    verdict = capture.wrong or "right"
    return f"{verdict:>12} {capture.graphs:4} {capture.breaks:4} {capture.operators:5} {capture.seconds:7.3f}"


def summary(name: str, found: list[list[Capture]]) -> str:
    """One line for one tool. ``found``: for each model its captures in all modes."""
    right = sum(not any(each.wrong for each in modes) for modes in found)
    whole = sum(all(each.graphs == 1 and not each.breaks for each in modes) for modes in found)
    seconds = sum(each.seconds for modes in found for each in modes)
    return f"{name}: {right} of {len(found)} right, {whole} in one graph, {seconds:.1f} s to trace"


def report(names: list[str], programs: dict[str, Callable[[], Model]], tools: list[Tool], rounds: int) -> None:
    """Print a line a model and mode, and a summary."""
    labels = [type(tool).__name__.lower() for tool in tools]
    print(f"{'':24}", *(f"{label:>12} {'gra.':>4} {'brk.':>4} {'ops':>5} {'s':>7}" for label in labels), " ratio")
    found: list[list[list[Capture]]] = []
    for name in names:
        torch.manual_seed(0)
        try:
            model = programs[name]()
        except ImportError as error:
            print(f"{name:18} left out: {error}")
            continue
        run(model, model.module.eval(), model.module, False)
        modes = []
        for train in (False, True) if model.trains else (False,):
            modes.append(measure(model, tools, rounds, train))
            line = [f"{model.name:18} {'train' if train else 'eval':5}", *map(cells, modes[-1])]
            print(*line, _ratio(modes[-1]), flush=True)
        found.append(modes)
    print(f"\n{len(found)} models")
    for index, label in enumerate(labels):
        print(summary(label, [[captures[index] for captures in modes] for modes in found]))
    ratios = [
        a.seconds / b.seconds
        for modes in found
        for a, b in (modes if len(tools) == 2 else [])
        if not a.wrong and not b.wrong
    ]
    if ratios:
        print(f"ratio of the seconds where right: median {statistics.median(ratios):.2f}, at most {max(ratios):.2f}")


def _ratio(captures: list[Capture]) -> str:
    if len(captures) < 2 or any(each.wrong for each in captures):
        return "     -"
    return f"{captures[0].seconds / captures[1].seconds:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="which of the suite; all by default")
    parser.add_argument("--suite", choices=SUITES, default="basic")
    parser.add_argument("--no-torch", action="store_true", help="leave torch.compile out")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    programs = SUITES[options.suite]
    unknown = [name for name in options.models if name not in programs]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are: {', '.join(programs)}")
    tools: list[Tool] = [Ours()] if options.no_torch else [Ours(), Theirs()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report(options.models or list(programs), programs, tools, options.rounds)


if __name__ == "__main__":
    main()
