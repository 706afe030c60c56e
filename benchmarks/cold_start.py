"""How long the first call of a deep model takes, and later ones: dynamo_lite beside torch.compile.

    python benchmarks/cold_start.py [--models NAME ...] [--ways WAY ...] [--train] [--warm] [--stages]

Each figure is of a process of its own whose caches are empty; with --warm of a second one, which finds the caches of
the first. The first call is counted from before ``dl.compile`` or ``torch.compile``, which import part of the compiler,
to the result. Ways: ``eager``; ``torch``; ``nested``: torch.compile with ``nested_compile_region`` around each block;
``never``, ``only``, ``auto``: `dl.compile` with these ``regions``. With ``auto`` another process compiles the whole
graph: "then" is after `dl.wait`, and after the calls in which both are tried. With float16 on a GPU; with float32, and
smaller, on a CPU. Peak memory is the allocator's on the GPU. --stages also prints what torch says that its stages took
in the first call (a stage contains others).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
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


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]] = {
    "gpt2": lambda: gpt2(12),
    "llama24": lambda: llama(24),
    "llama80": lambda: llama(80),
    "vit": lambda: vit(12),
    "bert": lambda: bert(12),
    "experts": lambda: experts(12),
}


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


def measure(name: str, way: str, train: bool, stages: bool) -> Figures:
    """Run in a process of its own."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    device, dtype = ("cuda", torch.float16) if GPU else ("cpu", torch.float32)
    model = model.to(device, dtype).train(train)
    inputs = {key: each.to(device, dtype if each.is_floating_point() else None) for key, each in inputs.items()}

    def step(run: Callable[..., Any]) -> torch.Tensor:
        with torch.set_grad_enabled(train):
            result = run(**inputs).logits
        if train:
            model.zero_grad()
            result.float().square().mean().backward()
        if GPU:
            torch.cuda.synchronize()
        return result.detach()

    wanted = step(model)  # kernels of libraries are loaded
    began = time.perf_counter()
    call = _compiled(model, way)
    found = step(call)
    first = time.perf_counter() - began
    if stages:
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


def in_process(name: str, way: str, flags: list[str], caches: str) -> Figures:
    """The figures of a process that has its caches in a folder.

    Raises:
        RuntimeError: the process failed.
    """
    command = [sys.executable, __file__, "--one", name, way, *flags]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches, "TRITON_CACHE_DIR": os.path.join(caches, "triton")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}, {way} failed:\n{done.stderr[-2000:]}")
    for line in done.stderr.splitlines():
        if "a graph " in line:  # what the log says of the background, with DYNAMO_LITE_LOGS=perf
            print(f"{name}, {way}: {line}")
    if "--stages" in flags:
        print(f"{name}, {way}\n{done.stderr[done.stderr.rfind('first call:') :]}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["gpt2", "llama24", "vit"])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--train", action="store_true", help="training steps in the place of inference")
    parser.add_argument("--warm", action="store_true", help="measure a process that finds the caches of another")
    parser.add_argument("--stages", action="store_true", help="print what torch says of its stages")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(asdict(measure(*arguments.one, arguments.train, arguments.stages))))
        return
    flags = [each for each in ("--train", "--stages") if getattr(arguments, each[2:])]
    table = Table("model", "way", "first call, s", "later, ms", "waited, s", "then, ms", "peak, MiB", "error")
    for name in arguments.models:
        for way in arguments.ways:
            with tempfile.TemporaryDirectory() as caches:
                found = in_process(name, way, flags, caches)
                if arguments.warm:
                    found = in_process(name, way, flags, caches)
            times = f"{found.first:.2f}", f"{found.later:.2f}", f"{found.waited:.1f}", f"{found.last:.2f}"
            row = *times, f"{found.peak:.0f}", f"{found.error:.1e}"
            table.add_row(name, way, *row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
