"""Tensor, sequence and pipeline parallel models, and FSDP over them: compiled, they train as in eager."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import dynamo_lite as dl
import ranks
from programs import Recorder

STEPS = 2


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(blocks))
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


TENSOR = {"up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCE = {
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}


def tensor_parallel(net: Net, mesh: DeviceMesh) -> Net:
    for block in net.blocks:
        parallelize_module(block, mesh, TENSOR)
    return net


def sequence_parallel(net: Net, mesh: DeviceMesh) -> Net:
    split = {"input_layouts": (Replicate(),), "desired_input_layouts": (Shard(1),), "use_local_output": True}
    parallelize_module(net.blocks[0], mesh, PrepareModuleInput(**split))
    for block in net.blocks:
        parallelize_module(block, mesh, SEQUENCE)
    parallelize_module(net.head, mesh, ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()))
    return net


def losses(model: Callable[..., Any], parameters: Any, seed: int = 0) -> list[float]:
    optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=False)  # DTensors and plain parameters don't mix in a list
    found = []
    for step in range(STEPS):
        torch.manual_seed(seed + step)
        loss = model(torch.randn(2, 8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def check_training(
    make: Callable[[], torch.nn.Module], backend: Any, seed: int = 0, graphs: int | None = 1, hooks: str = ""
) -> None:
    """Losses and parameters are eager's. Hooks of this name break the graph, nothing else does."""
    eager, model = make(), make()
    compiled = dl.compile(model, backend=backend)
    wanted, found = losses(eager, eager.parameters(), seed), losses(compiled, model.parameters(), seed)
    assert found == pytest.approx(wanted, rel=1e-5)
    for one, other in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert graphs is None or dl.counters.graphs == graphs, dl.counters.graphs
    for reason in dl.counters.break_reasons:
        assert hooks and hooks in reason, reason


def tensor_parallel_training(rank: int) -> None:
    mesh = init_device_mesh(ranks.device_type(), (2,))
    check_training(lambda: tensor_parallel(Net(), mesh), "aot_eager")


def sequence_parallel_training(rank: int) -> None:
    mesh = init_device_mesh(ranks.device_type(), (2,))
    check_training(lambda: sequence_parallel(Net(), mesh), Recorder())


def fully_sharded_tensor_parallel_training(rank: int) -> None:
    mesh = init_device_mesh(ranks.device_type(), (2, 2), mesh_dim_names=("data", "tensor"))

    def make():
        net = tensor_parallel(Net(), mesh["tensor"])
        for block in net.blocks:
            fully_shard(block, mesh=mesh["data"])
        return fully_shard(net, mesh=mesh["data"])

    check_training(make, Recorder(), seed=10 * mesh.get_local_rank("data"), graphs=None, hooks="_pre_forward")


def distributed_tensors(rank: int) -> None:
    mesh = init_device_mesh(ranks.device_type(), (2,))
    weight = distribute_tensor(torch.arange(32.0).view(8, 4), mesh, [Shard(0)])
    x = distribute_tensor(torch.ones(2, 4), mesh, [Replicate()])

    def program(x, weight):
        return (x @ weight.t()).relu().full_tensor() + 1

    compiled = dl.compile(program, backend=Recorder(), fullgraph=True)
    torch.testing.assert_close(compiled(x, weight), program(x, weight))


def tensor_parallel_through_compilers(rank: int) -> None:
    """Each backend compiles one graph, and one more when the batch changes. Gradients are eager's."""
    mesh = init_device_mesh(ranks.device_type(), (2,))

    def results(backend: str | None) -> list[torch.Tensor]:
        net = tensor_parallel(Net(), mesh)
        run = net if backend is None else dl.compile(net, backend=backend, fullgraph=True)
        found = []
        for batch in (2, 2, 3, 5):
            torch.manual_seed(batch)
            y = run(torch.randn(batch, 8, 16)).square().sum()
            y.backward()
            found += [y.detach(), *(full(each.grad) for each in net.parameters())]
        return found

    wanted = results(None)
    for backend in ("eager", "aot_eager", "inductor"):
        dl.counters.reset()
        for one, other in zip(results(backend), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        assert dl.counters.graphs == 2, (backend, dl.counters.graphs)


def full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def placements_that_change(rank: int) -> None:
    """Placements and the mesh are guarded."""
    mesh, other = init_device_mesh(ranks.device_type(), (2,)), init_device_mesh(ranks.device_type(), (1, 2))
    data = torch.arange(32.0).view(8, 4)

    def program(x):
        kind = "replicated" if x.placements[0].is_replicate() else "sharded"
        return x * 2 + x.device_mesh.ndim, kind, x.to_local() + 1

    recorder = Recorder()
    compiled = dl.compile(program, backend=recorder, fullgraph=True)
    given = [
        *(distribute_tensor(data, mesh, [each]) for each in (Replicate(), Shard(0), Shard(1), Replicate(), Shard(1))),
        distribute_tensor(data, other, [Replicate(), Shard(0)]),
    ]
    for x in given:
        (one, kind, local), (wanted, wanted_kind, wanted_local) = compiled(x), program(x)
        assert kind == wanted_kind and one.placements == wanted.placements and one.device_mesh == wanted.device_mesh
        torch.testing.assert_close(one.to_local(), wanted.to_local())
        torch.testing.assert_close(local, wanted_local)
    assert len(recorder.graphs) == 4


def results_that_are_redistributed(rank: int) -> None:
    mesh = init_device_mesh(ranks.device_type(), (2,))

    def program(x, w):
        local = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
        product = local @ w
        return product.redistribute(mesh, [Replicate()]).to_local() + 1, product

    compiled = dl.compile(program, backend="aot_eager", fullgraph=True)
    w = distribute_tensor(torch.arange(32.0).view(4, 8), mesh, [Shard(1)])
    for x in (torch.ones(2, 4), torch.ones(2, 4) * 2):
        (y, product), (wanted, wanted_product) = compiled(x, w), program(x, w)
        torch.testing.assert_close(y, wanted)
        assert product.placements == wanted_product.placements
        torch.testing.assert_close(product.to_local(), wanted_product.to_local())
    assert dl.counters.graphs == 1


def checkpoints_beside_training(rank: int) -> None:
    """What was saved is the state at the call of ``async_save``, though the compiled model trains on meanwhile."""
    mesh = init_device_mesh(ranks.device_type(), (2,))
    group = dist.new_group([0, 1], backend="cpu:gloo,cuda:nccl" if mesh.device_type == "cuda" else "gloo")
    folder = Path(os.environ["FOLDER_OF_RANKS"], "checkpoint")
    model, other = tensor_parallel(Net(), mesh), tensor_parallel(Net(), mesh)
    compiled = dl.compile(model, backend=Recorder())
    losses(compiled, model.parameters())
    wanted = {name: value.detach().clone() for name, value in model.state_dict().items()}
    saving = dcp.async_save({"model": compiled.state_dict()}, checkpoint_id=folder, process_group=group)
    losses(compiled, model.parameters())
    saving.result()
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=folder, process_group=group)
    for name, value in state["model"].items():
        torch.testing.assert_close(value, wanted[name])
        assert not torch.equal(local(value), local(model.state_dict()[name])), name


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


# -- stages of a pipeline ----------------------------------------------------------------------------------------------


def trained_stage(rank: int, compiler: Callable[[torch.nn.Module], torch.nn.Module]) -> list[torch.Tensor]:
    """This rank's half of the net, after some steps; on the last rank the losses too."""
    net = Net()
    part = torch.nn.Sequential(net.blocks[1], net.head) if rank else torch.nn.Sequential(net.blocks[0])
    stage = PipelineStage(compiler(part), rank, 2, torch.get_default_device())
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda y, wanted: (y - wanted).square().mean())
    optimizer, found = torch.optim.SGD(part.parameters(), lr=0.1), []
    for step in range(STEPS):
        torch.manual_seed(step)
        x, wanted = torch.randn(4, 8, 16), torch.randn(4, 8, 4)
        schedule.step(target=wanted, losses=found) if rank else schedule.step(x)
        optimizer.step()
        optimizer.zero_grad()
    return [*found, *part.parameters()]


def pipeline_of_compiled_stages(rank: int) -> None:
    wanted = trained_stage(rank, lambda part: part)
    found = trained_stage(rank, lambda part: dl.compile(part, backend="aot_eager", fullgraph=True))
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(one, other)
    infers_on_meta = hasattr(PipelineStage, "get_outputs_meta")  # torch 2.11 calls the stage with meta tensors first
    assert dl.counters.graphs == 1 + infers_on_meta


TWO = (
    distributed_tensors,
    tensor_parallel_through_compilers,
    placements_that_change,
    results_that_are_redistributed,
    tensor_parallel_training,
    sequence_parallel_training,
    checkpoints_beside_training,
    pipeline_of_compiled_stages,
)


@pytest.mark.timeout(300)
def test_two_processes(tmp_path):
    assert not (raised := ranks.failures(__file__, TWO, tmp_path)), raised


@ranks.needs_two_gpus
@pytest.mark.timeout(300)
def test_two_gpus(tmp_path):
    assert not (raised := ranks.failures(__file__, TWO, tmp_path, on_gpus=True)), raised


@pytest.mark.timeout(300)
def test_four_processes(tmp_path):
    raised = ranks.failures(__file__, [fully_sharded_tensor_parallel_training], tmp_path, world=4)
    assert not raised, raised
