"""How long the first call of a deep model takes, and later ones: dynamo_lite beside torch.compile.

    python benchmarks/cold_start.py [--models NAME ...] [--layers N] [--ways WAY ...] [--train] [--warm] [--stages]
    python benchmarks/cold_start.py --ranks N [--apart] ...

Each figure is of a process of its own whose caches are empty; with --warm of a second one, which finds the caches of
the first. The first call is counted from before ``dl.compile`` or ``torch.compile``, which import part of the compiler,
to the result. Ways: ``eager``; ``torch``; ``nested``: torch.compile with ``nested_compile_region`` around each block;
``never``, ``only``, ``auto``: `dl.compile` with these ``regions``. With ``auto`` another process compiles the whole
graph: "then" is after `dl.wait`, and after the calls in which both are tried. With float16 on a GPU; with float32, and
smaller, on a CPU. Peak memory is the allocator's on the GPU. --stages also prints what torch says that its stages took
in the first call (a stage contains others). ``unet`` has the shape of diffusers' UNet2DConditionModel, which needn't be
installed.

With --ranks, so many processes begin at once and share their caches, as torchrun's do; each sees one GPU. The figures
are the slowest rank's. With --apart as well, no rank knows that there are others.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

GPU = torch.cuda.is_available()
WAYS = ("eager", "torch", "nested", "never", "only", "auto")


def gpt2(layers: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    width = 768 if GPU else 64
    rates = dict(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=width // 16, vocab_size=1000, use_cache=False, **rates)
    return GPT2LMHeadModel(config), {"input_ids": torch.randint(0, 1000, (4, 128))}


def llama(layers: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    width = 1024 if GPU else 64
    sizes = dict(hidden_size=width, intermediate_size=2 * width, num_attention_heads=8, num_key_value_heads=4)
    config = LlamaConfig(num_hidden_layers=layers, vocab_size=1000, use_cache=False, **sizes)
    return LlamaForCausalLM(config), {"input_ids": torch.randint(0, 1000, (4, 128))}


def vit(layers: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import ViTConfig, ViTForImageClassification

    width = 768 if GPU else 64
    sizes = dict(hidden_size=width, intermediate_size=2 * width, num_attention_heads=8, image_size=128)
    return ViTForImageClassification(ViTConfig(num_hidden_layers=layers, **sizes)), {
        "pixel_values": torch.randn(4, 3, 128, 128)
    }


def bert(layers: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import BertConfig, BertForMaskedLM

    width = 768 if GPU else 64
    rates = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    sizes = dict(hidden_size=width, intermediate_size=4 * width, num_attention_heads=width // 16)
    config = BertConfig(num_hidden_layers=layers, vocab_size=1000, **sizes, **rates)
    return BertForMaskedLM(config), {"input_ids": torch.randint(0, 1000, (4, 128))}


def experts(layers: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A mixture of 32 experts."""
    from transformers import MixtralConfig, MixtralForCausalLM

    width = 512 if GPU else 64
    sizes = dict(hidden_size=width, intermediate_size=2 * width, num_attention_heads=8, num_key_value_heads=4)
    config = MixtralConfig(num_hidden_layers=layers, num_local_experts=32, vocab_size=1000, use_cache=False, **sizes)
    return MixtralForCausalLM(config), {"input_ids": torch.randint(0, 1000, (4, 128))}


class Residual(torch.nn.Module):
    """Two convolutions, with the time's embedding added between them."""

    def __init__(self, channels: int, made: int, time_width: int) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.GroupNorm(8, each) for each in (channels, made))
        self.convolutions = torch.nn.ModuleList(torch.nn.Conv2d(each, made, 3, padding=1) for each in (channels, made))
        self.time = torch.nn.Linear(time_width, made)
        self.shortcut = torch.nn.Conv2d(channels, made, 1) if channels != made else torch.nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        silu = torch.nn.functional.silu
        h = self.convolutions[0](silu(self.norms[0](x))) + self.time(silu(time))[:, :, None, None]
        return self.shortcut(x) + self.convolutions[1](silu(self.norms[1](h)))


class Attention(torch.nn.Module):
    """Of pixels to each other, or to the text."""

    def __init__(self, width: int, context_width: int) -> None:
        super().__init__()
        self.query, self.out = torch.nn.Linear(width, width, bias=False), torch.nn.Linear(width, width)
        self.key, self.value = (torch.nn.Linear(context_width, width, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        made = self.query(x), self.key(context), self.value(context)
        heads = (each.unflatten(-1, (8, -1)).transpose(1, 2) for each in made)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Transformer(torch.nn.Module):
    """Attention to the pixels and to the text, and a gated linear unit."""

    def __init__(self, width: int, context_width: int) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(8, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(3))
        self.attention, self.to_text = Attention(width, width), Attention(width, context_width)
        self.up, self.down = torch.nn.Linear(width, 8 * width), torch.nn.Linear(4 * width, width)
        self.enter, self.leave = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        h = self.enter(self.norm(x).flatten(2).transpose(1, 2))
        h = h + self.attention(normed := self.norms[0](h), normed)
        h = h + self.to_text(self.norms[1](h), text)
        value, gate = self.up(self.norms[2](h)).chunk(2, -1)
        h = h + self.down(value * torch.nn.functional.gelu(gate))
        return x + self.leave(h).transpose(1, 2).unflatten(2, x.shape[2:])


class Stage(torch.nn.Module):
    """A residual block, and a transformer where the picture is small enough."""

    def __init__(self, channels: int, made: int, time_width: int, text_width: int | None) -> None:
        super().__init__()
        self.residual = Residual(channels, made, time_width)
        self.transformer = Transformer(made, text_width) if text_width is not None else None

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x = self.residual(x, time)
        return x if self.transformer is None else self.transformer(x, text)


class UNet(torch.nn.Module):
    """Four sizes of the picture; at each, so many stages on the way down and one more on the way up."""

    def __init__(self, width: int, stages: int, text_width: int) -> None:
        super().__init__()
        self.width, self.stages = width, stages
        widths = [width, 2 * width, 4 * width, 4 * width]
        self.first = torch.nn.Conv2d(4, width, 3, padding=1)
        self.time = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.SiLU(), torch.nn.Linear(4 * width, 4 * width)
        )
        kept, channels, down = [width], width, list[Stage]()
        self.shrink = torch.nn.ModuleList(torch.nn.Conv2d(each, each, 3, 2, padding=1) for each in widths[:-1])
        for level, made in enumerate(widths):
            for _ in range(stages):
                down.append(Stage(channels, made, 4 * width, text_width if level < 3 else None))
                kept.append(channels := made)
            if level < 3:
                kept.append(channels)
        self.middle = torch.nn.ModuleList(Stage(channels, channels, 4 * width, each) for each in (text_width, None))
        up = list[Stage]()
        for level, made in reversed(list(enumerate(widths))):
            for _ in range(stages + 1):
                up.append(Stage(channels + kept.pop(), made, 4 * width, text_width if level < 3 else None))
                channels = made
        self.down, self.up = torch.nn.ModuleList(down), torch.nn.ModuleList(up)
        self.grow = torch.nn.ModuleList(torch.nn.Conv2d(each, each, 3, padding=1) for each in reversed(widths[1:]))
        self.norm, self.last = torch.nn.GroupNorm(8, width), torch.nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(torch.arange(half, device=sample.device) * (-math.log(10000) / half))
        angles = timestep[:, None] * rates
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1).to(sample.dtype))
        x = self.first(sample)
        kept = [x]
        for at, stage in enumerate(self.down):
            kept.append(x := stage(x, time, text))
            level, last = divmod(at + 1, self.stages)
            if not last and level < 4:
                kept.append(x := self.shrink[level - 1](x))
        for stage in self.middle:
            x = stage(x, time, text)
        for at, stage in enumerate(self.up):
            x = stage(torch.cat([x, kept.pop()], 1), time, text)
            level, last = divmod(at + 1, self.stages + 1)
            if not last and level < 4:
                x = self.grow[level - 1](torch.nn.functional.interpolate(x, scale_factor=2.0))
        return self.last(torch.nn.functional.silu(self.norm(x)))


def unet(stages: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    width, text_width, size = (320, 768, 64) if GPU else (32, 64, 16)
    inputs = {
        "sample": torch.randn(2, 4, size, size),
        "timestep": torch.tensor([10, 500]),
        "text": torch.randn(2, 77, text_width),
    }
    return UNet(width, stages, text_width), inputs


MODELS: dict[str, tuple[Callable[[int], tuple[torch.nn.Module, dict[str, torch.Tensor]]], int]] = {
    "gpt2": (gpt2, 12),
    "llama24": (llama, 24),
    "llama80": (llama, 80),
    "vit": (vit, 12),
    "bert": (bert, 12),
    "unet": (unet, 2),
    "experts": (experts, 12),
}
"""What makes each, and of how many layers it is."""


@dataclass
class Figures:
    """``first``: seconds to the first result; ``later``: milliseconds of the fastest one of ten that follow;
    ``waited``: seconds that another process compiles meanwhile; ``last``: milliseconds of the fastest call after that;
    ``peak``: mebibytes allocated at most; ``error``: the largest difference from eager in parts of the largest
    result."""

    first: float
    later: float
    waited: float
    last: float
    peak: float
    error: float


def print_stages(first: float) -> None:
    from torch._dynamo.utils import compilation_time_metrics

    print(f"first call: {first:.2f} s", file=sys.stderr)
    rows = sorted(compilation_time_metrics.items(), key=lambda row: -sum(row[1]))
    for stage, seconds in rows[:25]:
        print(f"{sum(seconds):8.2f} s in {len(seconds):3} of {stage}", file=sys.stderr)


def measure(name: str, way: str, options: argparse.Namespace) -> Figures:
    """Run in a process of its own."""
    torch.manual_seed(0)
    train = options.train
    make, layers = MODELS[name]
    model, inputs = make(options.layers or layers)
    device, dtype = ("cuda", torch.float16) if GPU else ("cpu", torch.float32)
    model = model.to(device, dtype).train(train)
    inputs = {key: each.to(device, dtype if each.is_floating_point() else None) for key, each in inputs.items()}

    def step(run: Callable[..., Any]) -> torch.Tensor:
        with torch.set_grad_enabled(train):
            found = run(**inputs)
        result = found if isinstance(found, torch.Tensor) else found.logits
        if train:
            model.zero_grad()
            result.float().square().mean().backward()
        if GPU:
            torch.cuda.synchronize()
        return result.detach()

    wanted = step(model)  # kernels of libraries are loaded
    if options.meeting:
        meet(options.meeting, options.ranks)
    began = time.perf_counter()
    call = _compiled(model, way)
    found = step(call)
    first = time.perf_counter() - began
    if options.stages:
        print_stages(first)
    if GPU:
        torch.cuda.reset_peak_memory_stats()
    later = min(_seconds(lambda: step(call)) for _ in range(10))
    waited = _wait(way)
    for _ in range(30):
        found = step(call)
    last = min(_seconds(lambda: step(call)) for _ in range(30))
    peak = torch.cuda.max_memory_allocated() / 2**20 if GPU else float("nan")
    error = ((found - wanted).abs().max() / wanted.abs().max()).item()
    return Figures(first, later * 1e3, waited, last * 1e3, peak, error)


def meet(file: str, processes: int) -> None:
    """Wait for the other processes. It makes no process group, by which they would know each other."""
    store = torch.distributed.FileStore(file, processes)
    if store.add("here", 1) == processes:
        store.set("all", "here")
    store.wait(["all"])


def _wait(way: str) -> float:
    """Wait for what is compiled in the background. Seconds that took."""
    began = time.perf_counter()
    if way == "auto":
        import dynamo_lite as dl

        dl.wait()
    return time.perf_counter() - began


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _compiled(model: torch.nn.Module, way: str) -> Callable[..., Any]:
    if way == "eager":
        return model
    if way in ("torch", "nested"):
        for block in _blocks(model) if way == "nested" else ():
            block.forward = torch.compiler.nested_compile_region(block.forward)
        return torch.compile(model)
    import dynamo_lite as dl

    return dl.compile(model, regions=way)


def _blocks(model: torch.nn.Module) -> list[Any]:
    """The modules of the longest list of modules."""
    lists = [list(each) for each in model.modules() if isinstance(each, torch.nn.ModuleList)]
    return max(lists, key=len)


def in_processes(name: str, way: str, flags: list[str], caches: str, options: argparse.Namespace) -> Figures:
    """The figures of a process that has its caches in a folder; of the slowest, where there are several ranks.

    Raises:
        RuntimeError: a process failed.
    """
    command = [sys.executable, __file__, "--one", name, way, *flags]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches, "TRITON_CACHE_DIR": os.path.join(caches, "triton")}
    if options.ranks > 1:
        environment["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        if options.ranks > 1:
            command += ["--meeting", os.path.join(folder, "store")]
        started = []
        for rank in range(options.ranks):
            if options.ranks > 1:
                environment |= {"LOCAL_WORLD_SIZE": "1" if options.apart else str(options.ranks)}
            if options.ranks > 1 and GPU:
                environment["CUDA_VISIBLE_DEVICES"] = str(rank % torch.cuda.device_count())
            pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            started.append(subprocess.Popen(command, env=environment, **pipes))
        with ThreadPoolExecutor(len(started)) as threads:
            done = list(threads.map(lambda each: (*each.communicate(), each.returncode), started))
    figures = [_figures(f"{name}, {way}", *each, options.stages) for each in done]
    return Figures(*map(max, zip(*(astuple(each) for each in figures), strict=True)))


def _figures(what: str, output: str, errors: str, code: int, stages: bool) -> Figures:
    """What a process has printed."""
    if code:
        raise RuntimeError(f"{what} failed:\n{errors[-2000:]}")
    for line in errors.splitlines():
        if "a graph " in line or "waited " in line:  # what the log says, with DYNAMO_LITE_LOGS=perf
            print(f"{what}: {line}")
    if stages:
        print(f"{what}\n{errors[errors.rfind('first call:') :]}")
    return Figures(**json.loads(output.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["gpt2", "llama24", "vit"])
    parser.add_argument("--layers", type=int, help="layers of each model, instead of its own number")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--train", action="store_true", help="training steps in the place of inference")
    parser.add_argument("--warm", action="store_true", help="measure a process that finds the caches of another")
    parser.add_argument("--stages", action="store_true", help="print what torch says of its stages")
    parser.add_argument("--ranks", type=int, default=1, help="processes that begin at once and share their caches")
    parser.add_argument("--apart", action="store_true", help="with --ranks: none knows that there are others")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help=argparse.SUPPRESS)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(measure(*options.one, options))))
        return
    flags = [each for each in ("--train", "--stages") if getattr(options, each[2:])]
    flags += [f"--{each}={getattr(options, each)}" for each in ("layers", "ranks") if getattr(options, each)]
    table = Table("model", "way", "first call, s", "later, ms", "waited, s", "then, ms", "peak, MiB", "error")
    for name in options.models:
        for way in options.ways:
            with tempfile.TemporaryDirectory() as caches:
                found = in_processes(name, way, flags, caches, options)
                if options.warm:
                    found = in_processes(name, way, flags, caches, options)
            times = f"{found.first:.2f}", f"{found.later:.2f}", f"{found.waited:.1f}", f"{found.last:.2f}"
            row = *times, f"{found.peak:.0f}", f"{found.error:.1e}"
            table.add_row(name, way, *row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
