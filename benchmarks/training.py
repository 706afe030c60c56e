"""Loss curves: models trained eagerly and compiled on the same batches from the same weights, beside each other.

    python benchmarks/training.py [gpt2 | vit | resnet ...] [--steps 50] [--backend aot_eager] [--device cpu]

Each model is trained as one graph and with a break in its middle. The curves should differ by rounding: a compiler may
add up in another order, and what that does grows from step to step.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from architectures import MODELS, Inputs
from research import ResNet
from torch import nn
from torch.nn import functional

import dynamo_lite as dl

Batch = Callable[[torch.Generator], Inputs]
CYCLE = 4
"""How many batches there are, one after the other and again."""


def _tokens(generator: torch.Generator) -> Inputs:
    found = torch.randint(10, 1000, (4, 32), generator=generator)
    return {"input_ids": found, "labels": found}


def _pixels(size: int, kinds: int) -> Batch:
    def batch(generator: torch.Generator) -> Inputs:
        labels = torch.randint(kinds, (8,), generator=generator)
        return {"pixel_values": torch.randn(8, 3, size, size, generator=generator), "labels": labels}

    return batch


class Classifier(nn.Module):
    """A net with its loss."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": functional.cross_entropy(self.net(pixel_values), labels)}


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Batch]] = {
    "gpt2": (lambda: MODELS["gpt2"]().module, _tokens),
    "vit": (lambda: MODELS["vit"]().module, _pixels(64, 2)),
    "resnet": (lambda: Classifier(ResNet()), _pixels(32, 5)),
}


@dataclass
class Curves:
    """Losses of the steps, and seconds that a step took at the median."""

    eager: list[float]
    compiled: list[float]
    eager_seconds: float
    compiled_seconds: float
    graphs: int
    breaks: int

    @property
    def difference(self) -> float:
        return max(abs(one - other) for one, other in zip(self.eager, self.compiled, strict=True))


def _break_in_the_middle(module: nn.Module) -> None:
    """A hook after one of the module's blocks ends the graph there."""
    blocks: Any = max(
        (each for each in module.modules() if isinstance(each, (nn.ModuleList, nn.Sequential))),
        key=lambda each: len(list(each[0].modules())) if len(each) > 1 else 0,
    )
    blocks[len(blocks) // 2].register_forward_hook(lambda *_: dl.graph_break())


def _train(
    name: str, steps: int, device: str, breaks: bool, wrap: Callable[[nn.Module], nn.Module]
) -> tuple[list[float], float]:
    make, batch = PROGRAMS[name]
    torch.manual_seed(0)
    module = make().to(device).train()
    if breaks:
        _break_in_the_middle(module)
    generator = torch.Generator().manual_seed(1)
    batches = [{key: value.to(device) for key, value in batch(generator).items()} for _ in range(CYCLE)]
    called = wrap(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-4)
    losses, times = [], []
    for step in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = called(**batches[step % CYCLE])["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - began)
    return losses, sorted(times)[len(times) // 2]


def compare(name: str, *, steps: int, backend: str, device: str, breaks: bool) -> Curves:
    """Train a model both ways."""
    options = {"fallback_random": True} if backend == "inductor" else None
    eager, eager_seconds = _train(name, steps, device, breaks, lambda module: module)
    dl.reset()
    dl.counters.reset()
    compiled, seconds = _train(
        name, steps, device, breaks, lambda module: dl.compile(module, backend=backend, options=options)
    )
    return Curves(eager, compiled, eager_seconds, seconds, dl.counters.graphs, dl.counters.graph_breaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"which of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest difference that is none")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in PROGRAMS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are: {', '.join(PROGRAMS)}")
    warnings.filterwarnings("ignore")
    torch.use_deterministic_algorithms(True, warn_only=True)
    print(f"torch {torch.__version__}, {options.device}, backend {options.backend}, {options.steps} steps of AdamW")
    print("| model | graphs | breaks | loss at first | at last | largest difference | eager ms | compiled ms |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for name in options.models or PROGRAMS:
        for breaks in (False, True):
            found = compare(name, steps=options.steps, backend=options.backend, device=options.device, breaks=breaks)
            worst = max(worst, found.difference)
            print(
                f"| {name} | {found.graphs} | {found.breaks} | {found.eager[0]:.4f} | {found.eager[-1]:.4f} "
                f"| {found.difference:.1e} | {1e3 * found.eager_seconds:.1f} | {1e3 * found.compiled_seconds:.1f} |",
                flush=True,
            )
    if worst > options.tolerance:
        sys.exit(f"a loss differs from eager's by {worst:.1e}")


if __name__ == "__main__":
    main()
