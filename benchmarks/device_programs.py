"""The programs of `devices`: what people write around a GPU and, in one process, around collectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
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


@program("cuda.get_device_properties(0).name, total_memory, major")
def fields_of_properties(x: torch.Tensor) -> torch.Tensor:
    known = torch.cuda.get_device_properties(0)
    return x * len(known.name) + known.total_memory // 2**30 + known.major


@program("cuda.is_initialized()")
def initialized(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.cuda.is_initialized() else x


@program("cuda.get_arch_list(), version.cuda", cuda=False)
def architectures(x: torch.Tensor) -> torch.Tensor:
    return x + len(torch.cuda.get_arch_list()) + len(torch.version.cuda or "")


@program("cuda.mem_get_info()")
def free_memory(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.cuda.mem_get_info()[0] > 0 else x


@program("accelerator.current_accelerator(), device_count()", cuda=False)
def accelerator(x: torch.Tensor) -> torch.Tensor:
    found = torch.accelerator.current_accelerator()
    return x + torch.accelerator.device_count() + len("none" if found is None else found.type)


@program("accelerator.current_device_index()")
def accelerator_index(x: torch.Tensor) -> torch.Tensor:
    return x + torch.accelerator.current_device_index()


@program("tensor.get_device(), device.index, is_cuda")
def device_of_tensor(x: torch.Tensor) -> torch.Tensor:
    return x + x.get_device() + x.device.index if x.is_cuda else x


@program("get_device_module()", cuda=False)
def device_module(x: torch.Tensor) -> torch.Tensor:
    return x + torch.get_device_module(x.device).device_count()


@program("backends.cuda.matmul.fp32_precision", cuda=False)
def fp32_precision(x: torch.Tensor) -> torch.Tensor:
    return x @ x if torch.backends.cuda.matmul.fp32_precision == "tf32" else x * 2


@program("backends.cuda.matmul.allow_*_reduced_precision_reduction", cuda=False)
def reduced_precision(x: torch.Tensor) -> torch.Tensor:
    matmul = torch.backends.cuda.matmul
    both = matmul.allow_fp16_reduced_precision_reduction and matmul.allow_bf16_reduced_precision_reduction
    return x @ x if both else x * 2


@program("backends.cudnn.benchmark, deterministic, allow_tf32, version()", cuda=False)
def cudnn_flags(x: torch.Tensor) -> torch.Tensor:
    flags = torch.backends.cudnn
    return x * 2 + int(flags.benchmark) + int(flags.deterministic) + int(flags.allow_tf32) + (flags.version() or 0)


@program("backends.cuda.flash_sdp_enabled() and the like", cuda=False)
def attention_kernels(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.math_sdp_enabled() else x


@program("with backends.cudnn.flags()", cuda=False)
def with_cudnn_flags(x: torch.Tensor) -> torch.Tensor:
    with torch.backends.cudnn.flags(enabled=True, benchmark=False):
        return x @ x


@program("torch.device(...) comparisons", cuda=False)
def compared_devices(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.device.type == DEVICE and x.device != torch.device("meta") else x


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


def _stream() -> tuple[Any, ...]:
    return tensor(), torch.cuda.Stream()


def _event() -> tuple[Any, ...]:
    event = torch.cuda.Event()
    event.record()
    return tensor(), event


@program("with cuda.stream(of the caller's)", make_args=_stream)
def given_stream(x: torch.Tensor, stream: Any) -> torch.Tensor:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x @ x
    torch.cuda.current_stream().wait_stream(stream)
    return y + 1


@program("with stream:", make_args=_stream)
def stream_as_context(x: torch.Tensor, stream: Any) -> torch.Tensor:
    stream.wait_stream(torch.cuda.current_stream())
    with stream:
        y = x @ x
    torch.cuda.current_stream().wait_stream(stream)
    return y + 1


@program("with cuda.stream(None)")
def no_stream(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.stream(None):
        return x @ x


@program("with cuda.StreamContext()", make_args=_stream)
def stream_context(x: torch.Tensor, stream: Any) -> torch.Tensor:
    with torch.cuda.StreamContext(stream):
        y = x @ x
    stream.synchronize()
    return y


@program("two streams, one waits for the other's event")
def two_streams(x: torch.Tensor) -> torch.Tensor:
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    ready = torch.cuda.current_stream().record_event()
    with torch.cuda.stream(one):
        one.wait_event(ready)
        y = x @ x
        done = one.record_event()
    with torch.cuda.stream(two):
        two.wait_event(done)
        z = y + 1
    torch.cuda.current_stream().wait_stream(two)
    return z * 2


@program("event of the caller's: wait(), record()", make_args=_event)
def given_event(x: torch.Tensor, event: Any) -> torch.Tensor:
    event.wait()
    y = x @ x
    event.record()
    return y + 1


@program("event.record(stream), wait(stream)", make_args=_stream)
def event_of_stream(x: torch.Tensor, stream: Any) -> torch.Tensor:
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream())
    event.wait(stream)
    with torch.cuda.stream(stream):
        y = x @ x
    event.record(stream)
    event.wait(torch.cuda.current_stream())
    return y + 1


@program("event.synchronize()", make_args=_event)
def synchronized_event(x: torch.Tensor, event: Any) -> torch.Tensor:
    event.synchronize()
    return x @ x


@program("event.query()", make_args=_event)
def queried_event(x: torch.Tensor, event: Any) -> torch.Tensor:
    return x @ x if event.query() else x @ x * 1


@program("Event(enable_timing=True), elapsed_time()")
def timed(x: torch.Tensor) -> torch.Tensor:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y = x @ x
    end.record()
    end.synchronize()
    return y + (start.elapsed_time(end) < 0)


@program("torch.Stream(), torch.Event()")
def generic_streams(x: torch.Tensor) -> torch.Tensor:
    stream, event = torch.Stream(device=x.device), torch.Event(device=x.device)
    stream.wait_stream(torch.accelerator.current_stream())
    with stream:
        y = x @ x
        event.record()
    event.wait()
    return y + 1


@program("cuda.default_stream()")
def default_stream(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.stream(torch.cuda.default_stream()):
        return x @ x


@program("current_stream() == default_stream()")
def compared_streams(x: torch.Tensor) -> torch.Tensor:
    return x @ x if torch.cuda.current_stream() == torch.cuda.default_stream() else x


@program("current_stream().synchronize()")
def synchronized_stream(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    torch.cuda.current_stream().synchronize()
    return y + 1


@program("current_stream().cuda_stream")
def raw_stream(x: torch.Tensor) -> torch.Tensor:
    return x + (torch.cuda.current_stream().cuda_stream == 0)


@program("offload: copy to pinned memory on a side stream", make_args=_stream)
def offload(x: torch.Tensor, stream: Any) -> torch.Tensor:
    y = x @ x
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        host = y.to("cpu", non_blocking=True)
        y.record_stream(stream)
    torch.cuda.current_stream().wait_stream(stream)
    return host.to(x.device) + y


@program("prefetch: copy from the host on a side stream", make_args=_stream)
def prefetch(x: torch.Tensor, stream: Any) -> torch.Tensor:
    host = torch.ones(64, 64)
    with torch.cuda.stream(stream):
        ahead = host.to(x.device, non_blocking=True)
    y = x @ x
    torch.cuda.current_stream().wait_stream(stream)
    ahead.record_stream(torch.cuda.current_stream())
    return y + ahead


@program("cuda.set_stream()", make_args=_stream)
def set_stream(x: torch.Tensor, stream: Any) -> torch.Tensor:
    before = torch.cuda.current_stream()
    torch.cuda.set_stream(stream)
    y = x @ x
    torch.cuda.set_stream(before)
    before.wait_stream(stream)
    return y + 1


@program("a gradient through a side stream", make_args=lambda: (tensor().requires_grad_(),))
def gradient_of_stream(x: torch.Tensor) -> torch.Tensor:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = (x @ x).sin()
    torch.cuda.current_stream().wait_stream(stream)
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


@program("with cuda.device(tensor's)")
def context_of_device(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(x.device):
        return x @ x + torch.ones(64, device="cuda")


@program("with cuda.device_of(tensor)")
def context_of_tensor(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device_of(x):
        return x @ x + 1


@program("cuda.set_device(0)")
def set_device(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.set_device(0)
    return x @ x + 1


@program("with accelerator.device_index(0)")
def accelerator_context(x: torch.Tensor) -> torch.Tensor:
    with torch.accelerator.device_index(0):
        return x @ x + 1


@program("amp.autocast(device)", cuda=False)
def amp_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.amp.autocast(DEVICE, dtype=torch.bfloat16):
        return (x @ x).float() + 1


@program("@cuda.amp.autocast()")
def decorated(x: torch.Tensor) -> torch.Tensor:
    @torch.cuda.amp.autocast()
    def product(y: torch.Tensor) -> torch.Tensor:
        return y @ y

    return product(x).float()


class Halved(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type=DEVICE, cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    @torch.amp.custom_bwd(device_type=DEVICE)
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / 2


@program("amp.custom_fwd, custom_bwd", cuda=False, make_args=lambda: (tensor().requires_grad_(),))
def custom_fwd(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        return Halved.apply(x @ x).float()


@program("GradScaler.scale()", make_args=lambda: (tensor(), torch.amp.GradScaler("cuda")))
def scaled(x: torch.Tensor, scaler: Any) -> torch.Tensor:
    return scaler.scale((x @ x).sum())


@program("cuda.nvtx.range_push(), range_pop(), mark()")
def nvtx_push(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.nvtx.range_push("product")
    y = x @ x
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.mark("done")
    return y + 1


@program("cuda.manual_seed_all()")
def cuda_seed_all(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.manual_seed_all(3)
    return x + torch.rand_like(x)


@program("cuda.get_rng_state(), set_rng_state()")
def cuda_rng_state(x: torch.Tensor) -> torch.Tensor:
    state = torch.cuda.get_rng_state()
    y = torch.rand_like(x)
    torch.cuda.set_rng_state(state)
    return y - torch.rand_like(x)


@program("random.fork_rng() and manual_seed()", cuda=False)
def fork_and_seed(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        y = torch.rand_like(x)
    return x + y


@program("Generator(device).manual_seed()", cuda=False)
def created_generator(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(x.device).manual_seed(3)
    return x + torch.rand(64, generator=generator, device=x.device)


@program("initial_seed()", cuda=False)
def initial_seed(x: torch.Tensor) -> torch.Tensor:
    return x + torch.initial_seed() % 7


@program("dropout, randn, randint, bernoulli", cuda=False)
def random_operators(x: torch.Tensor) -> torch.Tensor:
    noise = torch.randn(64, device=x.device) + torch.randint(3, (64,), device=x.device)
    return torch.nn.functional.dropout(x, 0.5) + noise + torch.bernoulli(torch.full_like(x, 0.5))


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


@program("tensor.is_pinned()", cuda=False)
def is_pinned(x: torch.Tensor) -> torch.Tensor:
    return x + x.cpu().is_pinned()


@program("empty(pin_memory=True)")
def pinned_empty(x: torch.Tensor) -> torch.Tensor:
    host = torch.empty(64, 64, pin_memory=True)
    host.copy_(x.cpu())
    return host.to(x.device, non_blocking=True) + 1


@program("copy_() from the host", cuda=False)
def copied(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    y.copy_(torch.ones(64, 64), non_blocking=True)
    return x + y


@program("to(memory_format=channels_last), half()", cuda=False, make_args=lambda: (tensor(2, 3, 8, 8),))
def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last).half().float() + 1


@program("index by a tensor on the host", cuda=False)
def index_from_host(x: torch.Tensor) -> torch.Tensor:
    return x[torch.tensor([0, 2, 5])] + x[:3]


@program("a scalar tensor on the host", cuda=False)
def scalar_from_host(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor(2.0)


@program("cuda.empty_cache()")
def empty_cache(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    torch.cuda.empty_cache()
    return y + 1


@program("cuda.reset_peak_memory_stats(), max_memory_allocated()")
def peak_memory(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.reset_peak_memory_stats()
    y = x @ x
    return y + (torch.cuda.max_memory_allocated() < 0)


@program("item() of a result on the device", cuda=False)
def item(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum().item() > 1e9 else x + 1


@program("CUDAGraph.replay()", make_args=lambda: (tensor(), captured_graph()))
def replayed(x: torch.Tensor, captured: Any) -> torch.Tensor:
    graph, given, result = captured
    given.copy_(x)
    graph.replay()
    return result + 1


def captured_graph() -> tuple[Any, ...]:
    given = tensor()
    graph = torch.cuda.CUDAGraph()
    given @ given  # cuBLAS makes its workspace outside of the capture
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        result = given @ given
    return graph, given, result


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
