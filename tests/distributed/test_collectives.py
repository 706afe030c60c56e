"""Two processes: collectives in graphs give what they give in eager, in the program's order, also if one rank compiles
and the other runs in eager; ranks, sizes and groups are values."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh

import dynamo_lite as dl
import ranks
from dynamo_lite.backends.aot import aot, run_aten
from programs import Recorder

# torch before 2.12 has the older names alone
gather = getattr(fc, "all_gather_single", fc.all_gather_tensor)
scatter = getattr(fc, "reduce_scatter_single", fc.reduce_scatter_tensor)

SUM = dist.ReduceOp(dist.ReduceOp.SUM)
WEIGHT = torch.nn.Parameter(torch.ones(2))


@functools.cache
def pair() -> Any:
    """Returns a group of both ranks that isn't the default group."""
    return dist.new_group([0, 1])


@functools.cache
def mesh() -> Any:
    return init_device_mesh(ranks.device_type(), (1, 2), mesh_dim_names=("data", "tensor"))


# -- what a program does -----------------------------------------------------------------------------------------------


def unwrapped(value: Any) -> Any:
    return value.trigger_wait() if isinstance(value, fc.AsyncCollectiveTensor) else value


def check_same(one: Any, other: Any) -> None:
    assert type(one) is type(other), (one, other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(unwrapped(one), unwrapped(other), rtol=1e-6, atol=0)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for pairs in zip(one, other):
            check_same(*pairs)
    else:
        assert one == other


def outcome(fn: Callable[..., Any], rank: int) -> tuple[Any, ...]:
    """Returns the result of the program, its argument afterwards, and the gradient of `WEIGHT`."""
    WEIGHT.grad = None
    given = torch.arange(8.0).view(4, 2) + 10 * rank
    result = fn(given)
    found = result if isinstance(result, (list, tuple)) else [result]
    sums = [each.sum() for each in found if isinstance(each, torch.Tensor) and each.requires_grad]
    if sums:
        sum(sums[1:], sums[0]).backward()
    return result, given, WEIGHT.grad


def check_in_step(rank: int) -> None:
    """The ranks have issued the same collectives so far. Otherwise this collective would meet another one, or none."""
    token = torch.full((3,), rank + 1.0)
    dist.all_reduce(token)
    assert token.tolist() == [3.0] * 3


def check(fn: Callable[..., Any], rank: int, backend: Any, uneven: bool = False, breaks: str = "") -> None:
    """Checks that the program is one graph, or breaks for one reason, with eager's results. ``uneven``: rank 1 runs
    in eager.
    """
    dl.reset()
    dl.counters.reset()
    wanted = outcome(fn, rank)
    compiled = fn if uneven and rank else dl.compile(fn, backend=backend, fullgraph=not breaks)
    for _ in range(2):
        check_same(wanted, outcome(compiled, rank))
        check_in_step(rank)
    if compiled is not fn:
        assert (dl.counters.graphs == 1 and not dl.counters.graph_breaks) or breaks, dl.counters.break_reasons
        reasons = "; ".join(dl.counters.break_reasons)
        assert breaks in reasons, reasons


WHOLE: list[Callable[..., Any]] = []
BROKEN: list[tuple[Callable[..., Any], str]] = []


def whole(fn: Callable[..., Any]) -> Callable[..., Any]:
    WHOLE.append(fn)
    return fn


def breaks(why: str) -> Callable[..., Any]:
    return lambda fn: BROKEN.append((fn, why)) or fn


# -- ranks, sizes, groups ----------------------------------------------------------------------------------------------


@whole
def rank_and_size(x):
    return x * (dist.get_rank() + 1) + dist.get_world_size()


@whole
def rank_in_a_group(x):
    group = pair()
    return x * (dist.get_rank(group) + 1) + dist.get_world_size(group) + group.size() + dist.get_global_rank(group, 1)


@whole
def branches_on_the_rank(x):
    return x + 1 if dist.is_available() and dist.is_initialized() and dist.get_rank() == 0 else x * 2


@whole
def backend_of_a_group(x):
    return x + (1 if dist.get_backend() == "gloo" else 2), dist.get_backend(pair()) == dist.Backend.GLOO


@whole
def default_group(x):
    group = dist.group.WORLD
    return x + group.size() if group is not None and group == dist.group.WORLD and group != pair() else x


@whole
def device_mesh(x):
    one, whole = mesh()["tensor"], mesh()
    assert one != whole and one == mesh()["tensor"] and {one.get_group(): 3}[one.get_group()] == 3
    x = x * (one.get_local_rank() + 1) + one.size() + whole.size(0) + whole.ndim + whole.shape[1]
    return x + dist.get_world_size(one.get_group()) + whole.get_local_rank("tensor") + whole.get_coordinate()[1]


# -- collectives that write into a tensor ------------------------------------------------------------------------------


@whole
def all_reduce(x):
    y = x * 2
    assert dist.all_reduce(y) is None
    return y + 1


@whole
def all_reduce_of_an_argument(x):
    dist.all_reduce(x, op=dist.ReduceOp.MAX, group=pair())
    return x + 1


@whole
def all_reduce_twice(x):
    y = x + 1
    dist.all_reduce(y)
    z = y.clone()
    dist.all_reduce(y)
    return y, z


@whole
def all_reduce_of_a_view(x):
    y = x * 2
    dist.all_reduce(y[1:3])
    return y


@whole
def broadcast(x):
    y, z = x * 2, x * 3
    dist.broadcast(y, 1)
    dist.broadcast(z, group_src=0, group=pair())
    return y + z


@whole
def all_gather_into_tensor(x):
    out = x.new_empty(8, 2)
    dist.all_gather_into_tensor(out, x * 2)
    return out + 1


@whole
def all_gather(x):
    outs = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(outs, x * 2)
    return outs


@whole
def all_gather_of_numbers(x):
    outs = [x.new_empty(()) for _ in range(2)]
    dist.all_gather(outs, x.sum())
    return torch.stack(outs)


@whole
def reduce_scatter_tensor(x):
    out = x.new_empty(2, 2)
    dist.reduce_scatter_tensor(out, x * 2)
    return out + 1


@whole
def all_to_all_single(x):
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x * 2)
    return out + 1


@whole
def all_to_all_of_unequal_parts(x):
    rank = dist.get_rank()
    sent, received = [1, 3], [1, 1] if rank == 0 else [3, 3]
    out = x.new_empty(sum(received), 2)
    dist.all_to_all_single(out, x * 2, received, sent)
    return out + 1


@whole
def statistic_beside_a_loss(x):
    loss = (x * WEIGHT).sum()
    seen = loss.detach().clone()
    dist.all_reduce(seen, op=dist.ReduceOp.MAX)
    return loss, seen


@whole
def without_gradients(x):
    with torch.no_grad():
        y = x * WEIGHT
        dist.all_reduce(y)
    return y + x * WEIGHT


@whole
def unused_result(x):
    y = x + 1
    dist.all_reduce(y)
    return x * 2


@whole
def unused_result_beside_a_gradient(x):
    y = x + 1
    dist.all_reduce(y)
    fc.all_reduce(x + 2, "sum", pair())
    return x * WEIGHT


@whole
def all_reduce_of_a_number(x):
    count = torch.tensor(len(x))
    dist.all_reduce(count)
    rows = torch.tensor([1.0, 2.0])
    dist.all_reduce(rows)
    return x / count + rows + fc.all_reduce(torch.tensor([1.0]), "sum", pair())


# -- asynchronous ones -------------------------------------------------------------------------------------------------


@whole
def asynchronous(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x + 1
    assert work.wait()
    return y + z


@whole
def several_asynchronous(x):
    ys = [x * 2, x * 3, x * 4]
    works = [dist.all_reduce(y, async_op=True) for y in ys]
    out = x.new_empty(8, 2)
    works.append(dist.all_gather_into_tensor(out, x, async_op=True))
    for work in works:
        work.wait()
    return ys[0] + ys[1] * ys[2], out


@whole
def nobody_waits(x):
    y = x * 2
    dist.all_reduce(y, async_op=True)
    return x + 1


@breaks("the collective began outside of the graph")
def returns_work(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x + 1
    dl.graph_break()
    work.wait()
    return y + z


@breaks("Work.is_completed() can't be in a graph")
def asks_whether_work_is_done(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    while not work.is_completed():
        pass
    return y + 1


@breaks("Work.is_completed() can't be in a graph")
def asks_whether_waited_work_is_done(x):
    """NCCL's ``wait`` only orders streams. The collective may still run after it."""
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    while not work.is_completed():
        pass
    return y + 1


# -- functional collectives --------------------------------------------------------------------------------------------


@whole
def functional_all_reduce(x):
    return fc.all_reduce(x, "sum", pair()) + 1


@whole
def functional_result_returned(x):
    return fc.all_reduce(x, "max", dist.group.WORLD)


@whole
def functional_result_waited_for(x):
    return fc.all_reduce(x, "sum", pair()).wait() * 2


@whole
def functional_over_meshes(x):
    one = mesh()["tensor"]
    gathered = fc.all_gather_tensor(x, 0, one) + gather(x, 0, (mesh(), 1))
    return fc.reduce_scatter_tensor(gathered, "sum", 0, one) + fc.broadcast(x, 1, one)


@whole
def functional_over_other_dimensions(x):
    return gather(x, 1, pair()) + 1, scatter(x, "sum", 1, pair()) * 2


@whole
def functional_of_several(x):
    return [each + 1 for each in fc.all_reduce_coalesced([x, x * 2], "sum", pair())]


@whole
def each_of_several_waited_for(x):
    results = fc.all_reduce_coalesced([x, x * 2], "sum", pair())
    return [each.wait() * 2 for each in results], [type(each) is fc.AsyncCollectiveTensor for each in results]


@whole
def functional_with_gradients(x):
    y = fc.all_reduce(x * WEIGHT, "sum", pair())
    z = gather(y * WEIGHT, 0, pair())
    return (z * z).sum()


@whole
def equal_ones(x):
    one, other = (fc.all_reduce(x * WEIGHT, "sum", pair()) for _ in range(2))
    return one + 1, other * 2


@whole
def in_a_checkpoint(x):
    group = pair()

    def part(x):
        return fc.all_reduce(torch.sin(x * WEIGHT), "sum", group) * 2

    return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)


class CopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class ReduceFromRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


@whole
def in_functions_of_autograd(x):
    return ReduceFromRanks.apply(torch.relu(CopyToRanks.apply(x * WEIGHT, dist.group.WORLD)))


# -- what breaks -------------------------------------------------------------------------------------------------------


@breaks("barrier() can't be in a graph: it has no functional counterpart")
def barrier(x):
    y = x + 1
    dist.barrier()
    return y * 2


@breaks("reduce() can't be in a graph: it has no functional counterpart")
def reduce(x):
    y = x + 1
    dist.reduce(y, 0)
    return y * 2


@breaks("broadcast_object_list() can't be in a graph")
def objects(x):
    given = [dist.get_rank()]
    dist.broadcast_object_list(given, 1)
    return x + given[0]


@breaks("() can't be in a graph: it has no functional counterpart")
def sends(x):
    y = x + 1
    if dist.get_rank():
        dist.send(y, 0)
    else:
        dist.recv(y, 1)
    return y


@breaks("the functional collective has a gradient")
def writes_into_what_requires_gradients(x):
    y = x * WEIGHT
    dist.all_reduce(y)
    return y * 2


@breaks("an exception handler may swallow its error")
def handles_errors(x):
    y = x * 2
    try:
        dist.all_reduce(y)
    except RuntimeError:
        y = x
    return y + 1


@breaks("the tensor is complex")
def complex_numbers(x):
    y = torch.complex(x, x)
    dist.all_reduce(y)
    return torch.view_as_real(y)


@breaks("branches on a tensor's value")
def branches_on_what_was_reduced(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1 if y.sum() > 0 else y


@breaks("there is no functional one with a ReduceOp")
def unknown_reduction(x):
    y = x * 2
    dist.all_reduce(y, op=SUM)
    return y


# -- each of these runs on both ranks ----------------------------------------------------------------------------------


def whole_graphs(rank: int) -> None:
    for fn in WHOLE:
        check(fn, rank, Recorder())


def broken_graphs(rank: int) -> None:
    for fn, why in BROKEN:
        check(fn, rank, Recorder(), breaks=why)


def one_rank_in_eager(rank: int) -> None:
    for fn in WHOLE:
        check(fn, rank, "aot_eager", uneven=True)
    for fn, why in BROKEN:
        check(fn, rank, "aot_eager", uneven=True, breaks=why)


def through_inductor(rank: int) -> None:
    for fn in (equal_ones, in_functions_of_autograd, several_asynchronous):
        check(fn, rank, "inductor", uneven=True)


# -- the order of collectives ------------------------------------------------------------------------------------------

KINDS = {
    "all_reduce": all_reduce,
    "broadcast": lambda x: fc.broadcast(x * 3, 1, pair()) + 1,
    "all_gather_into_tensor": all_gather_into_tensor,
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_to_all_single": all_to_all_single,
    "all_reduce_coalesced": functional_of_several,
}
"""A collective of each kind, by its node in a graph."""


def in_order(kinds: tuple[str, ...]) -> Callable[..., Any]:
    """Creates a program of these collectives. None of them needs another's result."""
    return lambda x: [KINDS[kind](x + at) for at, kind in enumerate(kinds)]


def kinds_of(gm: torch.fx.GraphModule) -> tuple[str, ...]:
    names = (str(getattr(node.target, "__name__", "")).partition(".")[0] for node in gm.graph.nodes)
    return tuple(name for name in names if name in KINDS)


def pairs_keep_their_order(rank: int) -> None:
    """In our graph, and in those of AOTAutograd; the other rank runs in eager, which would meet another collective."""
    aten: list[torch.fx.GraphModule] = []

    def keep(gm, example_inputs):
        aten.append(gm)
        return run_aten(gm, example_inputs)

    for kinds in itertools.product(KINDS, repeat=2):
        recorder = Recorder()
        check(in_order(kinds), rank, recorder)
        assert [kinds_of(gm) for gm in recorder.graphs] == [kinds]
        aten.clear()
        check(in_order(kinds), rank, lambda gm, inputs: aot(gm, inputs, fw_compiler=keep), uneven=True)
        assert [kinds_of(gm) for gm in aten] == ([] if rank else [kinds]), (kinds, [kinds_of(gm) for gm in aten])


def all_kinds_keep_their_order_in_inductor(rank: int) -> None:
    check(in_order((*KINDS, *reversed(KINDS))), rank, "inductor", uneven=True)


# -- sizes -------------------------------------------------------------------------------------------------------------


def sizes_may_change(rank: int) -> None:
    """The second size is symbolic."""
    compiled = dl.compile(all_gather_into_any_size, backend="aot_eager", fullgraph=True)
    for rows in (3, 4, 5, 6):
        given = torch.arange(2.0 * rows).view(rows, 2) + rank
        assert torch.equal(compiled(given.clone()), all_gather_into_any_size(given.clone()))
    assert dl.counters.graphs == 2


def all_gather_into_any_size(x):
    out = x.new_empty(2 * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(out, x * 2)
    dist.all_reduce(x)
    return out.sum() + x


# -- failures ----------------------------------------------------------------------------------------------------------


def a_graph_that_communicates_is_not_run_again(rank: int) -> None:
    """An index out of range: the graph raises, and the other rank doesn't take part in another collective."""
    table = torch.ones(4, 2)

    def program(x, at):
        y = x * 2
        dist.all_reduce(y)
        return y + torch.nn.functional.embedding(at, table)

    compiled = program if rank else dl.compile(program, backend="eager")
    compiled(torch.ones(2), torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        compiled(torch.ones(2), torch.tensor([1, 9]))
    check_in_step(rank)


def a_condition_on_data_breaks_before_a_collective_is_repeated(rank: int) -> None:
    def program(x):
        y = x * 2
        dist.all_reduce(y)
        torch._check_tensor_all(y > 0)
        return y + 1

    compiled = program if rank else dl.compile(program, backend="eager")
    compiled(torch.ones(2))
    with pytest.raises(RuntimeError):
        compiled(-torch.ones(2))
    check_in_step(rank)


# -- cached functions, which run while their caller is translated ------------------------------------------------------


@functools.cache
def total(rank: int) -> int:
    token = torch.tensor([rank + 1])
    dist.all_reduce(token)
    return int(token)


@functools.cache
def width(count: int) -> int:
    return int(torch.ones(count).sum())


def cached_functions_that_communicate_run_in_the_programs_order(rank: int) -> None:
    def communicates(x):
        y = x * 2
        dist.all_reduce(y)
        return y + total(rank)

    def computes(x):
        return x * width(3)

    for program, breaks in ((communicates, 1), (computes, 0), (lambda x: x + total(rank), 1)):
        wanted = program(torch.ones(2))
        total.cache_clear()
        width.cache_clear()
        dl.counters.reset()
        compiled = program if rank and breaks else dl.compile(program, backend="eager")
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2)), wanted)
        check_in_step(rank)
        assert dl.counters.graph_breaks == (0 if compiled is program else breaks)


# -- one rank that compiles again --------------------------------------------------------------------------------------


def logs_name_the_rank(rank: int) -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    loggers = [logging.getLogger(f"dynamo_lite.{name}") for name in ("breaks", "recompiles")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel("INFO")

    def program(x):
        y = x.float() * 2
        dist.all_reduce(y)
        dl.graph_break()
        return y + 1

    compiled = dl.compile(program, backend="eager", dynamic=False)
    for dtype in (torch.float32, torch.float64 if rank else torch.float32):
        compiled(torch.ones(2, dtype=dtype))
    for logger in loggers:
        logger.removeHandler(handler)
        logger.setLevel("NOTSET")
    assert all(each.startswith(f"rank {rank} of 2: ") for each in said), said
    words = ["DL", *(["is compiled again", "runs again, after"] if rank else [])]
    assert all(any(word in each for each in said) for word in words), said


# -- groups that end ---------------------------------------------------------------------------------------------------


def a_group_is_not_kept_alive(rank: int) -> None:
    group = dist.new_group([0, 1])

    def program(x, group):
        y = x * dist.get_rank(group)
        dist.all_reduce(y, group=group)
        return y

    compiled = dl.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2), group).tolist() == [1, 1]
    assert compiled(torch.ones(2), None).tolist() == [1, 1] and dl.counters.recompiles == 1
    dist.barrier(group)
    dist.destroy_process_group(group)
    with pytest.raises(ValueError, match="not registered"):
        program(torch.ones(2), group)
    with pytest.raises(ValueError, match="not registered"):
        dl.compile(program, backend="eager")(torch.ones(2), group)
    alive = weakref.ref(group)
    del group
    gc.collect()
    assert alive() is None


def deprecated_names_warn_once(rank: int) -> None:
    if not hasattr(dist.all_gather_into_tensor, "__deprecated__"):
        return
    namespace = dist.all_gather_into_tensor.__globals__
    for use in (all_gather_into_tensor, dl.compile(all_gather_into_tensor, backend="eager", fullgraph=True)):
        namespace.pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for _ in range(2):
                use(torch.ones(4, 2))
        assert [(each.category, each.filename) for each in seen] == [(FutureWarning, namespace["__file__"])]


def default_group_is_replaced(rank: int) -> None:
    """This program runs last, because it replaces the groups."""

    def program(x):
        return x + (dist.get_world_size() if dist.is_initialized() else -1)

    def reduced(x):
        y = x * (dist.get_rank() + 1)
        dist.all_reduce(y)
        return y

    compiled, reducing = (dl.compile(fn, backend="eager", fullgraph=True) for fn in (program, reduced))
    x = torch.ones(1)
    assert compiled(x).item() == 3 and reducing(x).item() == 3
    dist.barrier()
    pair.cache_clear()
    mesh.cache_clear()
    dist.destroy_process_group()
    assert compiled(x).item() == 0
    with pytest.raises(ValueError, match="has not been initialized"):
        dl.compile(reduced, backend="eager")(x)
    ranks.initialize(1 - rank, 2, Path(os.environ["FOLDER_OF_RANKS"], "second"))
    assert compiled(x).item() == 3 and reducing(x).item() == 3
    assert dl.counters.graphs == 5
    for _ in range(2):
        compiled(x), reducing(x)
    assert dl.counters.graphs == 5


ON_ANY_DEVICE = (whole_graphs, broken_graphs, one_rank_in_eager, pairs_keep_their_order, sizes_may_change)
PROGRAMS = (
    *ON_ANY_DEVICE,
    a_graph_that_communicates_is_not_run_again,
    a_condition_on_data_breaks_before_a_collective_is_repeated,
    cached_functions_that_communicate_run_in_the_programs_order,
    logs_name_the_rank,
    a_group_is_not_kept_alive,
    deprecated_names_warn_once,
    default_group_is_replaced,
)
THROUGH_INDUCTOR = (through_inductor, all_kinds_keep_their_order_in_inductor)


@pytest.mark.timeout(300)
def test_two_processes(tmp_path):
    assert not (raised := ranks.failures(__file__, PROGRAMS, tmp_path)), raised


@pytest.mark.timeout(300)
def test_two_processes_through_inductor(tmp_path):
    assert not (raised := ranks.failures(__file__, THROUGH_INDUCTOR, tmp_path)), raised


@ranks.needs_two_gpus
@pytest.mark.timeout(300)
@pytest.mark.parametrize("programs", [ON_ANY_DEVICE, THROUGH_INDUCTOR], ids=["graphs", "inductor"])
def test_two_gpus(programs, tmp_path):
    assert not (raised := ranks.failures(__file__, programs, tmp_path, on_gpus=True)), raised
