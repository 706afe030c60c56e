"""Programs with kernels that Triton compiles. Without a device their graphs are made but don't run."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace

import pytest
import torch

os.environ.pop("TRITON_INTERPRET", None)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

import dynamo_lite as dl  # noqa: E402
import users_kernels as kernels  # noqa: E402

driver.set_active(SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 80, 32)))
SCALE = 3


@triton.jit
def scale_(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * SCALE, mask=at < n)


@triton.jit
def write_two(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(y_ptr + at, mask=at < n), mask=at < n)
    tl.store(out_ptr + at, tl.load(y_ptr + at, mask=at < n), mask=at < n)


def compiled(fn):
    """Compiles with a backend whose graphs do nothing."""

    def backend(gm, inputs):
        (results,) = (node.args[0] for node in gm.graph.nodes if node.op == "output")
        return lambda *tensors: [torch.zeros(40) for _ in results]

    return dl.compile(fn, backend=backend, fullgraph=True)


def one_written_tensor():
    """Passes one tensor as two arguments, one of which is written."""
    for arguments in ((0, 0, 1), (0, 1, 0), (0, 1, 1)):

        def fn(*tensors):
            kernels.add[(3,)](*(tensors[each] for each in arguments), 40, BLOCK=16)
            return tensors[0] * 2

        dl.counters.reset()
        compiled(fn)(torch.ones(40), torch.ones(40))
        assert dl.counters.graphs == 1


def two_written_tensors():
    def fn(x, y):
        write_two[(3,)](x, y, x, 40, BLOCK=16)

    with pytest.raises(dl.exc.Unsupported, match="DL0419: .* its argument out_ptr has, too"):
        compiled(fn)(torch.ones(40), torch.ones(40))


def guarded_global():
    global SCALE

    def fn(x):
        scale_[(3,)](x, 40, BLOCK=16)
        return x * 2

    run = compiled(fn)
    run(torch.ones(40))
    run(torch.ones(40))
    assert dl.counters.graphs == 1
    SCALE = 4
    with pytest.raises(dl.exc.Unsupported, match="the global SCALE has changed"):
        run(torch.ones(40))  # Triton itself raises
    SCALE = 3
    run(torch.ones(40))
    assert dl.counters.graphs == 1


def assigned_global():
    def fn(x):
        global SCALE
        SCALE = 5
        scale_[(3,)](x, 40, BLOCK=16)

    with pytest.raises(dl.exc.Unsupported, match="the global SCALE has changed"):
        compiled(fn)(torch.ones(40))


def used_result():
    def kept(x):
        found = scale_[(3,)](x, 40, BLOCK=16)
        return found

    def asked(x):
        if scale_[(3,)](x, 40, BLOCK=16):
            return x * 2

    for fn in (kept, asked):
        with pytest.raises(dl.exc.Unsupported, match="DL0420: .* the program uses what it returns"):
            compiled(fn)(torch.ones(40))

    def dropped(x):
        found = scale_[(3,)](x, 40, BLOCK=16)
        return x * 2 if found is not None else x

    dl.counters.reset()
    compiled(dropped)(torch.ones(40))
    assert dl.counters.graphs == 1


def wrapped():
    """`wrap_triton` changes nothing for a compiler that captures kernels."""

    def fn(x, y):
        out = torch.empty_like(x)
        torch.library.wrap_triton(kernels.add)[(3,)](x, y, out, 40, BLOCK=16)
        return out

    compiled(fn)(torch.ones(40), torch.ones(40))
    assert dl.counters.graphs == 1


def own_operator():
    @torch.library.triton_op("dynamo_lite_tests::added", mutates_args={})
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(kernels.add)[(3,)](x, y, out, 40, BLOCK=16)
        return out

    compiled(lambda x, y: added(x, y) + 1)(torch.ones(40), torch.ones(40))
    assert dl.counters.graphs == 1


def generated(fn, *args, **settings):
    """The code that Inductor generates, up to where Triton compiles the kernels: here it has no device for that."""
    import torch._inductor.config
    from torch._inductor.graph import GraphLowering

    torch._inductor.config.compile_threads = 1  # torch 2.11's pool of compilers doesn't end in a forked process
    codes = []
    GraphLowering.save_output_code = staticmethod(codes.append)
    with pytest.raises(dl.exc.BackendCompilerFailed, match="0 compatible backends"):
        dl.compile(fn, backend="inductor", fullgraph=True, **settings)(*args)
    return "".join(codes)


def inductor_launch():
    def fn(x, y):
        out = torch.empty_like(x)
        kernels.add[kernels.blocks](x * 2, y, out, x.numel(), BLOCK=16, num_warps=2)
        return out + 1

    code = generated(fn, torch.ones(40), torch.ones(40))
    assert "def add(x_ptr" in code and "'num_warps': 2" in code, code
    assert "add_0.run(buf1, arg1_1, buf0, 40, 3, 1, 1," in code, code
    assert "copy_" not in code and code.count("empty_strided_cpu((40, )") == 2, code


def inductor_symbolic_launch():
    def fn(x, y):
        out = torch.empty_like(x)
        kernels.add[kernels.blocks](x, y, out, x.numel(), BLOCK=16)
        return out

    code = generated(fn, torch.ones(40), torch.ones(40), dynamic=True)
    assert re.search(r"add_0\.run\(arg\d_1, arg\d_1, buf0, s\d+, \(15 \+ s\d+\) // 16, 1, 1,", code), code


def inductor_tunes():
    def fn(x, y):
        out = torch.empty_like(x)
        kernels.pruned_add[kernels.blocks](x, y, out, x.numel())
        kernels.tuned_add[kernels.blocks](x, y, out, x.numel())
        kernels.tuned_and_guessed_add[kernels.blocks](x, y, out, x.numel())
        return out

    code = generated(fn, torch.ones(40), torch.ones(40))
    assert "'BLOCK': 7" not in code and "'BLOCK': 8" in code, code
    assert code.count("triton_heuristics.user_autotune(") == 3, code


PROGRAMS = (
    *(one_written_tensor, two_written_tensors, guarded_global, assigned_global, used_result, wrapped, own_operator),
    *(inductor_launch, inductor_symbolic_launch, inductor_tunes),
)


def run():
    """Runs all programs, each from its initial state."""
    for program in PROGRAMS:
        dl.reset()
        dl.counters.reset()
        program()
