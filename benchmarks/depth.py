"""How tracing grows with a model's depth: dynamo_lite beside torch.compile, on a module like a Llama's layers.

    python benchmarks/depth.py [--layers N ...] [--rounds N] [--profile]

A backend that runs the graph as it is compiles it, so what is timed is the trace of a first call: the fastest of
several in one process, ours and torch's in turn, in seconds that the thread ran on a processor, so that other programs
disturb it little. "Static" and "symbolic" are ``dynamic=False`` and ``True``. --profile
also prints in which functions ours is how much of the time, by samples.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional

import dynamo_lite as dl

WIDTH, HEADS = 32, 4


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Norm(), Norm()])
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.norms[0](x)
        shape = (*h.shape[:-1], HEADS, WIDTH // HEADS)
        q, k, v = (each(h).view(shape).transpose(1, 2) for each in (self.q, self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        h = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(h.transpose(1, 2).reshape(x.shape))
        h = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = Norm()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        half = torch.arange(WIDTH // HEADS // 2, device=x.device)
        angles = torch.arange(tokens.shape[1], device=x.device)[:, None] * (1e4 ** (-2 * half * HEADS / WIDTH))
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def runs_as_it_is(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    return gm.forward


WAYS: dict[str, Callable[[nn.Module, bool], Callable[..., Any]]] = {
    "dynamo_lite": lambda model, dynamic: dl.compile(model, backend=runs_as_it_is, dynamic=dynamic, fullgraph=True),
    "torch": lambda model, dynamic: torch.compile(model, backend=runs_as_it_is, dynamic=dynamic, fullgraph=True),
}


def first_call(way: str, model: nn.Module, dynamic: bool) -> float:
    """The seconds of a first call."""
    tokens = torch.randint(0, 100, (2, 16))
    dl.reset()
    torch.compiler.reset()
    compiled = WAYS[way](model, dynamic)
    with torch.no_grad():
        began = time.thread_time()
        compiled(tokens)
        return time.thread_time() - began


def profile(model: nn.Module, dynamic: bool, rounds: int) -> None:
    """Print the share of samples in which each function is on the stack, and in which it is the innermost one. (A
    profiler of `sys.setprofile` sees no translation: it would be a tracer of the program's.)"""
    main_thread, is_over, samples = threading.get_ident(), threading.Event(), 0
    inside: Counter[str] = Counter()
    innermost: Counter[str] = Counter()

    def sample() -> None:
        nonlocal samples
        while not is_over.wait(0.001):
            frame = sys._current_frames().get(main_thread)
            names = []
            while frame is not None:
                names.append(f"{frame.f_code.co_filename.rpartition('site-packages/')[2]}:{frame.f_code.co_qualname}")
                frame = frame.f_back
            if any(name.endswith("FrameCompiler._compile") for name in names):
                samples += 1
                innermost[names[0]] += 1
                inside.update(set(names))

    sampler = threading.Thread(target=sample)
    sampler.start()
    seconds = min(first_call("dynamo_lite", model, dynamic) for _ in range(rounds))
    is_over.set()
    sampler.join()
    print(f"{'symbolic' if dynamic else 'static'}: {seconds:.3f} s, {samples} samples")
    for title, counts in (("inside", inside), ("innermost", innermost)):
        for name, count in counts.most_common(60 if title == "inside" else 30):
            print(f"{count / max(samples, 1):7.1%} {title} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", type=int, default=[2, 8, 32, 80])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    torch._dynamo.config.recompile_limit = 1000
    table = Table("layers", "kind", *(f"{way}, s" for way in WAYS), "ratio")
    for layers in arguments.layers:
        model = Model(layers)
        for dynamic in (False, True):
            fastest = {way: float("inf") for way in WAYS}
            for _ in range(arguments.rounds):
                for way in WAYS:
                    fastest[way] = min(fastest[way], first_call(way, model, dynamic))
            ratio = fastest["dynamo_lite"] / fastest["torch"]
            kind = "symbolic" if dynamic else "static"
            table.add_row(str(layers), kind, *(f"{each:.3f}" for each in fastest.values()), f"{ratio:.3f}")
    Console(width=100).print(table)
    for dynamic in (False, True) if arguments.profile else ():
        profile(Model(max(arguments.layers)), dynamic, arguments.rounds)


if __name__ == "__main__":
    main()
