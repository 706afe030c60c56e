"""What people write around a GPU and around collectives: dynamo_lite beside torch.compile, program by program.

    python benchmarks/devices.py [word ...] [--seconds N]

Each program is called under fullgraph (is it whole?) and without (how many graphs?), with a backend that returns
``gm.forward``; on a GPU those with Triton kernels once more with Inductor. Results are compared with eager's. Words
select the programs whose names contain one. Without a GPU, Triton's interpreter runs the kernels.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table

import dynamo_lite as dl

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
try:
    import triton_programs
except ImportError:  # Triton isn't installed
    triton_programs = None

Function = Callable[..., Any]


def tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape or (64, 64), generator=torch.Generator().manual_seed(0)).to(DEVICE)


@dataclass
class Program:
    name: str
    fn: Function
    make_args: Callable[[], tuple[Any, ...]] = lambda: (tensor(),)
    needs: str = ""
    """What it needs, if that isn't there."""
    has_kernels: bool = False


PROGRAMS: list[Program] = []


def program(name: str, *, cuda: bool = True, **settings: Any) -> Callable[[Function], Function]:
    def add(fn: Function) -> Function:
        PROGRAMS.append(Program(name, fn, needs="" if ON_GPU or not cuda else "needs CUDA", **settings))
        return fn

    return add


# -- what is known of the device ---------------------------------------------------------------------------------------


@program("cuda.current_device()")
def current_device(x: torch.Tensor) -> torch.Tensor:
    return x + torch.cuda.current_device()


@program("cuda.get_device_capability()")
def capability(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.cuda.get_device_capability() >= (8, 0) else x


@program("cuda.get_device_properties()")
def properties(x: torch.Tensor) -> torch.Tensor:
    return x * torch.cuda.get_device_properties(x.device).multi_processor_count


@program("cuda.get_device_name()")
def name_of_device(x: torch.Tensor) -> torch.Tensor:
    return x * len(torch.cuda.get_device_name())


@program("cuda.is_available(), device_count()", cuda=False)
def available(x: torch.Tensor) -> torch.Tensor:
    return x * torch.cuda.device_count() if torch.cuda.is_available() else x + 1


@program("cuda.is_bf16_supported()")
def supports_bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16() if torch.cuda.is_bf16_supported() else x


@program("backends.cuda.matmul.allow_tf32", cuda=False)
def allow_tf32(x: torch.Tensor) -> torch.Tensor:
    return x @ x if torch.backends.cuda.matmul.allow_tf32 else x * 2


@program("backends.cudnn.is_available(), enabled", cuda=False)
def cudnn(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.backends.cudnn.is_available() and torch.backends.cudnn.enabled else x + 1


@program("cuda.is_current_stream_capturing()")
def capturing(x: torch.Tensor) -> torch.Tensor:
    return x if torch.cuda.is_current_stream_capturing() else x + 1


@program("cuda.memory_allocated()")
def memory(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.cuda.memory_allocated() > 0 else x


# -- streams and events ------------------------------------------------------------------------------------------------


@program("with cuda.stream(), wait_stream()")
def side_stream(x: torch.Tensor) -> torch.Tensor:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x @ x
    torch.cuda.current_stream().wait_stream(stream)
    return y + 1


@program("Event().record(), wait()")
def events(x: torch.Tensor) -> torch.Tensor:
    event = torch.cuda.Event()
    y = x @ x
    event.record()
    event.wait()
    return y + 1


@program("cuda.synchronize()")
def synchronize(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    torch.cuda.synchronize()
    return y + 1


@program("tensor.record_stream()")
def record_stream(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    y.record_stream(torch.cuda.current_stream())
    return y + 1


# -- contexts, and random numbers --------------------------------------------------------------------------------------


@program("with cuda.device(0)")
def device_context(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(0):
        return x @ x + 1


@program("with torch.device()", cuda=False)
def torch_device(x: torch.Tensor) -> torch.Tensor:
    with torch.device(DEVICE):
        return x + torch.ones(64)


@program("cuda.amp.autocast()")
def old_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        return x @ x


@program("torch.autocast()", cuda=False)
def autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        return x @ x


@program("cuda.nvtx.range()")
def nvtx(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.nvtx.range("product"):
        return x @ x


@program("cuda.manual_seed()")
def cuda_seed(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.manual_seed(0)
    return x + torch.rand_like(x)


@program("manual_seed()", cuda=False)
def seed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand_like(x)


@program("random.fork_rng()", cuda=False)
def fork(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        return x * 2


@program("rand(generator=)", cuda=False, make_args=lambda: (tensor(), torch.Generator(DEVICE).manual_seed(0)))
def generator(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x + torch.rand(64, generator=generator, device=x.device)


# -- moving data -------------------------------------------------------------------------------------------------------


@program("tensor.cuda(), cpu()")
def moves(x: torch.Tensor) -> torch.Tensor:
    return (x.cpu() + 1).cuda() * 2


@program("to(non_blocking=True)", cuda=False)
def moves_later(x: torch.Tensor) -> torch.Tensor:
    return (x.to("cpu") + 1).to(DEVICE, non_blocking=True) * 2


@program("pin_memory()")
def pinned(x: torch.Tensor) -> torch.Tensor:
    return (x.cpu() + 1).pin_memory().to(x.device, non_blocking=True)


# -- one process of a group --------------------------------------------------------------------------------------------


@program("dist.get_rank(), get_world_size()", cuda=False)
def ranks(x: torch.Tensor) -> torch.Tensor:
    return x * dist.get_world_size() + dist.get_rank()


@program("dist.all_reduce()", cuda=False)
def all_reduce(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


@program("dist.all_gather_into_tensor()", cuda=False)
def all_gather(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    dist.all_gather_into_tensor(y, x * 2)
    return y + 1


@program("dist.reduce_scatter_tensor()", cuda=False)
def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    dist.reduce_scatter_tensor(y, x * 2)
    return y + 1


@program("_functional_collectives.all_reduce()", cuda=False)
def functional(x: torch.Tensor) -> torch.Tensor:
    return torch.distributed._functional_collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


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
    generated: str = ""
    """Whether it is right with Inductor, too."""

    def cells(self) -> tuple[str, str, str, str]:
        return self.graphs, "whole" if self.whole else "no", self.result, self.generated


def outcome(tool: Function, each: Program, expected: Any) -> Outcome:
    raised = ""
    for fullgraph in (True, False):
        recorder = Recorder()
        try:
            found = _result(tool(each.fn, backend=recorder, fullgraph=fullgraph), each)
        except Exception as error:
            raised = type(error).__name__
        else:
            return Outcome(str(recorder.graphs), fullgraph, _differs(found, expected))
    return Outcome("", False, f"raises {raised}")


def with_inductor(tool: Function, each: Program, expected: Any) -> str:
    try:
        return _differs(_result(tool(each.fn, fullgraph=True), each), expected)
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
                        done.generated = "no time left" if late else with_inductor(tool, each, expected)
    columns = [
        f"{tool}: {what}" for tool in ("ours", "torch") for what in ("graphs", "fullgraph", "result", "Inductor")
    ]
    table = Table("program", *columns, "")
    count = behind = 0
    for name, row in rows.items():
        if isinstance(row, str):
            table.add_row(name, row)
            continue
        _, ours, theirs = row
        is_behind = ours.result != "right" or theirs is not None and theirs.whole and not ours.whole
        count, behind = count + 1, behind + is_behind
        cells = ("", "", "", "") if theirs is None else theirs.cells()
        table.add_row(name, *ours.cells(), *cells, "behind" if is_behind else "")
    Console(width=190).print(table)
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
