"""Training and collectives across processes: dynamo_lite beside eager and torch.compile.

    torchrun --nproc-per-node=2 benchmarks/distributed.py [--layers 12] [--width 1024]
    torchrun --nproc-per-node=2 benchmarks/distributed.py --programs

One process a GPU over NCCL, or over gloo where there is none. First: milliseconds of a step of data parallel, fully
sharded and tensor parallel training, in turns; each compiled model's losses must be eager's. With ``--programs``: those
of ``distributed_programs``, in how many graphs, whether under fullgraph, and whether with eager's results and
gradients.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import distributed_programs
import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
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


def tensor_parallel(module: torch.nn.Module) -> torch.nn.Module:
    """Each block's hidden layer in parts, one a process; every process is given the same batch."""
    assert isinstance(module, Net)
    mesh = init_device_mesh(next(module.parameters()).device.type, (dist.get_world_size(),))
    for block in module.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return module


class Trainer:
    """A model with its optimizer; all of them start from the same weights."""

    def __init__(self, options: argparse.Namespace, device: torch.device, wrap: Wrap) -> None:
        torch.manual_seed(0)
        self.model = wrap(Net(options.layers, options.width).to(device))
        is_distributed = {isinstance(each, DTensor) for each in self.model.parameters()}
        # torch's operators on lists don't take tensors of both kinds before 2.12.
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), 0.01, foreach=None if len(is_distributed) == 1 else False
        )
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


# -- programs ----------------------------------------------------------------------------------------------------------

Outcome = tuple[list[torch.Tensor], torch.Tensor | None]


def outcome(fn: distributed_programs.Program, device: torch.device) -> Outcome:
    """The tensors that a program returns, and the gradient of its weight."""
    weight = distributed_programs.Setting.weight
    weight.grad = None
    result = fn(torch.arange(8.0, device=device).view(4, 2) + 10 * dist.get_rank())
    found = [*result] if isinstance(result, (list, tuple)) else [result]
    sums = [each.sum() for each in found if each.requires_grad]
    if sums:
        sum(sums[1:], sums[0]).backward()
    return [each.detach() + 0 for each in found], weight.grad


def is_same(one: Outcome, other: Outcome) -> bool:
    tensors = [*zip(one[0], other[0], strict=True)]
    if one[1] is not None and other[1] is not None:
        tensors.append((one[1], other[1]))
    return (one[1] is None) == (other[1] is None) and all(torch.allclose(*each) for each in tensors)


def tried(fn: distributed_programs.Program, compiler: Callable[..., Any], device: torch.device) -> str:
    """How many graphs, whether the program is one under fullgraph, and whether both ways are right."""
    wanted = outcome(fn, device)
    graphs: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        graphs.append(gm)
        return gm.forward

    dl.reset()
    torch.compiler.reset()
    try:
        compiled = compiler(fn, backend=backend)
        is_right = all(is_same(wanted, outcome(compiled, device)) for _ in range(2))
    except Exception as error:  # a program that fails is a row of the table
        return type(error).__name__
    count = len(graphs)
    dl.reset()
    torch.compiler.reset()
    try:
        is_right = is_same(wanted, outcome(compiler(fn, backend=backend, fullgraph=True), device)) and is_right
        whole = "whole"
    except Exception:  # it is not whole: every such error says so
        whole = "broken"
    return f"{count} {whole} {'right' if is_right else 'WRONG'}"


def compare_programs(device: torch.device) -> Table:
    table = Table("program", "ours", "torch.compile")
    distributed_programs.set_up(device)
    logging.disable(logging.WARNING)
    found = []
    for name, fn in distributed_programs.PROGRAMS.items():
        row = [tried(fn, compiler, device) for compiler in (dl.compile, torch.compile)]
        found.append(row)
        table.add_row(name, *row)
    words = ("whole", "right")
    table.add_section()
    counts = [[sum(word in row[at] for row in found) for word in words] for at in range(2)]
    table.add_row(f"of {len(found)}", *(", ".join(f"{n} {word}" for n, word in zip(each, words)) for each in counts))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--programs", action="store_true")
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    if options.programs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = compare_programs(device)
        if rank == 0:
            Console(width=120).print(table)
        dist.destroy_process_group()
        return
    table = Table(
        "wrapped by", "eager ms", "ours ms", "torch ms", "ours / eager", "ours / torch", "graphs", "difference"
    )
    wraps: dict[str, Wrap] = {
        "DistributedDataParallel": DistributedDataParallel,
        "fully_shard": sharded,
        "parallelize_module": tensor_parallel,
    }
    for name, wrap in wraps.items():
        torch.manual_seed(1 if wrap is tensor_parallel else 1 + rank)
        x = torch.randn(options.batch, options.width, device=device)
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
