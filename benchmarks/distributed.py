"""Data parallel and fully sharded training: steps a second of eager, of dynamo_lite and of torch.compile, in turns.

    torchrun --nproc-per-node=2 benchmarks/distributed.py [--layers 12] [--width 1024]

One process a GPU over NCCL, or over gloo where there is none. Each compiled model's losses must be eager's.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import dynamo_lite as dl

Wrap = Callable[[torch.nn.Module], torch.nn.Module]


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def sharded(module: torch.nn.Module) -> torch.nn.Module:
    assert isinstance(module, Net)
    for block in module.blocks:
        fully_shard(block)
    return fully_shard(module)


class Trainer:
    """A model with its optimizer; all of them start from the same weights."""

    def __init__(self, options: argparse.Namespace, device: torch.device, wrap: Wrap) -> None:
        torch.manual_seed(0)
        self.model = wrap(Net(options.layers, options.width).to(device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.losses: list[float] = []

    def step(self, x: torch.Tensor) -> None:
        loss = self.model(x)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())


def measure(trainers: dict[str, Trainer], x: torch.Tensor, steps: int) -> dict[str, float]:
    """Milliseconds of a step of each, the best of three turns."""
    best = dict.fromkeys(trainers, float("inf"))
    for turn in range(4):
        for name, trainer in trainers.items():
            dist.barrier()
            began = time.perf_counter()
            for _ in range(steps):
                trainer.step(x)
            if turn:  # the first one compiles
                best[name] = min(best[name], 1e3 * (time.perf_counter() - began) / steps)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(1 + rank)
    x = torch.randn(options.batch, options.width, device=device)
    table = Table(
        "wrapped by", "eager ms", "ours ms", "torch ms", "ours / eager", "ours / torch", "graphs", "difference"
    )
    wraps: dict[str, Wrap] = {"DistributedDataParallel": DistributedDataParallel, "fully_shard": sharded}
    for name, wrap in wraps.items():
        before = dl.counters.graphs
        compilers: dict[str, Wrap] = {
            "eager": wrap,
            "ours": lambda module, wrap=wrap: dl.compile(wrap(module), backend=options.backend),
            "torch": lambda module, wrap=wrap: torch.compile(wrap(module), backend=options.backend),
        }
        trainers = {key: Trainer(options, device, compiler) for key, compiler in compilers.items()}
        best = measure(trainers, x, options.steps)
        eager = torch.tensor(trainers["eager"].losses)
        difference = ((torch.tensor(trainers["ours"].losses) - eager).abs() / eager).max().item()
        ratios = f"{best['ours'] / best['eager']:.2f}", f"{best['ours'] / best['torch']:.2f}"
        times = (f"{best[key]:.2f}" for key in ("eager", "ours", "torch"))
        table.add_row(name, *times, *ratios, str(dl.counters.graphs - before), f"{difference:.1e}")
    if rank == 0:
        Console(width=120).print(table)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
