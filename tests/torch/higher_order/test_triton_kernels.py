"""Users' Triton kernels: each launch is one node of the graph."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import dynamo_lite as dl
from collector import WHOLE, Programs
from processes import run_program

triton = pytest.importorskip("triton", reason="Triton isn't installed")
kernels = pytest.importorskip("users_kernels", exc_type=ImportError)
on_device = kernels.on_device

programs = Programs()
X, Y = on_device(40), on_device(40, seed=1)
KERNELS = {"add": kernels.add, "scale": kernels.scale_}
blocks = kernels.blocks
HOLDER = SimpleNamespace(kernel=kernels.add)


def added(x, y, kernel=kernels.add, **options):
    out = torch.empty_like(x)
    kernel[blocks](x, y, out, x.numel(), BLOCK=16, **options)
    return out


def closure_over(kernel):
    return lambda x, y: added(x, y, kernel) + 1


# -- how a kernel is reached, and its grid -----------------------------------------------------------------------------


@programs(X, Y, operators=2)
def grid_of_a_list_of_three(x, y):
    out = torch.empty_like(x)
    kernels.add[(triton.cdiv(x.numel(), 16), 1, 1)](x, y, out, x.numel(), 16)
    return out


@programs(X, Y, operators=2)
def grid_of_a_function(x, y):
    out = torch.empty_like(x)
    kernels.add[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 1)](x, y, out, n=x.numel(), BLOCK=16)
    return out


@programs(X, Y, operators=3)
def grid_with_defaults_of_the_kernel(x, y):
    x = x + y
    kernels.scale_[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, 2.5, x.numel())
    return x * 2


@programs(X, Y, operators=2)
def launcher_that_is_kept(x, y):
    launch = kernels.add[(3,)]
    out = torch.empty_like(x)
    launch(x, y, out, 40, BLOCK=16)
    return out


@programs(X, Y, operators=2)
def run_with_a_grid(x, y):
    out = torch.empty_like(x)
    kernels.add.run(x, y, out, 40, BLOCK=16, grid=(3,), warmup=False)
    return out


@programs(X, Y, operators=4)
def kernels_of_a_dict_and_an_attribute(x, y):
    out = added(x, y, HOLDER.kernel)
    return added(x, out, KERNELS["add"])


@programs(X, Y, operators=3, cut=False)
def kernel_of_a_closure(x, y):
    return closure_over(kernels.add)(x, y)


@programs(X, operators=1)
def result_that_is_ignored(x):
    _ = kernels.scale_[(3,)](x, 2, 40)


@programs(X, Y, operators=2)
def options_at_the_launch(x, y):
    out = torch.empty_like(x)
    kernels.add[(3,)](x, y, out, 40, 16, num_warps=2, num_stages=1)
    return out


@programs(X, operators=2)
def option_that_is_a_parameter(x):
    out = torch.zeros_like(x)
    kernels.warps[(1,)](out, num_warps=2, BLOCK=8)
    return out


# -- arguments ---------------------------------------------------------------------------------------------------------


@programs(X, Y, operators=4)
def constants_of_several_types(x, y):
    out, other = torch.empty_like(x), torch.empty_like(x)
    kernels.add_or_multiply[(3,)](x, y, out, 40, True, "once", 16)
    kernels.add_or_multiply[(3,)](x, None, other, 40, MULTIPLIES=False, KIND="twice", BLOCK=16)
    return out, other


@programs(X, 2.0, others=[(X, 2.5), (X, 3)], graphs=1)
def scalar_that_changes(x, factor):
    kernels.scale_[(3,)](x, factor, 40)
    return x


@programs(on_device(6, 5), others=[(on_device(7, 5),), (on_device(7, 9),), (on_device(9, 5),)], all_graphs=3, cut=False)
def sizes_that_change(x):
    out = torch.empty_like(x)
    kernels.rows[(x.shape[0],)](x, out, x.stride(0), x.shape[1], SIZE=16)
    return out


@programs(X, 3, others=[(X, 4), (X, 5), (X, 6)], all_graphs=2, cut=False)
def grid_and_integer_that_change(x, blocks):
    kernels.scale_[(blocks,)](x, 2, blocks * 6)
    return x


@programs(X, 1, others=[(X, 2), (X, 3)], all_graphs=3, cut=False)
def constexpr_that_changes(x, log):
    kernels.scale_[(1,)](x, 2, 40, BLOCK=2**log * 4)
    return x


def descriptor(x, rows=4):
    return kernels.TensorDescriptor.from_tensor(x, [rows, 16])


@programs(on_device(8, 16), operators=2)
def tensor_descriptors(x):
    out = torch.empty_like(x)
    source, target = descriptor(x), kernels.TensorDescriptor(out, out.shape, out.stride(), [4, 16])
    kernels.double_blocks[(2,)](source, target, ROWS=4)
    return out


@programs(on_device(8, 16), 4, others=[(on_device(12, 16), 4), (on_device(16, 16), 4)], all_graphs=2, cut=False)
def tensor_descriptor_of_any_size(x, rows):
    out = torch.empty_like(x)
    kernels.double_blocks[(x.shape[0] // rows,)](descriptor(x), descriptor(out), ROWS=rows)
    return out


# -- Triton's decorators -----------------------------------------------------------------------------------------------


@programs(X, Y, operators=2)
def autotuned(x, y):
    out = torch.empty_like(x)
    kernels.tuned_add[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, x.numel())
    return out


@programs(X, Y, operators=2)
def autotuned_by_one_configuration(x, y):
    out = torch.empty_like(x)
    kernels.fixed_add[blocks](x, y, out, x.numel())
    return out


@programs(X, operators=2)
def autotuned_and_restored(x):
    kernels.tuned_scale_[blocks](x, 2, x.numel())
    return x + 1


@programs(X, Y, operators=2)
def heuristics(x, y):
    out = torch.empty_like(x)
    kernels.guessed_add[blocks](x, y, out, x.numel())
    return out


@programs(X, Y, operators=2)
def heuristics_in_an_autotuner(x, y):
    out = torch.empty_like(x)
    kernels.tuned_and_guessed_add[blocks](x, y, out, x.numel())
    return out


@programs(X, Y, operators=2)
def heuristics_around_an_autotuner(x, y):
    out = torch.empty_like(x)
    kernels.guessed_and_tuned[(3,)](x, y, out, x.numel())
    return out


@programs(X, Y, operators=2)
def pruned_configurations(x, y):
    """The kernel would fail with the pruned configurations."""
    out = torch.empty_like(x)
    kernels.pruned_add[blocks](x, y, out, x.numel())
    return out


# -- what a kernel writes into -----------------------------------------------------------------------------------------


@programs(on_device(4, 10), operators=3)
def view_that_is_mutated(x):
    kernels.scale_[(1,)](x[1], 2, 10)
    return x * 1


@programs(on_device(4, 10), operators=4)
def returned_and_mutated(x):
    y = x + 1
    kernels.scale_[(1,)](y.view(-1), 2, 40)
    z = y[0]
    return y, z


@programs(X, operators=3)
def known_value_that_is_mutated(x):
    one = torch.tensor(1.0, device=x.device)
    kernels.scale_[(1,)](one, 2, 1)
    return x * one


@programs(on_device(4, 3, 8), operators=(3, 5), graphs=1)
def parts_that_are_mutated(x):
    """The two parts share one tensor's memory, but no element."""
    x = x * 1
    kernels.add[(1,)](x[:, 0], x[:, 1], x[:, 2], 8, BLOCK=8)
    return x


@programs(on_device(40), graphs=2, cut=False)
def overlapping_parts(x):
    x = x * 1
    kernels.add[(1,)](x[:16], x[8:24], x[4:20], 16, BLOCK=16)
    return x * 2


@pytest.mark.parametrize("case", programs.parameters())
def test_programs(case):
    case.run()


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.program.fn.__name__) for case in programs if case.kind == WHOLE]
)
def test_programs_through_aot(case):
    """AOTAutograd replaces the kernels by functional ones."""
    for args in (case.inputs, *case.options.get("others", ())):
        given, same = ([each.clone() if isinstance(each, torch.Tensor) else each for each in args] for _ in range(2))
        wanted, found = case.program.fn(*given), dl.compile(case.program.fn, backend="aot_eager")(*same)
        torch.testing.assert_close((found, same), (wanted, given), rtol=0, atol=0)


# -- what is guarded, and what isn't captured --------------------------------------------------------------------------


def test_another_kernel_recompiles():
    holder = SimpleNamespace(kernel=kernels.add)

    def fn(x, y):
        return added(x, y, holder.kernel)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X, Y), X + Y)
    holder.kernel = kernels.subtract
    torch.testing.assert_close(compiled(X, Y), X - Y)
    assert dl.counters.graphs == 2


REFUSED = {
    "no grid": (lambda x: kernels.scale_.run(x, 2, 40, grid=None, warmup=False), "it has no grid"),
    "grid of floats": (lambda x: kernels.scale_[(1.0,)](x, 2, 40), "one to three integers"),
    "grid of four": (lambda x: kernels.scale_[(1, 1, 1, 1)](x, 2, 40), "one to three integers"),
    "missing argument": (lambda x: kernels.scale_[(1,)](x, 2), "it lacks the argument n"),
    "argument given twice": (lambda x: kernels.scale_[(1,)](x, 2, 40, factor=2), "given twice"),
    "unknown option": (lambda x: kernels.scale_[(1,)](x, 2, 40, colour=2), "its option colour"),
    "clusters": (lambda x: kernels.scale_[(1,)](x, 2, 40, num_ctas=2), "num_ctas"),
    "tensor for a constant": (lambda x: kernels.scale_[(1,)](x, 2, 40, BLOCK=x), "must be a constant"),
    "option of a float": (lambda x: kernels.scale_[(1,)](x, 2, 40, num_warps=2.0), "no integer"),
    "transformed": (lambda x: torch.vmap(lambda x: kernels.scale_[(1,)](x, 2, 4))(x.view(10, 4)), "torch.func"),
    "hook of an autotuner": (lambda x: kernels.hooked_tuned[(3,)](x, 2, 40), "runs hooks of the program's"),
    "model of an autotuner": (lambda x: kernels.cheapest_add[blocks](x, x, x * 1, 40), "by a perf_model"),
    "hook before launches": (lambda x: kernels.hooked[(3,)](x, 2, 40), "hooks that run before each launch"),
}


@pytest.mark.parametrize("fn, why", REFUSED.values(), ids=REFUSED)
def test_refused_launch_breaks_by_name(fn, why):
    with pytest.raises(dl.exc.Unsupported, match=why) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(X.clone())
    assert "DL0420" in str(caught.value)


def test_inductor_does_not_take_what_python_runs():
    if torch.cuda.is_available():
        pytest.skip("the kernels are compiled")
    found = dl.compile(added, backend="inductor")(X, Y)
    torch.testing.assert_close(found, X + Y)
    with pytest.raises(dl.exc.Unsupported, match='use backend="aot_eager"'):
        dl.compile(added, backend="inductor", fullgraph=True)(X, Y)


def test_export():
    gm, _ = dl.export(added, X, Y)
    launches = [node for node in gm.graph.nodes if node.target is torch.ops.higher_order.triton_kernel_wrapper_mutation]
    assert len(launches) == 1
    other = on_device(40, seed=2)
    torch.testing.assert_close(gm(other, Y), other + Y)


def test_kernels_that_triton_compiles():
    """The test runs in a process in which Python runs no kernel."""
    if torch.cuda.is_available():
        pytest.skip("the programs' kernels are for tensors on a CPU")
    ran = run_program("import compiled_kernels\ncompiled_kernels.run()", "torch")
    assert ran.returncode == 0, ran.stderr
