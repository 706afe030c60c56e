"""What it costs to launch the kernels that Inductor wrote: dynamo_lite beside torch.compile, in turns, same backend.

    python benchmarks/launch.py [case ...] [--device cpu|cuda]

"launch" is what the calling thread spends on a call. On a GPU calls are made without waiting for it (the wait between
turns isn't counted), on a CPU the kernels themselves run meanwhile. "with its kernels" is the time until all results
are there. "code" is the same for what Inductor wrote alone, called with its inputs: what nobody who runs it can save.
"whole" calls it through the wrappers that AOTAutograd and Inductor put around.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from alternate import alternate
from architectures import gpt2
from rich.console import Console
from rich.table import Table

import dynamo_lite as dl
from dynamo_lite import _C

_HALF = {"cpu": torch.bfloat16, "cuda": torch.float16}


@dataclass
class Case:
    """A program and its inputs on a device; a turn makes ``number`` calls."""

    name: str
    program: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    number: int


def pointwise(device: str, *, size: tuple[int, int], half: bool, number: int = 200) -> Case:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + y).sigmoid() * x

    dtype = _HALF[device] if half else torch.float32
    x, y = (torch.randn(size, device=device).to(dtype) for _ in range(2))
    short = str(dtype).removeprefix("torch.")
    return Case(f"pointwise {size[0]}x{size[1]} {short}", program, (x, y), {}, number)


def softmax(device: str) -> Case:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 0.5, dim=-1)

    return Case("softmax 64x256", program, (torch.randn(64, 256, device=device),), {}, 200)


def mlp(device: str) -> Case:
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64), torch.nn.LayerNorm(64)]
    module = torch.nn.Sequential(*layers).eval().to(device)
    return Case("MLP", module, (torch.randn(8, 64, device=device),), {}, 200)


def gpt2_12_layers(device: str) -> Case:
    model = gpt2(layers=12, width=768 if device == "cuda" else 32)
    module = model.module.eval().to(device)
    inputs = {name: value.to(device) for name, value in model.inputs.items()}
    return Case("GPT-2, 12 layers", module, (), {**inputs, "use_cache": False, "return_dict": False}, 5)


LARGE = (8192, 4096)
CASES: dict[str, Callable[[str], Case]] = {
    "small": functools.partial(pointwise, size=(16, 16), half=False),
    "small-half": functools.partial(pointwise, size=(16, 16), half=True),
    "large": functools.partial(pointwise, size=LARGE, half=False, number=50),
    "large-half": functools.partial(pointwise, size=LARGE, half=True, number=50),
    "softmax": softmax,
    "mlp": mlp,
    "gpt2": gpt2_12_layers,
}


class Kept:
    """Backend "inductor", which keeps what it made and what that is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], list[Any]]] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = dl.lookup_backend("inductor")(gm, example_inputs)
        self.calls.append((made, list(example_inputs)))
        return made


def functions(case: Case) -> dict[str, Callable[[], Any]]:
    """A call of each, compiled and warm."""
    kept = Kept()
    ours, theirs = dl.compile(case.program, backend=kept), torch.compile(case.program)
    found: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(*case.args, **case.kwargs),
        "torch": lambda: theirs(*case.args, **case.kwargs),
    }
    for fn in found.values():
        for _ in range(3):
            fn()
    if len(kept.calls) == 1:
        made, inputs = kept.calls[0]
        found["whole"] = lambda: getattr(made, "whole", made)(*inputs)
        if isinstance(made, _C.Launch) and made.inner is not None:
            code = made.inner
            found["code"] = lambda: code([*inputs])
    return found


def with_kernels(fn: Callable[[], Any], number: int, wait: Callable[[], None]) -> Callable[[], None]:
    """``number`` calls and a wait for what they started."""

    def call() -> None:
        for _ in range(number):
            fn()
        wait()

    return call


def nothing() -> None:
    """There is nobody to wait for."""


def measure(case: Case, device: str, rounds: int) -> dict[str, float]:
    """Median microseconds: of the launch by name, with its kernels by name and "all"."""
    wait = torch.cuda.synchronize if device == "cuda" else nothing
    fns = functions(case)
    found = {}
    for name, seconds in alternate(fns, number=case.number, rounds=rounds, between=wait).items():
        found[name] = 1e6 * statistics.median(seconds)
    waiting = {name: with_kernels(fn, case.number, wait) for name, fn in fns.items() if name in ("ours", "torch")}
    for name, seconds in alternate(waiting, number=1, rounds=rounds, between=wait).items():
        found[f"{name} all"] = 1e6 * statistics.median(seconds) / case.number
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"which of {', '.join(CASES)}; all by default, large ones on a GPU")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    unknown = [name for name in given.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are: {', '.join(CASES)}")
    chosen = given.cases or [name for name in CASES if given.device == "cuda" or not name.startswith("large")]
    titles = ["code us", "ours us", "torch us", "ours added", "torch added", "whole us"]
    table = Table("launch", *titles, "with its kernels: ours", "torch", "ratio", title=f"{given.device}, per call")
    with torch.no_grad():
        for name in chosen:
            case = CASES[name](given.device)
            us = measure(case, given.device, given.rounds)
            added = [f"{us[who] - us['code']:,.1f}" if "code" in us else "-" for who in ("ours", "torch")]
            code, whole = (f"{us[key]:,.1f}" if key in us else "-" for key in ("code", "whole"))
            launches = [f"{us[who]:,.1f}" for who in ("ours", "torch")]
            every = [f"{us[who]:,.1f}" for who in ("ours all", "torch all")]
            ratio = f"{us['ours all'] / us['torch all']:.2f}"
            table.add_row(case.name, code, *launches, *added, whole, *every, ratio)
            torch._dynamo.reset()
            dl.reset()
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
