"""What people write across processes, as small programs: each takes a tensor that differs from rank to rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

Program = Callable[[torch.Tensor], Any]
PROGRAMS: dict[str, Program] = {}


class Setting:
    """What the programs use that exists before they are called: made by `set_up`, once in each process."""

    group: Any
    mesh: Any
    weight: torch.nn.Parameter
    sharded: Any
    parallel: torch.nn.Module


def set_up(device: torch.device) -> None:
    torch.manual_seed(0)
    Setting.group = dist.new_group([0, 1])
    Setting.mesh = init_device_mesh(device.type, (2,), mesh_dim_names=("tensor",))
    Setting.weight = torch.nn.Parameter(torch.ones(2, device=device))
    Setting.sharded = distribute_tensor(torch.arange(8.0, device=device).view(4, 2), Setting.mesh, [Shard(0)])
    layers = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    Setting.parallel = parallelize_module(layers, Setting.mesh, plan)


def program(name: str) -> Callable[[Program], Program]:
    return lambda fn: PROGRAMS.setdefault(name, fn)


# -- ranks and groups --------------------------------------------------------------------------------------------------


@program("get_rank(), get_world_size()")
def _rank(x):
    return x * (dist.get_rank() + 1) + dist.get_world_size()


@program("get_rank(group)")
def _rank_of_group(x):
    return x * (dist.get_rank(Setting.group) + 1) + Setting.group.size()


@program("branch on is_initialized() and the rank")
def _branch(x):
    return x + 1 if dist.is_available() and dist.is_initialized() and dist.get_rank() == 0 else x * 2


@program("get_backend()")
def _backend(x):
    return x + (1 if dist.get_backend() == "gloo" else 2)


@program("mesh.get_local_rank(), size(), get_group()")
def _mesh(x):
    mesh = Setting.mesh
    return x * (mesh.get_local_rank() + 1) + mesh.size() + dist.get_world_size(mesh.get_group())


@program('mesh["tensor"]')
def _mesh_slice(x):
    return x + Setting.mesh["tensor"].size()


# -- collectives in place ----------------------------------------------------------------------------------------------


@program("all_reduce")
def _all_reduce(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1


@program("all_reduce of an argument, MAX, group")
def _all_reduce_max(x):
    dist.all_reduce(x, op=dist.ReduceOp.MAX, group=Setting.group)
    return x + 1


@program("all_reduce of torch.tensor(n)")
def _all_reduce_number(x):
    count = torch.tensor([x.shape[0]], device=x.device)
    dist.all_reduce(count)
    return x / count


@program("broadcast")
def _broadcast(x):
    y = x * 2
    dist.broadcast(y, 1)
    return y + 1


@program("all_gather_into_tensor")
def _all_gather_into_tensor(x):
    out = x.new_empty(2 * x.shape[0], 2)
    dist.all_gather_into_tensor(out, x * 2)
    return out + 1


@program("all_gather")
def _all_gather(x):
    outs = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(outs, x * 2)
    return torch.cat(outs)


@program("reduce_scatter_tensor")
def _reduce_scatter(x):
    out = x.new_empty(x.shape[0] // 2, 2)
    dist.reduce_scatter_tensor(out, x * 2)
    return out + 1


@program("all_to_all_single")
def _all_to_all(x):
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x * 2)
    return out + 1


@program("statistic of a loss, reduced")
def _statistic(x):
    loss = (x * Setting.weight).sum()
    seen = loss.detach().clone()
    dist.all_reduce(seen)
    return loss, seen / 2


@program("all_reduce of what requires gradients")
def _with_gradients(x):
    y = x * Setting.weight
    dist.all_reduce(y)
    return y * 2


@program("in no_grad")
def _no_grad(x):
    with torch.no_grad():
        y = x * Setting.weight
        dist.all_reduce(y)
    return y + x * Setting.weight


# -- asynchronous ones -------------------------------------------------------------------------------------------------


@program("async_op=True, wait()")
def _asynchronous(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x + 1
    work.wait()
    return y + z


@program("several works in a list")
def _several(x):
    ys = [x * 2, x * 3]
    works = [dist.all_reduce(y, async_op=True) for y in ys]
    for work in works:
        work.wait()
    return ys[0] + ys[1]


# -- functional ones ---------------------------------------------------------------------------------------------------


@program("functional all_reduce")
def _functional(x):
    return fc.all_reduce(x, "sum", Setting.group) + 1


@program("functional all_reduce, returned")
def _functional_returned(x):
    return fc.all_reduce(x, "sum", Setting.group)


@program("functional all_reduce, .wait()")
def _functional_wait(x):
    return fc.all_reduce(x, "sum", Setting.group).wait() + 1


@program("functional all_gather over a mesh")
def _functional_mesh(x):
    return fc.all_gather_tensor(x, 0, Setting.mesh) + 1


@program("functional all_gather, dim 1")
def _functional_dim(x):
    return fc.all_gather_tensor(x, 1, Setting.group) + 1


@program("functional reduce_scatter")
def _functional_scatter(x):
    return fc.reduce_scatter_tensor(x, "sum", 0, Setting.group) * 2


@program("functional broadcast, all_to_all")
def _functional_others(x):
    return fc.broadcast(x, 1, Setting.group) + fc.all_to_all_single(x, None, None, Setting.group)


@program("functional, with gradients")
def _functional_gradients(x):
    y = fc.all_reduce(x * Setting.weight, "sum", Setting.group)
    return (fc.all_gather_tensor(y, 0, Setting.group) * Setting.weight).square().mean()


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


@program("in autograd.Functions, both ways")
def _autograd_functions(x):
    return _Reduce.apply(torch.relu(_Copy.apply(x * Setting.weight)))


@program("in a checkpoint")
def _checkpointed(x):
    group = Setting.group

    def part(x):
        return fc.all_reduce(torch.sin(x * Setting.weight), "sum", group) * 2

    return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)


# -- the rest ----------------------------------------------------------------------------------------------------------


@program("barrier")
def _barrier(x):
    y = x + 1
    dist.barrier()
    return y * 2


@program("reduce")
def _reduce(x):
    y = x + 1
    dist.reduce(y, 0)
    return y * 2


@program("in a try")
def _in_a_try(x):
    y = x * 2
    try:
        dist.all_reduce(y)
    except RuntimeError:
        y = x
    return y + 1


@program("DTensor: x @ w.t(), full_tensor()")
def _distributed_tensor(x):
    given = distribute_tensor(x * 0 + 1, Setting.mesh, [Replicate()])
    return (given @ Setting.sharded.t()).full_tensor() + 1


@program("parallelize_module of a net")
def _parallel_module(x):
    return Setting.parallel(x * 0 + 1).sum() * 2
