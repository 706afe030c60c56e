"""Shapes that change: compiles of a sweep, and what guards on symbolic sizes cost.

    python benchmarks/shapes.py [--backend eager] [--device cpu]

64 pairs of a batch size and a length (of a side, for images) go through GPT-2 and a convolutional net, static at first
and with ``dynamic=True``, beside torch.compile in the same run; each result is compared with eager's. Then what a call
costs without its kernels, with static and with symbolic sizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from architectures import gpt2
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dynamo_lite as dl

PAIRS = [(2 + at % 8, 4 + at // 8 + at % 8) for at in range(64)]


class Compiles:
    """A backend that counts what it is given, and hands it on."""

    def __init__(self, backend: str) -> None:
        self.count = 0
        self.backend = dl.lookup_backend(backend)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.count += 1
        return self.backend(gm, example_inputs)


def language(device: str) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    model = gpt2(layers=4, width=32).module.eval().to(device)
    texts = [torch.randint(0, 90, pair, device=device) for pair in PAIRS]
    return model, [{"input_ids": each, "use_cache": False, "return_dict": False} for each in texts]


def images(device: str) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 4),
    )
    sides = [(batch, 8 + 4 * side) for batch, side in PAIRS]
    inputs = [{"input": torch.randn(batch, 3, side, side + 2, device=device)} for batch, side in sides]
    return net.eval().to(device), inputs


def first(results: Any) -> torch.Tensor:
    return results if isinstance(results, torch.Tensor) else results[0]


def sweep(model: torch.nn.Module, inputs: list[dict[str, Any]], compiled: Any) -> float:
    """Seconds of all calls; each result must be eager's."""
    took = 0.0
    for each in track(inputs, transient=True):
        began = time.perf_counter()
        found = first(compiled(**each))
        took += time.perf_counter() - began
        torch.testing.assert_close(found, first(model(**each)), rtol=1e-3, atol=1e-4)
    return took


def guard_seconds(model: torch.nn.Module, inputs: dict[str, Any], dynamic: bool) -> float:
    """Of a call whose graph runs no kernel."""
    kept: list[Any] = []

    def recall(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not kept:
                kept.append(gm.forward(*args))
            return kept[0]

        return call

    compiled = dl.compile(model, backend=recall, dynamic=dynamic)
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(200):
            compiled(**inputs)
        best = min(best, (time.perf_counter() - began) / 200)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    sweeps = Table("model", "dynamic", "compiles", "torch's", "seconds", "torch's", title="64 shapes")
    costs = Table("model", "static us", "symbolic us", "ratio", title="a call without kernels")
    with torch.no_grad():
        for name, build in (("GPT-2, 4 layers", language), ("convolutional net", images)):
            model, inputs = build(options.device)
            for dynamic in (None, True):
                ours, theirs = Compiles(options.backend), Compiles(options.backend)
                seconds = [
                    sweep(model, inputs, dl.compile(model, backend=ours, dynamic=dynamic)),
                    sweep(model, inputs, torch.compile(model, backend=theirs, dynamic=dynamic)),
                ]
                torch._dynamo.reset()
                texts = [str(dynamic), str(ours.count), str(theirs.count), *(f"{each:.2f}" for each in seconds)]
                sweeps.add_row(name, *texts)
            static, symbolic = (1e6 * guard_seconds(model, inputs[0], dynamic) for dynamic in (False, True))
            costs.add_row(name, f"{static:.2f}", f"{symbolic:.2f}", f"{symbolic / static:.2f}")
    Console(width=120).print(sweeps, costs)


if __name__ == "__main__":
    main()
