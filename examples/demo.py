"""The main job: six real models through dynamo_lite and Inductor, checked against eager, and one function that breaks.

python examples/demo.py [--backend NAME] [model ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import dynamo_lite as dl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
from architectures import MODELS, Model  # noqa: E402

CONSOLE = Console(width=130)


def has_compiler() -> bool:
    """Whether Inductor finds a C++ compiler."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None or shutil.which("clang++") is not None


def _milliseconds(call: Callable[[], Any], rounds: int = 10) -> float:
    call()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1e3 * sorted(times)[len(times) // 2]


def _largest_difference(one: Any, other: Any) -> float:
    """Over all tensors of two model outputs."""
    pairs = [(one[key], other[key]) for key in other if isinstance(other[key], torch.Tensor)]
    return max((a - b).abs().max().item() for a, b in pairs)


def run_model(model: Model, backend: str) -> list[str]:
    """A row of the table."""
    dl.counters.reset()
    model.module.eval()
    compiled = dl.compile(model.module, backend=backend)
    with torch.no_grad():
        difference = _largest_difference(compiled(**model.inputs), model.module(**model.inputs))
        eager = _milliseconds(lambda: model.module(**model.inputs))
        ours = _milliseconds(lambda: compiled(**model.inputs))
    counts = dl.counters
    agreed = f"yes ({difference:.0e})" if difference < 1e-3 else f"NO ({difference:.0e})"
    return [
        model.name,
        str(counts.graphs),
        str(counts.graph_breaks),
        str(counts.operators),
        f"{counts.trace_seconds:.2f}",
        f"{counts.backend_seconds:.2f}",
        f"{eager:.2f}",
        f"{ours:.2f}",
        agreed,
    ]


def show_models(names: list[str], backend: str) -> bool:
    """Compile and run each; print the table. False where one differs from eager."""
    columns = ("model", "graphs", "breaks", "operators", "trace s", "backend s", "eager ms", "compiled ms", "as eager")
    threads = torch.get_num_threads()
    title = f"backend={backend!r}, torch {torch.__version__}, {threads} thread{'s' if threads > 1 else ''}"
    table = Table(*columns, title=title)
    right = True
    with Progress(console=CONSOLE, transient=True) as progress:
        task = progress.add_task("compiling", total=len(names))
        for name in names:
            progress.update(task, description=f"compiling {name}")
            torch.manual_seed(0)
            row = run_model(MODELS[name](), backend)
            right = right and row[-1].startswith("yes")
            table.add_row(*row)
            progress.advance(task)
    CONSOLE.print(table)
    return right


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = torch.relu(x) * factor
    print("the shape is", tuple(y.shape))
    return y / (y.norm() + 1)


def show_break() -> None:
    """One function with a print in the middle: two graphs, the break, the guards."""
    CONSOLE.rule("a function with a print in the middle")
    CONSOLE.print(str(dl.explain(scaled)(torch.ones(4), 2.0)), highlight=False, markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"which of {', '.join(MODELS)}; all by default")
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are: {', '.join(MODELS)}")
    backend = options.backend
    if backend == "inductor" and not has_compiler():
        CONSOLE.print(
            "There is no C++ compiler for Inductor here (no g++, no clang++, no $CXX): using backend='eager'."
        )
        backend = "eager"
    warnings.filterwarnings("ignore", module="transformers")
    right = show_models(options.models or list(MODELS), backend)
    show_break()
    if not right:
        sys.exit("a compiled model differs from eager")


if __name__ == "__main__":
    main()
