"""What people write around a GPU and around collectives: dynamo_lite beside torch.compile, program by program.

    python benchmarks/devices.py [word ...] [--seconds N]

Each program is called under fullgraph (is it whole?) and without (how many graphs?), with a backend that returns
``gm.forward``, then with ``aot_eager``, and on a GPU those with Triton kernels with Inductor. Each time the result is
compared with eager's: "right, wrong" is right but not through AOTAutograd. Words select the programs whose names
contain one. Without a GPU, Triton's interpreter runs the kernels.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from device_programs import DEVICE, ON_GPU, PROGRAMS, Function, Program
from rich.console import Console
from rich.table import Table

import dynamo_lite as dl

if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
try:
    import triton_programs
except ImportError:  # Triton isn't installed
    triton_programs = None


# -- what each tool does -----------------------------------------------------------------------------------------------


class Recorder:
    """A backend that counts the graphs it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Function:
        self.graphs += 1
        return gm.forward


def _reset() -> None:
    dl.reset()
    torch._dynamo.reset()
    torch.manual_seed(0)


def _result(run: Function, each: Program) -> Any:
    """What a program returns and leaves in its arguments, with the gradients of those that require one."""
    _reset()
    args = each.make_args()
    result = run(*args)
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    wanted = [arg for arg in tensors if arg.requires_grad]
    gradients = torch.autograd.grad(result.sum(), wanted) if wanted else ()
    return result, [arg.detach() for arg in tensors], gradients


def _differs(found: Any, expected: Any) -> str:
    try:
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    except AssertionError:
        return "wrong"
    return "right"


@dataclass
class Outcome:
    """What one tool did with a program."""

    graphs: str
    whole: bool
    result: str
    traced: str = ""
    """Whether it is right through AOTAutograd, too."""
    generated: str = ""
    """The same of Inductor."""

    def cell(self) -> str:
        results = [self.result, *(each for each in (self.traced, self.generated) if each)]
        return ", ".join([f"{self.graphs} whole" if self.whole else f"{self.graphs} broken", *dict.fromkeys(results)])


def outcome(tool: Function, each: Program, expected: Any) -> Outcome:
    raised = ""
    for fullgraph in (True, False):
        recorder = Recorder()
        try:
            found = _result(tool(each.fn, backend=recorder, fullgraph=fullgraph), each)
        except Exception as error:
            raised = type(error).__name__
        else:
            done = Outcome(str(recorder.graphs), fullgraph, _differs(found, expected))
            done.traced = through("aot_eager", tool, each, expected)
            return done
    return Outcome("", False, f"raises {raised}")


def through(backend: str, tool: Function, each: Program, expected: Any) -> str:
    try:
        return _differs(_result(tool(each.fn, backend=backend), each), expected)
    except Exception as error:
        return f"raises {type(error).__name__}"


@contextlib.contextmanager
def process_group() -> Any:
    dist.init_process_group("nccl" if ON_GPU else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float, default=80, help="after which no more is compiled by Inductor")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("torch._dynamo").setLevel("ERROR")
    if triton_programs is not None:
        PROGRAMS[:0] = [Program(name, *rest, has_kernels=True) for name, *rest in triton_programs.ROWS]
    chosen = [each for each in PROGRAMS if not options.words or any(word in each.name for word in options.words)]
    began = time.perf_counter()
    with process_group():
        rows = {each.name: compare(each) for each in chosen}
        for each in chosen:
            late = time.perf_counter() - began > options.seconds
            if ON_GPU and each.has_kernels and not isinstance(rows[each.name], str):
                expected, *outcomes = rows[each.name]
                for tool, done in zip(TOOLS, outcomes):
                    if done is not None and done.whole:
                        done.generated = "no time left" if late else through("inductor", tool, each, expected)
    table = Table("program", "ours", "torch.compile", "")
    count = behind = 0
    for name, row in rows.items():
        if isinstance(row, str):
            table.add_row(name, row)
            continue
        _, ours, theirs = row
        is_behind = ours.result != "right" or theirs is not None and theirs.whole and not ours.whole
        count, behind = count + 1, behind + is_behind
        table.add_row(name, ours.cell(), theirs.cell() if theirs else "", "behind" if is_behind else "")
    Console(width=150).print(table)
    print(f"{count} programs on {DEVICE}, {behind} behind torch.compile; {time.perf_counter() - began:.0f} s")


TOOLS: tuple[Function, Function] = (dl.compile, torch.compile)


def compare(each: Program) -> str | tuple[Any, Outcome, Outcome | None]:
    """Eager's result and what both tools did, or why there is none. torch.compile captures no interpreted kernels."""
    if each.needs:
        return each.needs
    try:
        expected = _result(each.fn, each)
    except Exception as error:
        return f"eager raises {type(error).__name__}"
    theirs = outcome(torch.compile, each, expected) if ON_GPU or not each.has_kernels else None
    return expected, outcome(dl.compile, each, expected), theirs


if __name__ == "__main__":
    main()
