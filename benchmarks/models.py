"""Whole models in half precision under Inductor: eager, dynamo_lite and torch.compile, in turns.

    python benchmarks/models.py [model | kind ...] [--dtypes bf16 fp16] [--batch N] [--workers N] [--out DIR]
    python benchmarks/models.py bert forward --tiny --device cpu

A process for each model, kind of run and dtype holds both compiled versions. First many processes compile at a time:
each compiler begins with empty caches, and is the first to compile in half of the processes. Then one process at a
time has the machine to itself, and calls the three versions in turns. A result is right if it is as close to the one in
float32 as eager's is, or at most twice as far.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from alternate import alternate
from architectures import Inputs, Model, Row, tensors_of, tokens
from research import Down
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import dynamo_lite as dl

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
MODES = {"forward": None, "step": None, "reduce-overhead": "reduce-overhead"}
"""Kinds of runs -> the compilers' mode. A step has a backward and an optimizer, the others run without gradients."""
TURN_SECONDS = 0.1
SECONDS_TO_TIME = 6.0
"""What is kept for the turns of a process while others compile."""

# -- the models, tiny or of their usual size ---------------------------------------------------------------------------


def gpt2(batch: int, tiny: bool) -> Model:
    size = {"n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 1000} if tiny else {"vocab_size": 50257}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return Row("GPT-2", "GPT2LMHeadModel", size | off | ends, tokens(batch, 16 if tiny else 128))()


def llama(batch: int, tiny: bool) -> Model:
    layers, width, words = (2, 64, 1000) if tiny else (16, 1024, 32000)
    heads = {"num_attention_heads": width // 32, "num_key_value_heads": width // 64}
    size = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": width * 11 // 4} | heads
    config = size | {"vocab_size": words, "use_cache": False}
    return Row(f"Llama, {layers} layers", "LlamaForCausalLM", config, tokens(batch, 16 if tiny else 128))()


def bert(batch: int, tiny: bool) -> Model:
    small = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 64, "intermediate_size": 128}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return Row("BERT", "BertForMaskedLM", (small if tiny else {}) | off, tokens(batch, 16 if tiny else 128))()


def of_timm(title: str, name: str, smaller: dict[str, Any]) -> Callable[[int, bool], Model]:
    def make(batch: int, tiny: bool) -> Model:
        import timm

        module = timm.create_model(name, **(smaller if tiny else {}))
        return Model(title, module, {"x": torch.randn(batch, 3, *((64, 64) if tiny else (224, 224)))})

    return make


def unet(batch: int, tiny: bool) -> Model:
    words, size = (32, 8) if tiny else (768, 64)
    widths = (32,) if tiny else (128, 256, 512)
    try:
        from diffusers import UNet2DConditionModel
    except ImportError:
        name, module = "U-Net (own)", TextUNet(widths, words)
    else:
        name = "U-Net (diffusers)"
        module = UNet2DConditionModel(
            down_block_types=("CrossAttnDownBlock2D",) * len(widths),
            mid_block_type=None if tiny else "UNetMidBlock2DCrossAttn",
            up_block_types=("CrossAttnUpBlock2D",) * len(widths),
            block_out_channels=widths,
            cross_attention_dim=words,
            layers_per_block=1 if tiny else 2,
        )
    sample, text = torch.randn(batch, 4, size, size), torch.randn(batch, 8 if tiny else 77, words)
    timestep = torch.randint(1000, (batch,))
    return Model(name, module, {"sample": sample, "timestep": timestep, "encoder_hidden_states": text})


class CrossAttention(nn.Module):
    """Pixels attend to the words of a text."""

    def __init__(self, width: int, words: int, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(heads, width)
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(words, width), nn.Linear(words, width)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        pixels = self.norm(x).flatten(2).mT
        given = (self.query(pixels), self.key(text), self.value(text))
        heads = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in given)
        found = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return x + self.out(found).mT.reshape_as(x)


class TextUNet(nn.Module):
    """Residual blocks and attention to a text on the way down and up, under an embedding of the time: what stands in
    for diffusers' where that isn't installed."""

    def __init__(self, widths: tuple[int, ...], words: int) -> None:
        super().__init__()
        first, self.width = widths[0], widths[0]
        self.time = nn.Sequential(nn.Linear(first, 4 * first), nn.SiLU(), nn.Linear(4 * first, 4 * first))
        self.first, self.last = nn.Conv2d(4, first, 3, padding=1), nn.Conv2d(first, 4, 3, padding=1)
        self.down = nn.ModuleList(Down(a, b, 4 * first) for a, b in zip((first, *widths), widths))
        self.up = nn.ModuleList(Down(2 * b, a, 4 * first) for a, b in reversed([*zip((first, *widths), widths)]))
        self.attend = nn.ModuleList(CrossAttention(width, words) for width in widths)

    def forward(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        angles = timestep[:, None] * torch.logspace(0, -4, self.width // 2, device=sample.device)
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1).to(sample.dtype))
        h, skips = self.first(sample), []
        for block, attend in zip(self.down, self.attend):
            skips.append(attend(block(h, time), encoder_hidden_states))
            h = F.avg_pool2d(skips[-1], 2)
        for block in self.up:
            h = block(torch.cat([F.interpolate(h, scale_factor=2.0), skips.pop()], dim=1), time)
        return self.last(h)


MODELS: dict[str, Callable[[int, bool], Model]] = {
    "unet": unet,
    "convnext": of_timm("ConvNeXt-T", "convnext_tiny", {"depths": (1, 1, 1, 1), "dims": (16, 32, 64, 128)}),
    "llama": llama,
    "resnet50": of_timm("ResNet-50", "resnet50", {"layers": (1, 1, 1, 1)}),
    "gpt2": gpt2,
    "bert": bert,
    "vit": of_timm("ViT-B/16", "vit_base_patch16_224", {"img_size": 64, "depth": 2, "embed_dim": 96, "num_heads": 3}),
}
"""Those that take longest to compile come first."""


class WithLoss(nn.Module):
    """The loss of a model's first result: cross-entropy where the target holds classes, the mean square otherwise."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, target: Tensor, **inputs: Any) -> Tensor:
        found = self.model(**inputs)
        result = (found if isinstance(found, Tensor) else found[0]).float()
        if target.is_floating_point():
            return F.mse_loss(result, target.float())
        return F.cross_entropy(result.flatten(0, -2), target.flatten())


# -- one process: both compiled versions of a model --------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """What one process runs, and which compiler is first to compile in it."""

    model: str
    kind: str
    dtype: str
    batch: int
    tiny: bool
    device: str
    first: str

    def __str__(self) -> str:
        return f"{self.model} {self.kind} {self.dtype}"


Groups = list[list[Tensor]]
"""Tensors that are compared together: results, gradients, buffers."""


def error_of(found: Groups, exact: Groups) -> float:
    """The largest distance of a group from the exact one, in parts of that one's norm."""
    errors = []
    for ours, theirs in zip(found, exact, strict=True):
        both = [(a.double(), b.double()) for a, b in zip(ours, theirs, strict=True)]
        norms = [sum(float(each.pow(2).sum()) for each in tensors) for tensors in zip(*[(a - b, b) for a, b in both])]
        errors.append((norms[0] / norms[1]) ** 0.5 if norms else 0.0)
    return max(errors, key=lambda error: (error != error, error))  # a NaN is the largest


def floats_to(dtype: torch.dtype, inputs: Inputs) -> Inputs:
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}


class Subject:
    """A model of a unit in half precision, eager, and compiled by both."""

    def __init__(self, unit: Unit) -> None:
        self.unit, self.trains = unit, unit.kind == "step"
        self.dtype = DTYPES[unit.dtype]
        with torch.device(unit.device):
            torch.manual_seed(0)
            made = MODELS[unit.model](unit.batch, unit.tiny)
            self.name, self.inputs, module = made.name, made.inputs, made.module
            if self.trains:
                module, self.inputs = WithLoss(module), {"target": self._target(made), **made.inputs}
        self.module = module.to(self.dtype).train(self.trains)
        self.initial = copy.deepcopy(self.module.state_dict())
        self.inputs = floats_to(self.dtype, self.inputs)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1e-5, momentum=0.9)
        self.versions: dict[str, nn.Module] = {"eager": self.module}

    def _target(self, made: Model) -> Tensor:
        with torch.no_grad():
            result = next(tensors_of(made.module(**made.inputs)))
        picture = "sample" in made.inputs
        return torch.randn_like(result) if picture else torch.randint(result.shape[-1], result.shape[:-1])

    def wait(self) -> None:
        if self.unit.device == "cuda":
            torch.cuda.synchronize()

    def run(self, module: nn.Module, inputs: Inputs) -> Any:
        """A call, and its backward in training."""
        found = module(**inputs)
        if self.trains:
            found.backward()
        return found

    def results(self, module: nn.Module, inputs: Inputs) -> tuple[float, Groups]:
        """Seconds of a call, and everything that it left, copied."""
        module.zero_grad(set_to_none=True)
        self.wait()
        began = time.perf_counter()
        found = self.run(module, inputs)
        self.wait()
        seconds = time.perf_counter() - began
        gradients = [each.grad for each in module.parameters() if each.grad is not None]
        buffers = [each for each in module.buffers() if each.is_floating_point()]
        return seconds, [[each.detach().clone() for each in group] for group in (tensors_of(found), gradients, buffers)]

    def call(self, module: nn.Module) -> None:
        """What is timed."""
        self.run(module, self.inputs)
        if self.trains:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def compile(self, compiler: str, exact: Groups) -> dict[str, float]:
        """Seconds of the first call from empty caches, and how wrong that and a later one are."""
        from torch._inductor.utils import fresh_cache

        compiled = _COMPILERS[compiler](self.module, mode=MODES[self.unit.kind], fullgraph=True)
        self.versions[compiler] = compiled
        errors = []
        with fresh_cache():
            for calls in (0, 3):  # CUDA graphs are recorded at the second call, and replayed from the third on
                for _ in range(calls):
                    self.run(compiled, self.inputs)
                self.module.load_state_dict(self.initial)
                seconds, found = self.results(compiled, self.inputs)
                errors.append((seconds, error_of(found, exact)))
        return {"first_seconds": errors[0][0], "error": max((error for _, error in errors), key=lambda e: (e != e, e))}

    def prepare(self) -> dict[str, Any]:
        """Compile by both, and compare with the same model in float32."""
        exact_module = copy.deepcopy(self.module).float()
        _, exact = self.results(exact_module, floats_to(torch.float32, self.inputs))
        del exact_module
        eager = error_of(self.results(self.module, self.inputs)[1], exact)
        found: dict[str, Any] = {"name": self.name, "eager": {"error": eager}}
        _warm_up(self.unit, self.trains)
        dl.counters.reset()
        for compiler in sorted(_COMPILERS, key=lambda each: each != self.unit.first):
            found[compiler] = self.compile(compiler, exact)
            found[compiler]["right"] = found[compiler]["error"] <= 2 * eager + torch.finfo(self.dtype).eps
        found["graphs"] = dl.counters.graphs
        return found

    def time(self, rounds: int) -> dict[str, dict[str, float]]:
        """Milliseconds a call at the median, by version: by the clock, and on the GPU between the turn's ends."""
        self.call(self.module)
        self.wait()
        began = time.perf_counter()
        self.call(self.module)
        self.wait()
        number = max(2, min(50, int(TURN_SECONDS / (time.perf_counter() - began))))
        turns = {name: Turn(self, module, number) for name, module in self.versions.items()}
        found = {}
        for name, seconds in alternate(dict(turns), number=1, rounds=rounds, between=self.wait).items():
            found[name] = {"ms": 1e3 * statistics.median(seconds) / number}
            if turns[name].device_ms:
                found[name]["device_ms"] = statistics.median(turns[name].device_ms[-rounds:])
        return found


_COMPILERS: dict[str, Callable[..., Any]] = {"ours": dl.compile, "torch": torch.compile}


class Turn:
    """``number`` calls of a version, and a wait for their kernels."""

    def __init__(self, subject: Subject, module: nn.Module, number: int) -> None:
        self.subject, self.module, self.number = subject, module, number
        self.device_ms: list[float] = []

    def __call__(self) -> None:
        on_gpu = self.subject.unit.device == "cuda"
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_gpu else []
        for end in ends[:1]:
            end.record()
        for _ in range(self.number):
            self.subject.call(self.module)
        for end in ends[1:]:
            end.record()
            end.synchronize()
            self.device_ms.append(ends[0].elapsed_time(end) / self.number)


def _warm_up(unit: Unit, trains: bool) -> None:
    """Start Inductor's pool of processes and import what the first graph needs."""
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.utils import fresh_cache

    if unit.device == "cuda":
        AsyncCompile.wait_pool_ready()
    x = torch.randn(8, 8, device=unit.device, requires_grad=trains)
    with fresh_cache():
        for compiler in _COMPILERS.values():
            found = compiler(lambda x: torch.softmax(x * 2, dim=-1).sum(), mode=MODES[unit.kind])(x)
            if trains:
                found.backward()


def work(unit: Unit, rounds: int, parent: Connection) -> None:
    """A process: prepare, say so, wait for the machine, and measure."""
    warnings.simplefilter("ignore")
    torch.backends.cudnn.allow_tf32 = False  # in the float32 that results are compared with
    try:
        with torch.set_grad_enabled(unit.kind == "step"):
            subject = Subject(unit)
            parent.send(subject.prepare())
            from torch._inductor.async_compile import shutdown_compile_workers

            shutdown_compile_workers()
            parent.recv()
            parent.send(subject.time(rounds))
    except Exception as error:  # it is a row of the table
        lines = str(error).strip().splitlines() or [""]
        parent.send(f"{type(error).__name__}: {lines[0]}")


# -- the parent: who compiles, and whose turn it is --------------------------------------------------------------------


@dataclass
class Result:
    """A unit and what came of it. ``failed``: why there is nothing, or no more."""

    unit: Unit
    failed: str = "not run"
    found: dict[str, Any] = dataclasses.field(default_factory=dict)


class Session:
    """Runs units until the time is up, and writes down each result as it comes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.deadline = time.monotonic() + options.seconds
        self.processes: dict[Connection, tuple[multiprocessing.process.BaseProcess, Result]] = {}

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def start(self, result: Result) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(result.unit, self.options.rounds, theirs))
        process.start()
        theirs.close()
        self.processes[ours] = (process, result)
        return ours

    def receive(self, connection: Connection, stage: str) -> bool:
        """Take what a process sends. False: it has failed."""
        process, result = self.processes[connection]
        try:
            found = connection.recv()
        except EOFError:
            process.join()
            found = f"the process ended with code {process.exitcode}"
        if isinstance(found, str):
            result.failed = f"{stage}: {found}"
        else:
            for key, value in found.items():
                result.found[key] = result.found.get(key, {}) | value if isinstance(value, dict) else value
        self.say(result, stage)
        return not isinstance(found, str)

    def say(self, result: Result, stage: str) -> None:
        record = {**dataclasses.asdict(result.unit), "stage": stage, "failed": result.failed, **result.found}
        if self.options.out:
            with (self.options.out / "models.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
        key, short = ("ms", "ms") if stage == "timed" else ("first_seconds", "s")
        versions = [(name, result.found.get(name, {})) for name in ("eager", "torch", "ours")]
        seen = [f"{name} {found[key]:.3f} {short}" for name, found in versions if key in found]
        print(f"{self.left():4.0f} s left: {result.unit}, {', '.join(seen) or result.failed}", flush=True)

    def end(self, connection: Connection) -> None:
        process, result = self.processes.pop(connection)
        connection.close()
        process.join(0 if result.failed else 10)
        process.kill()
        process.join()

    def close(self) -> None:
        for connection in [*self.processes]:
            self.end(connection)

    def prepare(self, results: list[Result]) -> list[Connection]:
        """The processes that are ready to be timed, in the order of ``results``."""
        waiting, busy, ready = list(results), list[Connection](), list[Connection]()
        while True:
            while waiting and len(busy) < self.options.workers:
                busy.append(self.start(waiting.pop(0)))
            left = self.left() - SECONDS_TO_TIME * len(ready)
            if not busy or left <= 0:
                break
            ended = wait(busy, timeout=left)
            for connection in [each for each in busy if each in ended]:
                busy.remove(connection)
                if self.receive(connection, "first calls"):
                    ready.append(connection)
                else:
                    self.end(connection)
        for connection in busy:
            self.processes[connection][1].failed = "not run: it was still compiling"
            self.end(connection)
        return sorted(ready, key=lambda each: results.index(self.processes[each][1]))

    def time(self, ready: Iterable[Connection]) -> None:
        """Give one process after the other the machine."""
        for connection in ready:
            result = self.processes[connection][1]
            result.failed = "not timed"
            if self.left() > 0:
                with contextlib.suppress(BrokenPipeError):  # receiving says that it has ended
                    connection.send("go")
                if wait([connection], timeout=self.left()) and self.receive(connection, "timed"):
                    result.failed = ""
            self.end(connection)


def show(results: list[Result], batch: int) -> None:
    """The table, the geometric means, and what failed or wasn't run."""
    titles = ["model", "kind", "dtype", "eager ms", "torch ms", "ours ms", "torch/ours"]
    table = Table(*titles, "first call: torch s", "ours s", "right", title=f"batch of {batch}")
    ratios: dict[str, list[float]] = {}
    for result in results:
        found, cells = result.found, ["-"] * 4
        if not found:
            continue
        if not result.failed:
            ms = [found[name]["ms"] for name in ("eager", "torch", "ours")]
            ratio = ms[1] / ms[2]
            ratios.setdefault(result.unit.kind, []).append(ratio)
            cells = [*(f"{each:.3f}" for each in ms), f"{ratio:.3f}"]
        first = [f"{found[name]['first_seconds']:.1f}" for name in ("torch", "ours")]
        wrong = [f"{name} {found[name]['error']:.1e}" for name in ("torch", "ours") if not found[name]["right"]]
        verdict = f"eager {found['eager']['error']:.1e}, {', '.join(wrong)}" if wrong else "yes"
        table.add_row(found["name"], result.unit.kind, result.unit.dtype, *cells, *first, verdict)
    Console(width=160).print(table)
    if ratios:
        ratios["all"] = [each for some in ratios.values() for each in some]
    for kind, some in ratios.items():
        print(f"{kind}: torch/ours {statistics.geometric_mean(some):.3f} (geometric mean of {len(some)})")
    for result in results:
        if result.failed:
            print(f"{result.unit}: {result.failed}")


def units(options: argparse.Namespace) -> list[Unit]:
    kinds, models = ([word for word in options.words if word in table] or [*table] for table in (MODES, MODELS))
    pairs = [(kind, dtype) for dtype in options.dtypes or ["bf16"] for kind in kinds]
    if not options.dtypes and "forward" in kinds:
        pairs.append(("forward", "fp16"))
    found = []
    for row, model in enumerate(models):
        for column, (kind, dtype) in enumerate(pairs):
            first = ("ours", "torch")[(row + column) % 2]
            found.append(Unit(model, kind, dtype, options.batch, options.tiny, options.device, first))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help=f"models ({', '.join(MODELS)}) and kinds ({', '.join(MODES)})")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, help="by default bf16, and fp16 for forward")
    parser.add_argument("--batch", type=int, default=2, help="rows of a batch")
    parser.add_argument("--tiny", action="store_true", help="few layers, narrow")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=520, help="for the whole")
    parser.add_argument("--out", type=Path, help="a folder for models.jsonl")
    options = parser.parse_args()
    unknown = [word for word in options.words if word not in MODELS and word not in MODES]
    if unknown:
        parser.error(f"no model or kind {', '.join(unknown)}; there are: {', '.join([*MODELS, *MODES])}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(max(2, (os.cpu_count() or 1) // options.workers))
    results = [Result(unit) for unit in units(options)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        os.environ["TMPDIR"] = caches  # what a process that is ended leaves goes with it
        with contextlib.closing(Session(options)) as session:
            session.time(session.prepare(results))
    show(results, options.batch)
    bad = [each for each in results if each.failed or not each.found["ours"]["right"]]
    sys.exit(f"{len(bad)} of {len(results)} failed, weren't run or are wrong" if bad else 0)


if __name__ == "__main__":
    main()
